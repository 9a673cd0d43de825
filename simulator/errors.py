"""Errors of a scenario or a trace: one line that names the place."""

from events.errors import UsageError


class ScenarioError(UsageError):
    """A scenario cannot be read: it names the file, the line and the reason."""


class TraceError(UsageError):
    """A trace cannot be read: it names the file and the column or the line."""
