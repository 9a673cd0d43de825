"""Filters and scores that only some pods need: inter-pod affinity, topology spread, host ports, image locality."""
