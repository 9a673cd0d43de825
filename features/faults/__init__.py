"""Restarts of jobs after faults."""
