"""A real PostgreSQL, a fresh database a test, made from a template."""
