"""A search for pods to evict is bounded in work: it goes on over cycles, looks at all nodes, and replays the same."""

from typing import Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.search_deferred import SearchDeferred
from events.messages import ObjectSeen
from events.record import Record
from features.table import FEATURES
from projections import snapshot
from replay.log_replay import Replay
from tests.projections.bases import base_of, folded
from tests.scheduling.builders import EngineHarness, gone, node, raw

QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUP: Final = "scheduling.k8s.io/group-name"
WIDE: Final = 1_000_000
NARROW: Final = 2
"""Thousands of units: enough for a few nodes in a cycle."""

NODES: Final = 24
CPU: Final = 8


def policy(budget: int, actions: str, protection: str = "always") -> dict[str, object]:
    """A policy under which a cycle may take so many thousands of units."""
    arguments = {"workBudget": budget, "protection": protection}
    return {
        "actions": actions,
        "configurations": [{"name": "cycle", "arguments": arguments}],
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "conformance"}]},
            {"plugins": [{"name": "capacity"}, {"name": "predicates"}, {"name": "nodeorder"}]},
        ],
    }


def pod(
    name: str,
    cpu: int,
    queue: str = "a",
    *,
    on: str = "",
    priority: int = 0,
    group: str = "",
    is_held: bool = False,
) -> bytes:
    """A pod that runs on a node or waits."""
    spec: dict[str, object] = {
        "schedulerName": "muster",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{cpu}m"}}}],
        "priority": priority,
        **({"nodeName": on} if on else {}),
    }
    annotations = {QUEUE: queue, **({GROUP: group} if group else {})}
    meta = {
        "annotations": annotations,
        "namespace": "default",
        "labels": {"held": str(is_held).lower()},
    }
    status = {"phase": "Running" if on else "Pending"}
    return raw("Pod", name, f"default-{name}", metadata=meta, spec=spec, status=status)


def cluster(
    budget: int,
    actions: str,
    pods: list[bytes],
    *,
    gangs: tuple[tuple[str, int], ...] = (),
    protection: str = "always",
) -> EngineHarness:
    """A cluster of nodes in which pods wait and some that run are held by a disruption budget."""
    harness = EngineHarness(policy=policy(budget, actions, protection))
    harness.show_all("Node", *[node(f"n{index:02}", cpu=CPU) for index in range(NODES)])
    queues = [
        raw("Queue", "a", spec={"deserved": {"cpu": "1000"}}, status={"state": "Open"}),
        raw("Queue", "b", spec={"deserved": {"cpu": "1"}}, status={"state": "Open"}),
    ]
    harness.show_all("Queue", *queues)
    harness.show_all("PriorityClass", raw("PriorityClass", "high", value=100))
    harness.show_all(
        "PodGroup",
        *[
            raw(
                "PodGroup",
                name,
                spec={"minMember": least, "queue": "a", "priorityClassName": "high"},
                status={"phase": "Inqueue"},
            )
            for name, least in gangs
        ],
    )
    held = {"maxUnavailable": 0, "selector": {"matchLabels": {"held": "true"}}}
    harness.show_all(
        "PodDisruptionBudget",
        raw(
            "PodDisruptionBudget",
            "held",
            metadata={"namespace": "default"},
            spec=held,
            status={"disruptionsAllowed": 0},
        ),
    )
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    return harness


def full(queue: str, free: tuple[int, ...]) -> list[bytes]:
    """Pods that fill all nodes; only those on these nodes may be evicted."""
    return [
        pod(f"r{index:02}-{part}", 4_000, queue, on=f"n{index:02}", is_held=index not in free)
        for index in range(NODES)
        for part in range(2)
    ]


def victims_of(action: str) -> str:
    """The queue whose pods an action evicts for a pod of queue `a`."""
    return "a" if "preempt" in action else "b"


def actions_of(action: str) -> str:
    """Actions of a policy with one that evicts."""
    return f"enqueue, allocate, {action}"


def to_rest(harness: EngineHarness, most: int = 200) -> list[int]:
    """Hold cycles until none is due: the units of each."""
    units: list[int] = []
    while harness.engine.is_due(harness.now_ns):
        harness.cycle(0)
        units.append(harness.engine.decider.session.work.done)
        assert len(units) < most, "it does not come to rest"
    return units


Found = TypeVar("Found")


def of_kind(harness: EngineHarness, kind: type[Found]) -> list[Found]:
    """The events of a kind so far."""
    return [one for one in map(event_of, harness.records) if isinstance(one, kind)]


def search(harness: EngineHarness, cycles: int) -> None:
    """Hold cycles until a search was cut short so often."""
    while len(of_kind(harness, SearchDeferred)) < cycles:
        assert harness.engine.is_due(harness.now_ns)
        harness.cycle(0)


