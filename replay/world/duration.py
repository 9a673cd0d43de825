"""Spans of time in scenarios, written as they are in policies."""

from projections.duration import LONGEST_NS, SECOND, nanoseconds

__all__ = ["LONGEST_NS", "SECOND", "nanoseconds"]
