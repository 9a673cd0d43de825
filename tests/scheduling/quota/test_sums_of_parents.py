"""The queue root and parent queues show the sum of the queues below them under every policy, in rows and in their status."""

import pytest

from events.messages import DeletionSeen, ObjectSeen, QueueStatusRequest
from projections.views.now import queue_rows
from tests.scheduling.builders import EngineHarness, node, pod, raw

PLUGINS = (
    {"name": "capacity"},
    {"name": "capacity", "enableHierarchy": True},
    {"name": "proportion"},
    {"name": "capacity-card"},
    {"name": "priority"},
)


def started(plugin: dict[str, object]) -> EngineHarness:
    """A tree of queues root, eng, dev; a pod of 1 cpu runs in dev, one in alone."""
    tiers = [{"plugins": [{"name": "gang"}, plugin]}]
    harness = EngineHarness(updates_status=True, policy={"actions": "allocate", "tiers": tiers})
    harness.show_all("Node", node("n1", cpu=8))
    harness.show_all(
        "Queue",
        raw("Queue", "root", spec={}),
        raw("Queue", "eng", spec={}),
        raw("Queue", "dev", spec={"parent": "eng"}),
        raw("Queue", "alone", spec={"parent": "root"}),
    )
    harness.show_all("Pod", in_queue("a", "dev"), in_queue("b", "alone"))
    harness.show_the_rest()
    return harness


def in_queue(name: str, queue: str) -> bytes:
    """A pod of 1 cpu that runs in a queue."""
    named = {"annotations": {"scheduling.volcano.sh/queue-name": queue}}
    return pod(name, on="n1", phase="Running", metadata=named)


def shown(harness: EngineHarness) -> dict[str, int]:
    """What the rows of each queue show as allocated cpu."""
    cluster = harness.state.cluster
    return {
        name: amount
        for name in sorted(cluster.queues)
        for _, resource, _, _, _, amount, *_ in queue_rows(cluster, name)
        if resource == "cpu" and isinstance(amount, int)
    }


def written(harness: EngineHarness) -> dict[str, str]:
    """What is to be written as allocated cpu to the status of each queue."""
    asked = harness.engine.requests()
    return {one.name: one.allocated["cpu"] for one in asked if isinstance(one, QueueStatusRequest)}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_parents_sum_up_what_is_below_them(plugin: dict[str, object]) -> None:
    harness = started(plugin)
    assert shown(harness) == {"alone": 1000, "dev": 1000, "eng": 1000, "root": 2000}
    assert written(harness) == {"alone": "1", "dev": "1", "eng": "1", "root": "2"}
    harness.state.validate()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_sum_follows_pods_and_queues(plugin: dict[str, object]) -> None:
    harness = started(plugin)
    harness.see(ObjectSeen(in_queue("c", "dev")))
    assert written(harness)["root"] == "3"
    harness.see(ObjectSeen(raw("Queue", "eng", spec={"parent": "alone"})))
    assert shown(harness) == {"alone": 3000, "dev": 2000, "eng": 2000, "root": 3000}
    assert written(harness)["alone"] == "3"
    harness.see(DeletionSeen(raw("Queue", "alone", spec={"parent": "root"})))
    assert shown(harness)["root"] == 1000, (
        "eng and what is below it have lost their way to the root"
    )
    assert written(harness)["root"] == "1"
    harness.state.validate()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_an_object_of_root_nothing_is_summed_up_there(plugin: dict[str, object]) -> None:
    harness = started(plugin)
    harness.see(DeletionSeen(raw("Queue", "root", spec={})))
    assert shown(harness) == {"alone": 1000, "dev": 1000, "eng": 1000}
    harness.state.validate()


def test_without_a_tree_the_sum_is_no_use_of_the_parent_itself() -> None:
    harness = started({"name": "capacity"})
    root = harness.state.cluster.queues["root"]
    assert (root.sum_of("allocated", "cpu"), dict(root.below)) == (0, {})


def test_parents_of_a_queue_with_groups_of_another_scheduler_are_left_to_that_scheduler() -> None:
    harness = started({"name": "capacity"})
    others = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec = {"schedulerName": "volcano"}
    harness.see(
        ObjectSeen(raw("PodGroup", "g", spec={"minMember": 1, "queue": "dev"})),
        ObjectSeen(pod("x", metadata=others, spec=spec)),
    )
    assert written(harness) == {"alone": "1"}
