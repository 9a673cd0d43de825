"""Tests of replay/world."""
