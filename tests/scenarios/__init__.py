"""Whole behaviours, each a scenario whose file name is the rule it shows."""
