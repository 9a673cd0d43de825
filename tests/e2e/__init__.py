"""Muster as a scheduler of a real API server, from manifests to running pods."""
