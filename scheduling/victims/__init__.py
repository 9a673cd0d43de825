"""Victims of preemption and reclaim: which pods may be evicted for which preemptor, and in which order."""
