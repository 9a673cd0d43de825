"""Times of a log: how they are printed, and how users name them.

The log of a simulation begins at 0 and its times are printed as seconds, `12.500s`; those of any other log in RFC
3339, UTC. What is printed can be given to every option that takes a moment (`--at`, `--from`, `--to`, `--since`).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from events.duration import SECOND, nanoseconds
from events.errors import UsageError
from events.limits import quoted

VIRTUAL_UNTIL_NS: Final = 366 * 86_400 * SECOND
"""A log that begins in the first year of the Unix epoch has virtual time."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSITION: Final = re.compile(r"[0-9]{1,18}")
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_UNIT: Final = re.compile(r"[a-z]$")

DAY_NS: Final = 86_400 * SECOND

MOMENTS: Final = (
    "a position (812), a time with its zone (2026-01-31T09:30:00Z), a time of day in UTC (10:05 or 10:05:30: "
    "the last one up to the end of the log), a time before the end of the log (-5m), or one after its start (12.5s)"
)
"""What a user can give for a moment, for help and errors."""


class LogTime(Struct, frozen=True):
    """A moment of a log as the user names it. At most one field is given; without any it is the end of the log."""

    position: int | None = None
    at_ns: int | None = None
    """Nanoseconds since the Unix epoch."""
    since_start_ns: int | None = None
    """Nanoseconds after the first record; in a simulation after its beginning, which may be archived."""
    before_end_ns: int | None = None
    """Nanoseconds before the last record."""
    clock_ns: int | None = None
    """A time of day in UTC, in nanoseconds after midnight: the last such time up to the end of the log."""

    @property
    def text(self) -> str:
        """Return the moment in a form that `parse_log_time` takes; empty for the end of the log."""
        if self.position is not None:
            return str(self.position)
        if self.at_ns is not None:
            return format_time(self.at_ns, VIRTUAL_UNTIL_NS)
        if self.clock_ns is not None:
            return format_time(self.clock_ns, VIRTUAL_UNTIL_NS)[11:19]
        if self.before_end_ns is not None:
            return f"-{format_time(self.before_end_ns, 0)}"
        return "" if self.since_start_ns is None else format_time(self.since_start_ns, 0)

    def time_ns(self, start_ns: int, end_ns: int) -> int | None:
        """Return the time in nanoseconds since the Unix epoch, for a log from `start_ns` to `end_ns`; None for a position or the end of the log."""
        if self.at_ns is not None:
            return self.at_ns
        if self.since_start_ns is not None:
            return (0 if start_ns < VIRTUAL_UNTIL_NS else start_ns) + self.since_start_ns
        if self.before_end_ns is not None:
            return end_ns - self.before_end_ns
        if self.clock_ns is not None:
            return end_ns - (end_ns - self.clock_ns) % DAY_NS
        return None

    def includes(self, position: int, at_ns: int, start_ns: int) -> bool:
        """Return True if a record is at or before this moment; the log began at `start_ns`.

        A moment that depends on the end of the log has to be resolved first (`daemon/queries/moments.py`).
        """
        assert self.before_end_ns is None, "a moment before the end is not resolved"
        assert self.clock_ns is None, "a time of day is not resolved"
        if self.position is not None:
            return position <= self.position
        time_ns = self.time_ns(start_ns, at_ns)
        return time_ns is None or at_ns <= time_ns


HEAD: Final = LogTime()
"""The end of the log."""


def parse_log_time(text: str) -> LogTime:
    """Parse `812`, `2026-01-31T09:30:00Z`, `10:05`, `-5m` or `12.5s`. Raises UsageError."""
    text = text.strip()
    if _POSITION.fullmatch(text):
        return LogTime(position=int(text))
    if (clock := _CLOCK.fullmatch(text)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        if hours > 23 or minutes > 59 or seconds > 59:
            raise UsageError(f"{text!r} is not a time of day: give 00:00 to 23:59:59")
        return LogTime(clock_ns=(hours * 3600 + minutes * 60 + seconds) * SECOND)
    is_before_end = text.startswith("-")
    length = text.removeprefix("-")
    if _UNIT.search(length):
        try:
            length_ns = nanoseconds(length)
        except ValueError:
            pass
        else:
            return (
                LogTime(before_end_ns=length_ns)
                if is_before_end
                else LogTime(since_start_ns=length_ns)
            )
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{quoted(text)} is not a moment: give {MOMENTS}") from None
    if at.tzinfo is None:
        raise UsageError(
            f"{quoted(text)} has no time zone: give a time such as 2026-01-31T09:30:00Z or 2026-01-31T10:30:00+01:00"
        )
    try:
        since = at - _EPOCH
    except OverflowError:
        raise UsageError(f"{quoted(text)} is out of the range of times") from None
    whole_seconds = since.days * 86_400 + since.seconds
    return LogTime(at_ns=whole_seconds * SECOND + since.microseconds * 1_000)


def format_time(at_ns: int, start_ns: int) -> str:
    """Print a time of a log that began at `start_ns`, to the millisecond."""
    if start_ns < VIRTUAL_UNTIL_NS:
        return f"{at_ns // SECOND}.{at_ns % SECOND // 1_000_000:03}s"
    at = _EPOCH + timedelta(microseconds=at_ns // 1000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unready_text(end_ns: int | None, *, counts: bool) -> str:
    """Say whether a node that is not ready counts in what queues deserve, and until when; empty for a ready one."""
    if not counts:
        return "not ready for longer than notReadyTimeout: counts neither in shares nor in what queues deserve"
    if end_ns is None:
        return ""
    return f"not ready: counts in shares and in what queues deserve until {format_time(end_ns, end_ns)}"


def withheld_text(until_ns: Mapping[str, int]) -> str:
    """Name the resources that a node's kubelet rejected, and until when they are withheld; empty for none (K5.12)."""
    if not until_ns:
        return ""
    until = ", ".join(f"{name} until {format_time(at, at)}" for name, at in until_ns.items())
    return f"its kubelet rejected pods, so no pod is placed there that requests {until}"
