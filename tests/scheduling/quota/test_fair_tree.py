"""Dominant shares of queues in a tree: kept up group by group, at a cost that does not grow with their number."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from events.messages import ListCompleted, ObjectSeen, WatchMessage
from scheduling.quota.fair_tree import FairTree
from scheduling.quota.queue_order import QueueHeap, QueueSortKey
from tests.example_count import examples
from tests.scheduling.builders import SECOND, EngineHarness, gone, node, pod, raw

QUEUE = "scheduling.volcano.sh/queue-name"
POLICY: dict[str, object] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "drf", "enableHierarchy": True}, {"name": "predicates"}]},
    ],
}
BRANCHES = {"a": "root/x/a", "b": "root/x/b", "c": "root/y/c", "d": "root/y", "e": "root/e"}


def queue(name: str, way: str = "", weights: str = "") -> bytes:
    """A queue with its way down from the root."""
    meta = {"annotations": {"volcano.sh/hierarchy": way, "volcano.sh/hierarchy-weights": weights}}
    return raw("Queue", name, metadata=meta if way else {}, spec={}, status={"state": "Open"})


def _pod(name: str, of: str, cpu: int, memory: int, on: str = "") -> bytes:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    meta = {"annotations": {QUEUE: of}}
    phase = "Running" if on else "Pending"
    return pod(name, on=on, phase=phase, metadata=meta, spec=spec)


def keys(tree: FairTree, harness: EngineHarness) -> dict[str, object]:
    """The place of each queue that has pod groups."""
    queues = harness.state.cluster.queues
    return {name: tree.key(one) for name, one in sorted(queues.items()) if one.groups}


moves = st.tuples(
    st.integers(0, 5),
    st.sampled_from(sorted(BRANCHES)),
    st.integers(1, 3),
    st.sampled_from(("waits", "runs", "goes")),
)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(moves, max_size=20))
def test_a_tree_kept_up_by_deltas_equals_a_rebuilt_one(
    steps: list[tuple[int, str, int, str]],
) -> None:
    harness = EngineHarness(policy=POLICY)
    harness.show_all("Node", node("n1", cpu=4))
    harness.show_all(
        "Queue",
        *[queue(name, way, "1/2/3"[: 2 * way.count("/") + 1]) for name, way in BRANCHES.items()],
    )
    harness.show_the_rest()
    harness.cycle()
    tree, cluster = FairTree(harness.state.cluster), harness.state.cluster
    for index, name, size, what in steps:
        on = "n1" if what == "runs" else ""
        shown = _pod(f"p{index}", name, size * 700, size * 100, on)
        harness.see(gone(shown) if what == "goes" else ObjectSeen(shown))
        tree.refresh()
        fresh = FairTree(cluster)
        fresh.refresh()
        assert keys(tree, harness) == keys(fresh, harness)
        names = [one for one in cluster.queues if cluster.queues[one].groups]
        turns = QueueHeap(cluster, names, tree)
        by_key = [QueueSortKey(cluster, cluster.queues[one], fresh) for one in names]
        assert turns.first() == (min(by_key).queue.name if names else None)


def test_a_trial_leaves_no_trace() -> None:
    harness = EngineHarness(policy=POLICY)
    harness.show_all("Node", node("n1", cpu=4))
    harness.show_all("Queue", *[queue(name, way) for name, way in BRANCHES.items()])
    harness.show_all("Pod", *[_pod(f"p{i}", name, 500, 100) for i, name in enumerate(BRANCHES)])
    harness.show_the_rest()
    harness.cycle()
    tree = FairTree(harness.state.cluster)
    tree.refresh()
    before = keys(tree, harness)
    assert tree.changed_since(harness, []) == {}
    for key in harness.state.cluster.groups:
        tree.assume({key: {"cpu": 4000}})
    assert keys(tree, harness) != before
    tree.discard_assumptions()
    assert keys(tree, harness) == before


def alike(count: int, of: Callable[[int], str]) -> list[bytes]:
    """Pods of which no two are alike, in the queues that `of` names."""
    return [_pod(f"p{i}", of(i), 100 + i, 10) for i in range(count)]


def chain(count: int) -> list[bytes]:
    """Queues of which each states the one before as its parent."""
    parents = [{"parent": f"q{i - 1}"} if i else {} for i in range(count)]
    return [raw("Queue", f"q{i}", spec=one, status={}) for i, one in enumerate(parents)]


@pytest.mark.parametrize("shape", ["one queue", "a chain", "one branch"])
@pytest.mark.parametrize("plugin", ["drf", "capacity"])
def test_twice_as_many_groups_and_queues_cost_twice_as_much(shape: str, plugin: str) -> None:
    few, many = (calls_for(shape, plugin, count) for count in (60, 240))
    assert many < 4.6 * few


def calls_for(shape: str, plugin: str, count: int) -> int:
    """How many calls it takes to take in so many unlike pods and decide on them."""
    by_index = shape != "one queue"
    queues = {
        "one queue": [queue("q0")],
        "a chain": chain(count),
        "one branch": [queue(f"q{i}", f"root/x/q{i}") for i in range(count)],
    }[shape]
    policy = {
        **POLICY,
        "tiers": [{"plugins": [{"name": plugin, "enableHierarchy": True}, {"name": "predicates"}]}],
    }
    engine = EngineHarness(policy=policy).engine
    pods = alike(count, lambda i: f"q{i}" if by_index else "q0")
    shown: list[WatchMessage] = []
    for kind, raws in (("Node", [node("n1", cpu=64)]), ("Queue", queues), ("Pod", pods)):
        shown += [*[ObjectSeen(one) for one in raws], ListCompleted(kind, "1", len(raws))]
    shown += [ListCompleted(kind, "1", 0) for kind in ("PriorityClass", "PodGroup")]
    return counted(engine, shown)


def counted(engine: Engine, shown: list[WatchMessage]) -> int:
    """Calls of functions while a step takes something in and decides."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        engine.observe(shown, SECOND)
        assert engine.cycle(2 * SECOND) is not None
    finally:
        sys.setprofile(None)
    return calls
