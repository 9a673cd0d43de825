"""Scheduling decisions: a pure function of the cluster state."""
