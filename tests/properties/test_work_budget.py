"""A cycle bounded in work: no pod group is forgotten or starves, and a replay or a restart decides the same."""

from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.work_deferred import WorkDeferred
from events.messages import ObjectSeen
from events.record import Record
from events.union import Event
from features.table import FEATURES
from projections import snapshot
from replay.log_replay import Replay
from tests.example_count import examples
from tests.scheduling.builders import EngineHarness, gone, node, raw

QUEUE: Final = "scheduling.volcano.sh/queue-name"
WIDE: Final = 1_000_000
NARROW: Final = 1
"""Thousands of units: enough for one or two pods an action and cycle."""

ALL: Final = "enqueue, allocate, preempt, reclaim, gangpreempt, gangreclaim, backfill"


def policy(budget: int, actions: str = "enqueue, allocate, backfill") -> dict[str, object]:
    """A policy under which a cycle may take so many thousands of units."""
    return {
        "actions": actions,
        "configurations": [{"name": "cycle", "arguments": {"workBudget": budget}}],
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "predicates"}]}],
    }


def pod(
    name: str, cpu: int, queue: str = "a", namespace: str = "default", priority: int = 0
) -> bytes:
    """A pod of its own group."""
    requests = {"cpu": f"{cpu}m"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    spec = {"schedulerName": "muster", "containers": containers, "priority": priority}
    meta = {"annotations": {QUEUE: queue}, "namespace": namespace}
    return raw(
        "Pod", name, f"{namespace}-{name}", metadata=meta, spec=spec, status={"phase": "Pending"}
    )


def cluster(
    budget: int, pods: list[bytes], cpu: int = 64, actions: str = "enqueue, allocate, backfill"
) -> EngineHarness:
    """A cluster of two nodes in which pods wait."""
    harness = EngineHarness(policy=policy(budget, actions))
    harness.show_all("Node", node("n1", cpu=cpu), node("n2", cpu=cpu))
    queues = [raw("Queue", name, spec={}, status={"state": "Open"}) for name in ("a", "b", "c")]
    harness.show_all("Queue", *queues)
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    return harness


def to_rest(harness: EngineHarness, most: int = 400) -> int:
    """Hold cycles until none is due. How many that took."""
    for count in range(most):
        if not harness.engine.is_due(harness.now_ns):
            return count
        harness.cycle(0)
    raise AssertionError("it does not come to rest")


def rest_of(harness: EngineHarness) -> object:
    """The present placements, and the reasons of the unschedulable groups."""
    groups = harness.state.cluster.groups
    placed = sorted(pod.key for pod in harness.state.cluster.pods.values() if pod.node)
    refused = {
        key: {name: one.code for name, one in sorted(group.decided.refusals.items())}
        for key, group in sorted(groups.items())
    }
    return placed, refused


def events(harness: EngineHarness) -> list[Event]:
    """What happened so far."""
    return [event_of(one) for one in harness.records]


waiting = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from("abc"),
        st.sampled_from(("default", "x", "y")),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=14,
)


def _pods(described: list[tuple[int, str, str, int]]) -> list[bytes]:
    return [
        pod(f"p{index}", 10 * size + index, queue, namespace, priority)
        for index, (size, queue, namespace, priority) in enumerate(described)
    ]


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", ALL])
@pytest.mark.parametrize("cpu", [64, 0])
@settings(max_examples=examples(15), deadline=None)
@given(described=waiting)
def test_a_narrow_work_budget_reaches_the_same_placements(
    actions: str, cpu: int, described: list[tuple[int, str, str, int]]
) -> None:
    wide, narrow = (cluster(one, _pods(described), cpu, actions) for one in (WIDE, NARROW))
    to_rest(wide)
    to_rest(narrow)
    assert rest_of(wide) == rest_of(narrow)
    assert not narrow.state.deferred_work.batches


@settings(max_examples=examples(10), deadline=None)
@given(described=waiting, cpu=st.sampled_from((64, 1, 0)))
def test_a_replay_and_a_daemon_started_from_a_snapshot_decide_the_same(
    described: list[tuple[int, str, str, int]], cpu: int
) -> None:
    harness = cluster(NARROW, _pods(described), cpu, ALL)
    while harness.engine.is_due(harness.now_ns):
        restored = Engine(
            snapshot.restore(snapshot.take(harness.state), FEATURES), harness.engine.head
        )
        before = len(harness.records)
        harness.cycle(0)
        batch = restored.cycle(harness.now_ns)
        assert batch is not None
        assert _said(batch.records) == _said(harness.records[before:])
    assert any(isinstance(event, WorkDeferred) for event in events(harness)) or len(described) < 4


