"""Deciders of pools."""
