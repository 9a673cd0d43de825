"""Tests of what muster does to the cluster."""