def _said(records: list[Record]) -> list[tuple[int, str, bytes]]:
    return [(one.position, one.kind, bytes(one.body)) for one in records]


def test_changes_that_come_while_work_is_deferred_are_not_forgotten() -> None:
    pods = [pod(f"p{index}", 30_000 + index) for index in range(12)]
    harness = cluster(NARROW, [*pods, pod("large", 64_000)], cpu=1)
    to_rest(harness)
    harness.see(ObjectSeen(node("n1", cpu=32)))
    for _ in range(3):
        harness.cycle(0)
    assert harness.state.deferred_work.batches
    harness.see(ObjectSeen(node("n2", cpu=64)), gone(pods[0]))
    to_rest(harness)
    placed = {one.key: one.node for one in harness.state.cluster.pods.values() if one.node}
    assert placed == {"default/p4": "n1", "default/large": "n2"}
    assert not harness.state.deferred_work.batches


def looked_at(harness: EngineHarness, key: str) -> int:
    """How many cycles it took until a decision was made on a group."""
    cycles = 0
    for event in events(harness):
        cycles += isinstance(event, WorkDeferred)
        if isinstance(
            event, GangBindDecided | PodGroupUnschedulable
        ) and event.pod_group.startswith(key):
            return cycles
    raise AssertionError(f"{key} was not looked at")


@pytest.mark.parametrize("place", ["queue", "namespace"])
def test_a_tenant_with_many_unlike_pods_does_not_keep_others_waiting(place: str) -> None:
    crowd = [pod(f"crowd-{index}", 100 + index, "a", "crowd") for index in range(200)]
    small = pod("small", 10, "b" if place == "queue" else "a", "small")
    harness = cluster(20, [*crowd, small])
    harness.cycle()
    harness.cycle(0)
    bound = [one.key for one in harness.state.cluster.pods.values() if one.node]
    assert "small/small" in bound
    assert len(bound) < len(crowd)
    to_rest(harness)
    assert all(one.node for one in harness.state.cluster.pods.values())


LABEL: Final = "example.com/team"


def bound_while_deferred(
    pods: list[bytes], labels: dict[str, dict[str, str]], tenants: dict[str, str]
) -> tuple[int, int]:
    """Return how many pods of a crowd, and of a few others, cycles bind that share their work out from the beginning:
    those after the first one that was cut short."""
    harness = EngineHarness(policy={**policy(60), "tenants": tenants})
    harness.show_all("Node", node("n1", cpu=640), node("n2", cpu=640))
    named = [raw("Namespace", name, metadata={"labels": one}) for name, one in labels.items()]
    harness.show_all("Namespace", *named)
    queues = ("a", "z", *(f"q{index}" for index in range(60)))
    harness.show_all("Queue", *(raw("Queue", one, spec={}) for one in queues))
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    harness.cycle()
    before = {one.key for one in harness.state.cluster.pods.values() if one.node}
    for _ in range(4):
        harness.cycle(0)
    bound = [one.key for one in harness.state.cluster.pods.values() if one.node]
    names = [one.partition("/")[2] for one in bound if one not in before]
    assert len(bound) < len(pods), "the cycles were not cut short"
    return sum(one.startswith("crowd") for one in names), sum(
        one.startswith("few") for one in names
    )


@pytest.mark.parametrize("tenants", [{}, {"label": LABEL}])
def test_a_tenant_with_many_queues_has_one_share_of_a_cycle(tenants: dict[str, str]) -> None:
    crowd = [pod(f"crowd-{index}", 100 + index, f"q{index % 60}", "crowd") for index in range(600)]
    few = [pod(f"few-{index}", 100 + index, "z", "few") for index in range(300)]
    of_crowd, of_few = bound_while_deferred([*crowd, *few], {"few": {LABEL: "few"}}, tenants)
    assert of_few >= 40
    assert abs(of_crowd - of_few) <= 20


