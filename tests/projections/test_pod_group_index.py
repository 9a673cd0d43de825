"""Pod groups are settled once, and what follows for groups of one shape is computed once (projections/pod_group_index.py)."""

from collections import Counter
from collections.abc import Sequence

import pytest

from events.messages import ObjectSeen
from projections.cluster import Cluster
from projections.deltas import PodGroupChanged
from projections.group_shapes import GroupShapes, Shape, ShapeResult
from projections.index import Indexes
from projections.pod_groups import PodGroup
from tests.scheduling.builders import EngineHarness, node, pod
from tests.structure import check_same, structure_of

PODS = 6


def harness() -> EngineHarness:
    """A node, and everything listed."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=16))
    harness.show_the_rest()
    harness.cycle()
    return harness


def come(harness: EngineHarness, count: int, begin: int = 0) -> None:
    """Show so many equal pods, each a group for itself, in one batch."""
    harness.see(*[ObjectSeen(pod(f"p{index}")) for index in range(begin, begin + count)])


def test_what_follows_for_equal_groups_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness_ = harness()
    found: list[Shape] = []
    real = GroupShapes.add

    def counted(
        self: GroupShapes, cluster: Cluster, group: PodGroup, shape: Shape, result: ShapeResult
    ) -> None:
        found.append(shape)
        real(self, cluster, group, shape, result)

    monkeypatch.setattr(GroupShapes, "add", counted)
    come(harness_, PODS)
    assert len(found) == 1
    come(harness_, PODS, begin=PODS)
    assert len(found) == 1
    harness_.state.validate()
    before = len(found)
    harness_.cycle()
    # Admitted, and with a node: each once for all of them.
    assert len(found) - before <= 2
    harness_.state.validate()
    assert {one.node for one in harness_.state.cluster.pods.values()} == {"n1"}


def test_a_group_that_is_marked_several_times_is_settled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness_ = harness()
    come(harness_, 2)
    cluster = harness_.state.cluster
    dispatched: Counter[str] = Counter()
    real = Indexes.dispatch_pod_groups

    def counted(self: Indexes, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        dispatched.update(one.group.key for one in changes)
        real(self, cluster, changes)

    monkeypatch.setattr(Indexes, "dispatch_pod_groups", counted)
    for position in (3, 5, 4):
        cluster.pod_groups.mark_all(cluster.groups, position)
    cluster.pod_groups.settle(cluster)
    assert dispatched == dict.fromkeys(cluster.groups, 1)
    cluster.pod_groups.settle(cluster)
    assert dispatched == dict.fromkeys(cluster.groups, 1)


def test_a_fork_copies_a_group_before_it_changes_it() -> None:
    harness_ = harness()
    come(harness_, 1)
    state = harness_.state
    [key] = state.cluster.groups
    twin = state.fork()
    assert twin.cluster.groups[key] is state.cluster.groups[key]
    ours = state.cluster.pod_groups.own(state.cluster, key)
    assert twin.cluster.groups[key] is not ours
    assert state.cluster.pod_groups.own(state.cluster, key) is ours
    ours.pods.clear()
    assert twin.cluster.groups[key].pods
    twin.validate()


def test_a_fork_settles_groups_as_its_original_does() -> None:
    harness_ = harness()
    come(harness_, 1)
    harness_.cycle()
    twin = harness_.state.fork()
    for state in (harness_.state, twin):
        state.cluster.pod_groups.mark_all(state.cluster.groups, state.position)
        state.cluster.pod_groups.settle(state.cluster)
    check_same(structure_of(harness_.state), structure_of(twin), "settling a fork")