STEP: Final = 1_000
"""Units of the largest step here: a class of pods, a decision, or a node."""

SEARCHING: Final = ("preempt", "reclaim")
GANG_EVICTING: Final = ("gangpreempt", "gangreclaim")


@pytest.mark.parametrize("action", SEARCHING)
def test_a_cycle_takes_its_budget_and_one_step_where_a_search_is_in_vain(action: str) -> None:
    pods = [*full(victims_of(action), ()), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods)
    units = to_rest(harness)
    assert max(units) <= 1_000 * NARROW + STEP
    searched = of_kind(harness, SearchDeferred)
    assert len(searched) > 2
    # The refusal comes when all nodes were looked at, and counts them all.
    [refusal] = [one for one in of_kind(harness, PodGroupUnschedulable) if one.action == action]
    assert (
        f"{NODES} node(s) would not have enough room after evicting all allowed victims"
        in refusal.message
    )


@pytest.mark.parametrize("action", GANG_EVICTING)
def test_a_cycle_is_bounded_where_a_gang_is_searched_for_in_vain(action: str) -> None:
    pods = [*full(victims_of(action), ()), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods)
    units = to_rest(harness)
    assert max(units) <= 1_000 * NARROW + 2 * STEP
    assert len(of_kind(harness, SearchDeferred)) > 2
    [refusal] = [one for one in of_kind(harness, PodGroupUnschedulable) if one.action == action]
    assert (
        "part(s) of the cluster would not have enough room after evicting all allowed victims"
        in refusal.message
    )


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_a_search_among_protected_pods_follows_the_first_one_and_is_bounded_as_well(
    action: str,
) -> None:
    pods = [*full(victims_of(action), ()), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods, protection="withinDeserved")
    units = to_rest(harness)
    assert max(units) <= 1_000 * NARROW + 2 * STEP
    assert len(of_kind(harness, SearchDeferred)) > 2
    [asked] = of_kind(harness, EvictionDecided)
    assert len(asked.evictions) == 1, "the budget of one pod is asked"
    [refusal] = [one for one in of_kind(harness, PodGroupUnschedulable) if one.action == action]
    assert "protected by disruption budgets" in refusal.message


@pytest.mark.parametrize("action", [*SEARCHING, *GANG_EVICTING])
@pytest.mark.parametrize("last", [0, 11, NODES - 1])
def test_a_node_that_can_be_freed_is_found_wherever_it_is(action: str, last: int) -> None:
    pods = [*full(victims_of(action), (last,)), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods)
    to_rest(harness)
    [eviction] = of_kind(harness, EvictionDecided)
    assert {one.node for one in eviction.evictions} == {f"n{last:02}"}


@pytest.mark.parametrize("action", SEARCHING)
def test_a_gang_is_made_room_for_on_nodes_that_different_cycles_find(action: str) -> None:
    gang = [pod(f"g{index}", 5_000 + index, group="gang", priority=100) for index in range(3)]
    pods = [*full(victims_of(action), (3, 12, NODES - 1)), *gang]
    harness = cluster(NARROW, actions_of(action), pods, gangs=(("gang", 3),))
    units = to_rest(harness)
    evicted = {pod.node for one in of_kind(harness, EvictionDecided) for pod in one.evictions}
    assert evicted == {"n03", "n12", f"n{NODES - 1}"}
    assert max(units) <= 1_000 * NARROW + len(gang) * STEP


def test_nothing_is_evicted_for_a_gang_of_which_one_pod_finds_no_node() -> None:
    gang = [pod(f"g{index}", 5_000 + index, group="gang", priority=100) for index in range(3)]
    pods = [*full("a", (3, NODES - 1)), *gang]
    harness = cluster(NARROW, actions_of("preempt"), pods, gangs=(("gang", 3),))
    to_rest(harness)
    assert not of_kind(harness, EvictionDecided)
    assert [one.code for one in of_kind(harness, PodGroupUnschedulable) if one.action == "preempt"]


@pytest.mark.parametrize("action", [*SEARCHING, *GANG_EVICTING])
def test_a_node_that_was_looked_at_in_vain_and_changes_is_looked_at_again(action: str) -> None:
    victims = victims_of(action)
    pods = [*full(victims, ()), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods)
    search(harness, cycles=2)
    harness.see(gone(pods[0]), ObjectSeen(pod("new", 4_000, victims, on="n00")))
    to_rest(harness)
    [eviction] = of_kind(harness, EvictionDecided)
    assert [one.pod for one in eviction.evictions] == ["default/new"]
    assert any(one.is_outdated for one in of_kind(harness, SearchDeferred))


