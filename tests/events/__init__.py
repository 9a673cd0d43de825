"""The vocabulary of the log."""
