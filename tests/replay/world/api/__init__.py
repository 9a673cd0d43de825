"""Tests of replay/world/api."""
