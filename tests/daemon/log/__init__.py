"""The log, in memory and in every database."""
