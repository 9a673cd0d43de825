"""Tests of simulator/api_server."""
