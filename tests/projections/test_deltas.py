"""Which deltas a record has for queues and policies."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import pytest

from events.messages import ObjectSeen
from events.normalize import JsonObject
from features.table import FEATURES
from projections.cluster import Cluster
from projections.deltas import PolicyChanged, QueueChanged
from projections.index import Index
from projections.plugin import Plugin
from tests.scheduling.builders import EngineHarness, gone, pod, raw


class Deltas(Index):
    """The deltas of queues and policies since the index was built."""

    name = "deltas"
    COMPARED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.seen: list[QueueChanged | PolicyChanged] = []

    def rebuilt(self, _cluster: Cluster, /) -> Index:
        return Deltas()

    def on_queue(self, _cluster: Cluster, delta: QueueChanged) -> None:
        self.seen.append(delta)

    def on_policy(self, _cluster: Cluster, delta: PolicyChanged) -> None:
        self.seen.append(delta)


class Watcher(Plugin):
    """A plugin that brings the index."""

    name = "watcher"

    def indexes(self) -> Iterable[Index]:
        return (Deltas(),)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The plugin is installed for the test."""
    FEATURES.policy_table.add(Watcher)
    yield
    del FEATURES.policy_table.plugins[Watcher.name]


POLICY: dict[str, object] = {"actions": "allocate", "tiers": [{"plugins": [{"name": "watcher"}]}]}


def queue(weight: int, allocated: str = "1") -> bytes:
    """The queue q."""
    status: JsonObject = {"state": "Open", "allocated": {"cpu": allocated}}
    return raw("Queue", "q", spec={"weight": weight}, status=status)


def seen(harness: EngineHarness) -> list[QueueChanged | PolicyChanged]:
    """The deltas since this was asked last."""
    index = harness.state.cluster.indexes.of(Deltas)
    found, index.seen = index.seen, []
    return found


def weights(harness: EngineHarness) -> list[tuple[int | None, int | None, bool, bool]]:
    """Of each delta of the queue: its weight before and now, whether its spec is the same, and whether it is gone."""
    return [
        (
            None if one.old is None else one.old.weight,
            None if one.queue.facts is None else one.queue.facts.weight,
            one.is_same_spec,
            one.is_gone,
        )
        for one in seen(harness)
        if isinstance(one, QueueChanged) and one.queue.name == "q"
    ]


def test_a_queue_changes_with_its_pod_groups_and_its_object() -> None:
    harness = EngineHarness(policy=POLICY)
    member = pod("a", metadata={"annotations": {"scheduling.volcano.sh/queue-name": "q"}})
    harness.show_the_rest()
    seen(harness)
    harness.see(ObjectSeen(member))
    assert weights(harness) == [(None, None, False, False)]
    harness.see(ObjectSeen(queue(1)))
    assert weights(harness) == [(None, 1, False, False)]
    harness.see(ObjectSeen(queue(1, allocated="2")))
    assert weights(harness) == [(1, 1, True, False)]
    harness.see(ObjectSeen(queue(2)))
    assert weights(harness) == [(1, 2, False, False)]
    harness.see(gone(queue(2)))
    assert weights(harness) == [(2, None, False, False)]
    harness.see(gone(member))
    assert weights(harness) == [(None, None, False, True)]


def test_another_policy_has_the_plugins_before_and_is_in_force() -> None:
    harness = EngineHarness(policy=POLICY)
    cluster = harness.state.cluster
    before = cluster.plugins
    harness.change_policy({**POLICY, "actions": "enqueue, allocate"})
    assert cluster.plugins is not before
    assert [one.old for one in seen(harness) if isinstance(one, PolicyChanged)] == [before]
