"""What is wrong with a scenario or a trace, in one line that says where."""

from events.errors import UsageError


class ScenarioError(UsageError):
    """A scenario cannot be read: it names the file, the line and the reason."""


class TraceError(UsageError):
    """A trace cannot be read: it names the file and the column or the line."""
