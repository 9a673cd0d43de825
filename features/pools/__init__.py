"""Pools of nodes, and the deciders of pools that are not decided by actions and plugins."""
