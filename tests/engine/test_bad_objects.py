"""Groups and queues that say what cannot be: a reason in the right place, once, and all others go on."""

import pytest

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ObjectSeen
from events.normalize import JsonObject
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


def group(spec: JsonObject, phase: str = "") -> bytes:
    """A PodGroup."""
    return raw("PodGroup", "g", spec=spec, status={"phase": phase})


def begun(*groups: bytes, queues: tuple[bytes, ...] = ()) -> EngineHarness:
    """A node, a pod of the group, and one that has nothing to do with it."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Queue", *queues)
    harness.show_all("PodGroup", *groups)
    harness.show_all("Pod", pod("g-0", metadata=GROUPED), pod("other"))
    harness.show_the_rest()
    harness.cycle()
    return harness


def said(harness: EngineHarness) -> list[tuple[str, str]]:
    """Of each refusal recorded since this was last asked its group and code; of each binding its group."""
    records, harness.records = harness.records, []
    found: list[tuple[str, str]] = []
    for event in map(event_of, records):
        if isinstance(event, PodGroupUnschedulable):
            found.append((event.pod_group, event.code))
        elif isinstance(event, GangBindDecided):
            found.append((event.pod_group, "bound"))
        elif isinstance(event, ConfigInvalid):
            found.append((event.subject, event.code))
    return found


OTHER = ("default/podgroup-uid-other", "bound")


@pytest.mark.parametrize(
    "spec",
    [
        {"minMember": "two"},
        {"minMember": 1, "minTaskMember": {"w": "one"}},
        {"minMember": 1, "minResources": {"cpu": "many"}},
        {"minMember": 1, "minResources": ["cpu"]},
        {"minMember": 1, "queue": 7},
        {"minMember": 1, "priorityClassName": ["high"]},
    ],
    ids=str,
)
def test_a_group_that_cannot_be_read_is_refused_once_and_served_when_it_can(
    spec: JsonObject,
) -> None:
    harness = begun(group(spec))
    assert said(harness) == [("default/g", "InvalidPodGroup"), OTHER]
    harness.see(ObjectSeen(node("n2")), ObjectSeen(pod("late")))
    harness.cycle()
    assert said(harness) == [("default/podgroup-uid-late", "bound")]
    harness.see(ObjectSeen(group({"minMember": 1})))
    harness.cycle()
    assert said(harness) == [("default/g", "bound")]


@pytest.mark.parametrize("least", [0, -3])
def test_a_minimum_below_one_is_no_gang(least: int) -> None:
    harness = begun(group({"minMember": least}))
    assert sorted(said(harness)) == [("default/g", "bound"), OTHER]


def test_a_group_of_an_unknown_queue_is_refused_once_and_served_when_it_comes() -> None:
    queue = raw("Queue", "default", spec={})
    harness = begun(group({"minMember": 1, "queue": "nobodys"}), queues=(queue,))
    assert said(harness) == [("default/g", "QueueNotFound"), OTHER]
    harness.see(ObjectSeen(node("n2")), ObjectSeen(raw("Queue", "another", spec={})))
    harness.cycle()
    assert said(harness) == []
    harness.see(ObjectSeen(raw("Queue", "nobodys", spec={})))
    harness.cycle()
    assert said(harness) == [("default/g", "bound")]


def test_a_deleted_queue_with_pods_accepts_no_new_pod_groups() -> None:
    queue = raw("Queue", "q", spec={})
    harness = begun(
        group({"minMember": 1, "queue": "q"}), queues=(queue, raw("Queue", "default", spec={}))
    )
    assert sorted(said(harness)) == [("default/g", "bound"), OTHER]
    harness.see(gone(queue))
    harness.cycle()
    assert said(harness) == []
    assert harness.state.cluster.queues["q"].allocated == {"cpu": 1000}
    harness.see(ObjectSeen(pod("g-1", metadata=GROUPED)), ObjectSeen(pod("late")))
    harness.cycle()
    assert sorted(said(harness)) == [
        ("default/g", "QueueNotFound"),
        ("default/podgroup-uid-late", "bound"),
    ]
    harness.see(ObjectSeen(node("n2")))
    harness.cycle()
    assert said(harness) == []


def test_min_member_above_the_pods_is_reported_once() -> None:
    harness = begun(group({"minMember": 2}, "Inqueue"))
    assert sorted(said(harness)) == [("default/g", "NotEnoughPods"), OTHER]
    harness.see(ObjectSeen(node("n2")))
    harness.cycle()
    assert said(harness) == []
    harness.see(ObjectSeen(pod("g-1", metadata=GROUPED)))
    harness.cycle()
    assert said(harness) == [("default/g", "bound")]


def test_a_missing_priority_class_is_reported_once_and_again_after_deletion() -> None:
    harness = begun(group({"minMember": 1, "priorityClassName": "urgent"}))
    fault = ("PodGroup/default/g", "UnknownPriorityClass")
    assert sorted(said(harness)) == [fault, ("default/g", "bound"), OTHER]
    harness.see(ObjectSeen(node("n2")), ObjectSeen(raw("PriorityClass", "another", value=3)))
    harness.cycle()
    assert said(harness) == []
    urgent = raw("PriorityClass", "urgent", value=7)
    harness.see(ObjectSeen(urgent))
    harness.cycle()
    assert said(harness) == []
    assert harness.state.cluster.groups["default/g"].priority == 7
    harness.see(gone(urgent))
    harness.cycle()
    assert said(harness) == [fault]
    harness.see(ObjectSeen(group({"minMember": 1})))
    assert harness.state.cluster.config_errors.current == {}


@pytest.mark.parametrize("text", ["high", "", "1.5", "0x10", "9" * 40])
def test_an_invalid_task_priority_or_index_is_ignored(text: str) -> None:
    annotations = {"volcano.sh/task-priority": text, "volcano.sh/task-index": text}
    harness = begun(group({"minMember": 2}))
    harness.records = []
    metadata = {"annotations": {**GROUPED["annotations"], **annotations}}
    harness.see(ObjectSeen(pod("g-1", metadata=metadata)))
    harness.cycle()
    assert said(harness) == [("default/g", "bound")]


@pytest.mark.parametrize(
    ("queue", "codes"),
    [
        ({"capability": {"cpu": "lots"}}, ["InvalidQuantity"]),
        ({"deserved": {"cpu": "1.5x"}, "guarantee": {"resource": {"memory": "-"}}}, ["InvalidQuantity"] * 2),
    ],
)  # fmt: skip
def test_an_invalid_quantity_of_a_queue_is_reported_once(
    queue: JsonObject, codes: list[str]
) -> None:
    default = raw("Queue", "default", spec={})
    harness = begun(group({"minMember": 1}), queues=(raw("Queue", "q", spec=queue), default))
    assert [one for one in said(harness) if one[0] == "Queue//q"] == [
        ("Queue//q", code) for code in codes
    ]
    harness.see(ObjectSeen(node("n2")), ObjectSeen(pod("late")))
    harness.cycle()
    assert said(harness) == [("default/podgroup-uid-late", "bound")]


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": 3},
        {"spec": {"weight": "heavy"}},
        {"spec": {"capability": ["cpu"]}},
        {"spec": {"priority": {}}},
        {"spec": {}, "status": {"state": 7}},
    ],
    ids=str,
)
def test_an_invalid_queue_is_reported_and_others_are_scheduled(parts: JsonObject) -> None:
    queue = raw("Queue", "q", spec=parts["spec"], status=parts.get("status"))
    queues = (queue, raw("Queue", "default", spec={}))
    harness = begun(group({"minMember": 1, "queue": "q"}), queues=queues)
    found = said(harness)
    assert OTHER in found
    assert [code for name, code in found if name == "Queue//q"] == ["InvalidQueue"]
    harness.see(ObjectSeen(node("n2")))
    harness.cycle()
    assert said(harness) == []
