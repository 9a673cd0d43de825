"""The log in SQL."""
