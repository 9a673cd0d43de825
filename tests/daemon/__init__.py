"""The shores, against the real things where there are any."""
