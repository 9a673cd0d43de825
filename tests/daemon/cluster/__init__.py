"""Tests of the shore towards the cluster."""
