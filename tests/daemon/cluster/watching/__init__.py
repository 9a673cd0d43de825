"""Tests of the reflectors."""
