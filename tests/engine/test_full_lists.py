"""A full list beside a watch, compared with the log: what differs is recorded, as the list has it."""

from events.cluster import ObjectDeleted
from events.codec import event_of
from events.messages import (
    DeletionSeen,
    FullListEnded,
    FullListPage,
    FullListStarted,
    ListCompleted,
    ListStarted,
    ObjectSeen,
    WatchMessage,
)
from events.watch import KindCompared, WatchClosed
from tests.scheduling.builders import EngineHarness, pod


def listed(*raws: bytes, is_whole: bool = True) -> list[WatchMessage]:
    """A full list of pods, a page an object."""
    pages = [FullListPage("Pod", (raw,)) for raw in raws]
    return [FullListStarted("Pod", "10"), *pages, FullListEnded("Pod", "10", is_whole)]


def began(*names: str) -> EngineHarness:
    """These pods, all of them known; nothing recorded."""
    harness = EngineHarness()
    harness.show_all("Pod", *map(pod, names), revision="10")
    harness.show_the_rest()
    harness.kinds()
    return harness


def compared(harness: EngineHarness) -> list[tuple[int, int]]:
    """Objects and differences of each comparison."""
    events = [event_of(record) for record in harness.records]
    return [(one.count, one.differences) for one in events if isinstance(one, KindCompared)]


def test_a_list_that_shows_what_is_known_changes_nothing() -> None:
    harness = began("a", "b")
    harness.see(*listed(pod("a"), pod("b")))
    assert compared(harness) == [(2, 0)]
    assert harness.kinds() == ["kind_compared Pod//"]


def test_what_differs_follows_with_the_comparison_as_its_cause() -> None:
    harness = began("a", "b", "phantom")
    other = pod("b", phase="Failed")
    harness.see(*listed(pod("a"), other, pod("unseen")))
    assert compared(harness) == [(3, 3)]
    position = harness.records[0].position
    assert {record.cause for record in harness.records[1:]} == {position}
    [gone] = [event_of(one) for one in harness.records if one.kind == ObjectDeleted.kind]
    assert isinstance(gone, ObjectDeleted)
    assert gone.synthesized
    assert harness.kinds() == [
        "kind_compared Pod//",
        "object_deleted Pod/default/phantom",
        "object_observed Pod/default/b",
        "object_observed Pod/default/unseen",
    ]
    assert sorted(harness.state.cluster.pods) == ["uid-a", "uid-b", "uid-unseen"]


def test_what_the_watch_shows_meanwhile_is_newer_than_the_list() -> None:
    """Made, changed and deleted since the list's revision."""
    harness = began("changed", "deleted", "known")
    whole = listed(pod("changed"), pod("deleted"), pod("known"))
    harness.see(whole[0], ObjectSeen(pod("changed", phase="Failed")), whole[1])
    harness.see(ObjectSeen(pod("made")), whole[2], DeletionSeen(pod("deleted")), *whole[3:])
    assert compared(harness) == [(3, 0)]
    assert sorted(harness.state.cluster.pods) == ["uid-changed", "uid-known", "uid-made"]
    assert harness.state.cluster.pods["uid-changed"].facts.phase == "Failed"


def test_a_list_that_could_not_be_had_whole_says_nothing() -> None:
    harness = began("a")
    harness.see(*listed(is_whole=False))
    assert compared(harness) == []
    assert "uid-a" in harness.state.cluster.pods


def test_a_gap_in_between_ends_the_comparison() -> None:
    harness = began("a")
    whole = listed()
    gap = WatchClosed(resource="Pod", resource_version="10", cause="expired", has_gap=True)
    harness.see(
        whole[0],
        gap,
        ListStarted("Pod"),
        ObjectSeen(pod("a")),
        ListCompleted("Pod", "20", 1),
        *whole[1:],
    )
    assert compared(harness) == []
    assert "uid-a" in harness.state.cluster.pods


def test_a_comparison_leaves_the_revision_from_which_the_watch_goes_on() -> None:
    harness = began("a")
    harness.see(ObjectSeen(pod("b", metadata={"resourceVersion": "30"})))
    harness.see(*listed(pod("a")))
    assert harness.state.watched["Pod"] == "30"
