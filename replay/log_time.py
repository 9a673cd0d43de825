"""Times of a log: how they are printed, and how users name them.

The log of a simulation begins at 0 and its times are printed as seconds, `12.500s`; those of any other log in RFC
3339, UTC. What is printed can be given to `--at`, which takes a position or a time.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from events.errors import UsageError
from projections.duration import SECOND, nanoseconds

VIRTUAL_UNTIL_NS: Final = 366 * 86_400 * SECOND
"""A log that begins in the first year of the Unix epoch has virtual time."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSITION: Final = re.compile(r"[0-9]{1,18}")


class LogTime(Struct, frozen=True):
    """A point of a log as the user names it: a position, a time of day, or a time since the log began."""

    position: int | None = None
    at_ns: int | None = None
    since_start_ns: int | None = None

    def includes(self, position: int, at_ns: int, start_ns: int) -> bool:
        """Return True if a record is at or before this point; the log began at `start_ns`."""
        if self.position is not None:
            return position <= self.position
        if self.at_ns is not None:
            return at_ns <= self.at_ns
        return self.since_start_ns is None or at_ns - start_ns <= self.since_start_ns


HEAD: Final = LogTime()
"""The end of the log."""


def parse_log_time(text: str) -> LogTime:
    """Parse `812`, `12.5s`, `1h30m` or `2026-01-31T09:30:00Z`. Raises UsageError."""
    text = text.strip()
    if _POSITION.fullmatch(text):
        return LogTime(position=int(text))
    try:
        return LogTime(since_start_ns=nanoseconds(text))
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a moment: give a position such as 812, a time since the start such as"
            " 12.5s, or a time such as 2026-01-31T09:30:00Z"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    since = at - _EPOCH
    whole_seconds = since.days * 86_400 + since.seconds
    return LogTime(at_ns=whole_seconds * SECOND + since.microseconds * 1_000)


def format_time(at_ns: int, start_ns: int) -> str:
    """Print a time of a log that began at `start_ns`, to the millisecond."""
    if start_ns < VIRTUAL_UNTIL_NS:
        return f"{at_ns // SECOND}.{at_ns % SECOND // 1_000_000:03}s"
    at = _EPOCH + timedelta(microseconds=at_ns // 1000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def withheld_text(until_ns: Mapping[str, int]) -> str:
    """Name the resources that a node's kubelet rejected, and until when they are withheld; empty for none (K5.12)."""
    if not until_ns:
        return ""
    until = ", ".join(f"{name} until {format_time(at, at)}" for name, at in until_ns.items())
    return f"its kubelet rejected pods, so no pod is placed there that requests {until}"