def test_a_tenant_with_many_namespaces_has_one_share_of_a_cycle() -> None:
    crowd = [pod(f"crowd-{index}", 100 + index, "a", f"n{index % 60}") for index in range(600)]
    few = [pod(f"few-{index}", 100 + index, "a", "z") for index in range(300)]
    labels = {f"n{index}": {LABEL: "crowd"} for index in range(60)}
    of_crowd, of_few = bound_while_deferred([*crowd, *few], labels, {"label": LABEL})
    assert of_few >= 40
    assert abs(of_crowd - of_few) <= 20
    of_crowd, of_few = bound_while_deferred([*crowd, *few], labels, {})
    assert of_crowd > 10 * of_few


def test_a_gang_larger_than_the_budget_is_placed_whole_in_one_cycle() -> None:
    annotation = {"scheduling.k8s.io/group-name": "gang", QUEUE: "a"}
    group = raw(
        "PodGroup", "gang", spec={"minMember": 40, "queue": "a"}, status={"phase": "Inqueue"}
    )
    pods = [
        msgspec.json.encode({**one, "metadata": {**one["metadata"], "annotations": annotation}})
        for one in (msgspec.json.decode(pod(f"g{index}", 1000)) for index in range(40))
    ]
    harness = cluster(NARROW, pods)
    harness.show_all("PodGroup", group)
    crowd = [ObjectSeen(pod(f"p{index}", 100 + index, "b")) for index in range(20)]
    harness.see(*crowd)
    to_rest(harness)
    binds = [one for one in events(harness) if isinstance(one, GangBindDecided)]
    assert 40 in [len(one.placements) for one in binds]
    assert all(one.node for one in harness.state.cluster.pods.values())


def test_a_cycle_within_its_budget_defers_nothing() -> None:
    harness = cluster(800, [pod(f"p{index}", 100 + index) for index in range(20)])
    harness.cycle()
    assert not any(isinstance(event, WorkDeferred) for event in events(harness))
    assert not harness.engine.is_due(harness.now_ns)


def test_records_replay_to_the_same_decisions() -> None:
    harness = cluster(
        NARROW, [pod(f"p{index}", 20_000 + index, "abc"[index % 3]) for index in range(9)]
    )
    to_rest(harness)
    replay = Replay()
    contents = {one.digest: one.content for batch in harness.batches for one in batch.objects}
    for record in harness.records:
        content = contents.get(record.object) if record.object else None
        assert replay.take(record, content) is None
    assert replay.finish() is None


@settings(max_examples=examples(12), deadline=None)
@given(
    described=waiting,
    stream=st.lists(st.sampled_from(("same", "queue", "namespace")), min_size=1, max_size=3),
    actions=st.sampled_from(("enqueue, allocate, backfill", ALL)),
)
def test_every_waiting_group_is_looked_at_however_much_else_happens(
    described: list[tuple[int, str, str, int]], stream: list[str], actions: str
) -> None:
    """No pod fits; in each cycle a node changes, which makes all due again, and a pod comes that is no more urgent."""
    harness = cluster(NARROW, _pods(described), 0, actions)
    unseen = {one.key for one in harness.state.cluster.pods.values()}
    bound = 3 * len(described) + 3
    for turn in range(bound):
        harness.cycle(0)
        unseen -= _looked_at(harness)
        if not unseen:
            return
        place = {"queue": ("c", "default"), "namespace": ("a", "new")}
        queue, namespace = place.get(stream[turn % len(stream)], described[0][1:3])
        harness.see(
            ObjectSeen(node("n1", cpu=0, labels={"turn": str(turn)})),
            ObjectSeen(pod(f"younger-{turn}", 500 + turn, queue, namespace)),
        )
    raise AssertionError(f"{sorted(unseen)} not looked at in {bound} cycles")


def _looked_at(harness: EngineHarness) -> set[str]:
    """Pods whose groups an action other than `enqueue` decided on or looked at so far."""
    found: set[str] = set()
    for event in events(harness):
        if isinstance(event, GangBindDecided) or (
            isinstance(event, PodGroupUnschedulable) and event.action != "enqueue"
        ):
            found.add(event.pod_group)
        elif isinstance(event, WorkDeferred):
            for one in event.actions:
                found.update(one.looked if one.action != "enqueue" else ())
    return {one.key for one in harness.state.cluster.pods.values() if one.group_key in found}
