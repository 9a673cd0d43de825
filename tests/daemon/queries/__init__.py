"""Tests of what is served over HTTP."""
