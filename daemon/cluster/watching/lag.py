"""How far a watch is behind: the time from the last write of an object until its event is read.

The time of the last write stands in `metadata` of the object: the latest of its creation and of its `managedFields`. An
event now and then is looked at, and the smallest of the last times counts, since a write does not always renew them. The
clocks of the API server and of this machine differ, so a few seconds mean nothing. DELETED events have no such time.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from events.limits import UNDECODABLE
from events.messages import ObjectSeen, WatchMessage

SAMPLE_SECONDS: Final = 2.0
"""At most one event in so many seconds is looked at."""

WINDOW_SECONDS: Final = 60.0
"""Samples of so many seconds count."""

SAMPLES_MIN: Final = 3
"""With fewer samples nothing is said."""


class _Field(Struct):
    time: str | None = None


class _Metadata(Struct):
    creationTimestamp: str | None = None  # noqa: N815
    managedFields: list[_Field] | None = None  # noqa: N815


class _Object(Struct):
    metadata: _Metadata


_decoder: Final = msgspec.json.Decoder(_Object)


class WatchLag:
    """The samples of one watch."""

    def __init__(self, now_ns: Callable[[], int] | None = None) -> None:
        """`now_ns` is the time of this machine since the epoch; without it nothing is looked at."""
        self._now_ns = now_ns
        self._samples: deque[tuple[float, float]] = deque()
        """Moment of the loop's clock, and seconds that the event came late."""
        self._next = 0.0

    def sample(self, messages: list[WatchMessage], moment: float) -> None:
        """Look at the last of some events that were read at a moment, if it is time for a sample."""
        if self._now_ns is None or moment < self._next:
            return
        last = next((one for one in reversed(messages) if isinstance(one, ObjectSeen)), None)
        written = None if last is None else _written_seconds(last.raw)
        if written is None:
            return
        self._next = moment + SAMPLE_SECONDS
        self._samples.append((moment, max(0.0, self._now_ns() / 1_000_000_000 - written)))
        self._prune(moment)

    def at(self, moment: float) -> float | None:
        """Return how many seconds the watch is behind; None if too few events came lately."""
        self._prune(moment)
        if len(self._samples) < SAMPLES_MIN:
            return None
        return min(late for _, late in self._samples)

    def _prune(self, moment: float) -> None:
        while self._samples and self._samples[0][0] < moment - WINDOW_SECONDS:
            self._samples.popleft()


def _written_seconds(raw: bytes) -> float | None:
    """Return when an object was written last, in seconds since the epoch; None if it does not say."""
    try:
        metadata = _decoder.decode(raw).metadata
    except UNDECODABLE:
        return None
    times = [metadata.creationTimestamp, *(one.time for one in metadata.managedFields or ())]
    # RFC 3339 in UTC and whole seconds: as texts in the order of time.
    latest = max((one for one in times if one), default="")
    try:
        return msgspec.convert(latest, datetime).timestamp() if latest else None
    except (msgspec.ValidationError, OverflowError):
        return None
