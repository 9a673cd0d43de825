"""The one place that speaks HTTP to an API server: credentials, deadlines, retries, typed errors."""
