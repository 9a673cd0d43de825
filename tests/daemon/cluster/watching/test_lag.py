"""How far a watch is behind, from the times in objects."""

import msgspec
import pytest

from daemon.cluster.watching.lag import SAMPLE_SECONDS, WINDOW_SECONDS, WatchLag
from events.messages import ObjectSeen, WatchMessage

NOON_NS = 1_767_268_800_000_000_000
"""2026-01-01T12:00:00Z"""


def seen(*times: str, created: str | None = "2025-01-01T00:00:00Z") -> list[WatchMessage]:
    """The event of an object that was written at these times."""
    metadata = {"creationTimestamp": created, "managedFields": [{"time": one} for one in times]}
    return [ObjectSeen(msgspec.json.encode({"metadata": metadata}))]


def test_the_smallest_of_several_samples_counts() -> None:
    lag = WatchLag(lambda: NOON_NS)
    for index, written in enumerate(("11:58:00", "11:58:30", "10:00:00")):
        assert lag.at(index * SAMPLE_SECONDS) is None
        text = f"2026-01-01T{written}Z"
        lag.sample(seen("2025-06-01T00:00:00Z", text), index * SAMPLE_SECONDS)
    assert lag.at(10.0) == 90.0
    assert lag.at(10.0 + WINDOW_SECONDS) is None


def test_few_events_are_looked_at_and_a_new_object_is_not_behind() -> None:
    lag = WatchLag(lambda: NOON_NS)
    for moment in (0.0, 1.0, 2.0, 3.0, 4.0):
        lag.sample(seen(created="2026-01-01T12:00:03Z"), moment)
    assert lag.at(4.0) == 0.0


@pytest.mark.parametrize(
    "raw", [b"{}", b"[]", b'{"metadata":{"creationTimestamp":"x"}}', b'{"metadata":{}}', b"{"]
)
def test_an_object_without_times_says_nothing(raw: bytes) -> None:
    lag = WatchLag(lambda: NOON_NS)
    for index in range(5):
        lag.sample([ObjectSeen(raw)], index * SAMPLE_SECONDS)
    assert lag.at(10.0) is None
