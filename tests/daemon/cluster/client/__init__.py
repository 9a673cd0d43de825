"""Tests of the client of an API server, against small servers of their own."""
