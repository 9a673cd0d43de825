"""Tests of projections."""
