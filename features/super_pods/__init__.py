"""Placement of gangs in logical SuperPoDs: blocks of nodes, each of which is in one SuperPoD."""
