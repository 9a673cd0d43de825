"""Histories that a cluster could write, made at random, and what must hold in all of them."""
