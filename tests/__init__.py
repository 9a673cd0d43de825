"""Tests: stories, scenarios, properties and contracts."""
