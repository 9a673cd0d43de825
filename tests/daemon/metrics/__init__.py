"""Tests of what muster measures of itself."""
