"""Database schema, one step a file."""
