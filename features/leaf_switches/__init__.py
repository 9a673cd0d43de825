"""Placement of gangs under leaf switches (ToR affinity of the Ascend device stack, generations 1.0 and 2.0)."""
