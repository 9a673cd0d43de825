"""Tests of daemon/cluster/server."""
