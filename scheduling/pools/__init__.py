"""Pools: fair share, priority and round robin over groups of nodes."""