def test_a_search_begins_again_where_the_group_asks_for_something_else() -> None:
    gang = [pod(f"g{index}", 5_000, group="gang", priority=100) for index in range(2)]
    harness = cluster(NARROW, actions_of("preempt"), [*full("a", ()), *gang], gangs=(("gang", 2),))
    search(harness, cycles=2)
    before = of_kind(harness, SearchDeferred)[-1]
    harness.see(gone(gang[1]), ObjectSeen(pod("g2", 6_000, group="gang", priority=100)))
    harness.cycle(0)
    after = of_kind(harness, SearchDeferred)[-1]
    assert after.wanted != before.wanted
    assert after.nodes < before.nodes
    to_rest(harness)


def test_a_search_ends_with_its_group() -> None:
    high = pod("high", 3_000, priority=100)
    harness = cluster(NARROW, actions_of("preempt"), [*full("a", ()), high])
    search(harness, cycles=2)
    assert not harness.state.deferred_work.is_empty
    harness.see(gone(high))
    to_rest(harness)
    assert harness.state.deferred_work.is_empty


running = st.sets(st.integers(0, NODES - 1), max_size=4).map(lambda one: tuple(sorted(one)))
waiting = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 2)), min_size=1, max_size=3)


def described(action: str, free: tuple[int, ...], pods: list[tuple[int, int]]) -> list[bytes]:
    """Pods that run, of which those on some nodes may be evicted, and pods that wait."""
    return [
        *full(victims_of(action), free),
        *[
            pod(f"w{index}", 1_000 * cpu + index, priority=100 * urgency)
            for index, (cpu, urgency) in enumerate(pods)
        ],
    ]


@pytest.mark.parametrize("action", [*SEARCHING, *GANG_EVICTING])
@settings(max_examples=5, deadline=None)
@given(free=running, pods=waiting)
def test_an_unbounded_search_finds_no_more_when_nothing_is_due(
    action: str, free: tuple[int, ...], pods: list[tuple[int, int]]
) -> None:
    harness = cluster(NARROW, actions_of(action), described(action, free, pods))
    to_rest(harness)
    found = len(of_kind(harness, EvictionDecided))
    harness.change_policy(policy(WIDE, actions_of(action)))
    assert harness.engine.is_due(harness.now_ns)
    to_rest(harness)
    assert len(of_kind(harness, EvictionDecided)) == found


@pytest.mark.parametrize("action", [*SEARCHING, *GANG_EVICTING])
def test_a_search_goes_on_from_a_base_however_classes_of_pods_are_numbered(action: str) -> None:
    early = pod("early", 1_500, priority=100)
    pods = [early, *full(victims_of(action), (NODES - 1,)), pod("high", 3_000, priority=100)]
    harness = cluster(NARROW, actions_of(action), pods)
    harness.see(gone(early))
    search(harness, cycles=2)
    contents = contents_of(harness)
    base = folded(base_of(harness.state, contents), contents, harness.state.position)
    continued = Engine(base, harness.engine.head)
    assert_alike_to_rest(harness, continued)


def contents_of(harness: EngineHarness) -> dict[str, bytes]:
    """All objects that were observed, by digest."""
    return {one.digest: one.content for batch in harness.batches for one in batch.objects}


def assert_alike_to_rest(harness: EngineHarness, other: Engine) -> None:
    """Hold cycles until none is due, in another engine as well: both decide the same."""
    while harness.engine.is_due(harness.now_ns):
        before = len(harness.records)
        harness.cycle(0)
        batch = other.cycle(harness.now_ns)
        assert batch is not None
        assert _said(batch.records) == _said(harness.records[before:])
    assert not other.is_due(harness.now_ns)


ALL: Final = "preempt, reclaim, gangpreempt, gangreclaim"


@settings(max_examples=5, deadline=None)
@given(free=running, pods=waiting)
def test_a_replay_and_a_daemon_started_from_a_snapshot_search_the_same(
    free: tuple[int, ...], pods: list[tuple[int, int]]
) -> None:
    harness = cluster(NARROW, actions_of(ALL), described("preempt", free, pods))
    while harness.engine.is_due(harness.now_ns):
        restored = Engine(
            snapshot.restore(snapshot.take(harness.state), FEATURES), harness.engine.head
        )
        before = len(harness.records)
        harness.cycle(0)
        batch = restored.cycle(harness.now_ns)
        assert batch is not None
        assert _said(batch.records) == _said(harness.records[before:])
    replay = Replay()
    contents = contents_of(harness)
    for record in harness.records:
        content = contents.get(record.object) if record.object else None
        assert replay.take(record, content) is None
    assert replay.finish() is None


def _said(records: list[Record]) -> list[tuple[int, str, bytes]]:
    return [(one.position, one.kind, bytes(one.body)) for one in records]
