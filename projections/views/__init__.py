"""Views: State as rows for SQL, updated with each batch."""
