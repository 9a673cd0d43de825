"""Errors of a trace: one line that names the place."""

from events.errors import UsageError


class TraceError(UsageError):
    """A trace cannot be read: it names the file and the column or the line."""
