"""Queues as a tree: places are found again only where something changed, and depth is limited."""

from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import ObjectSeen
from events.normalize import JsonObject
from projections.queues import LEVELS_MAX
from tests.projections.test_queue_facts import facts_with
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

NAMES = ("root", "a", "b", "c", "d", "e")

POLICY: dict[str, object] = {
    "actions": "allocate",
    "tiers": [{"plugins": [{"name": "capacity", "enableHierarchy": True}]}],
}


def queue(name: str, parent: str = "", guarantee: int = 0) -> bytes:
    """A queue below another."""
    spec: JsonObject = {"parent": parent} if parent else {}
    if guarantee:
        spec["guarantee"] = {"resource": {"cpu": str(guarantee)}}
    return raw("Queue", name, spec=spec, status={"state": "Open"})


def places(harness: EngineHarness) -> object:
    """Where each queue stands, and what stands below it."""
    cluster = harness.state.cluster
    return {
        name: (
            one.parent and one.parent.name,
            one.misplaced,
            sorted(one.children),
            {ledger: sums for ledger, sums in one.below.items() if sums},
        )
        for name, one in sorted(cluster.queues.items())
    }, cluster.queue_tree.guaranteed


changes = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(("gone", "", *NAMES)), st.integers(0, 2)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(changes, max_size=14))
def test_queue_positions_after_any_changes_equal_rebuilt_ones(
    steps: list[tuple[str, str, int]],
) -> None:
    harness = EngineHarness(policy=POLICY)
    harness.see(ObjectSeen(node("n1", cpu=32)))
    queue_name = "scheduling.volcano.sh/queue-name"
    for index, name in enumerate(NAMES[1:]):
        meta = {"annotations": {queue_name: name}}
        harness.see(ObjectSeen(pod(f"p{index}", on="n1", phase="Running", metadata=meta)))
    for name, parent, guarantee in steps:
        shown = queue(name, "" if parent == "gone" else parent, guarantee)
        harness.see(gone(shown) if parent == "gone" else ObjectSeen(shown))
        kept = places(harness)
        harness.state.cluster.queue_tree.rebuild(harness.state.cluster)
        assert kept == places(harness)


def test_a_queue_too_deep_takes_no_pods_and_says_why() -> None:
    harness = EngineHarness(policy=POLICY)
    chain = [queue(f"q{i}", f"q{i - 1}" if i else "") for i in range(LEVELS_MAX + 2)]
    harness.show_all("Queue", *reversed(chain))
    deepest = f"q{LEVELS_MAX + 1}"
    meta = {"annotations": {"scheduling.volcano.sh/queue-name": deepest}}
    harness.show_all("Pod", pod("p", metadata=meta))
    harness.show_all("Node", node("n1", cpu=32))
    harness.show_the_rest()
    harness.cycle()
    queues = harness.state.cluster.queues
    assert not queues[f"q{LEVELS_MAX - 1}"].misplaced
    assert (
        queues[f"q{LEVELS_MAX}"].misplaced == f"it is more than {LEVELS_MAX} levels below the root"
    )
    assert queues[deepest].misplaced
    [group] = harness.state.cluster.groups.values()
    assert group.decided.refusals["allocate"].code == "QueueMisplaced"


def test_an_annotated_way_that_is_too_long_is_a_fault_of_the_queue() -> None:
    way = "/".join(f"l{i}" for i in range(LEVELS_MAX + 2))
    facts = facts_with(hierarchy=way)
    assert facts.path == ()
    assert [code for code, _ in facts.faults] == ["InvalidHierarchy"]
    assert len(facts_with(hierarchy=way.partition("/")[2]).path) == LEVELS_MAX + 1
