"""Ascend products and virtual NPUs."""
