"""Restarts after faults."""
