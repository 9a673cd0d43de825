"""Groups and queues that say what cannot be: a reason in the right place, once, and all others go on."""

import pytest

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ObjectSeen
from events.normalize import JsonObject
from tests.scheduling.given import Told, gone, node, pod, raw

GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


def group(spec: JsonObject, phase: str = "") -> bytes:
    """A PodGroup."""
    return raw("PodGroup", "g", spec=spec, status={"phase": phase})


def begun(*groups: bytes, queues: tuple[bytes, ...] = ()) -> Told:
    """A node, a pod of the group, and one that has nothing to do with it."""
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_all("Queue", *queues)
    told.show_all("PodGroup", *groups)
    told.show_all("Pod", pod("g-0", metadata=GROUPED), pod("other"))
    told.show_the_rest()
    told.cycle()
    return told


def said(told: Told) -> list[tuple[str, str]]:
    """Of each refusal recorded since this was last asked its group and code; of each binding its group."""
    records, told.records = told.records, []
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
    told = begun(group(spec))
    assert said(told) == [("default/g", "InvalidPodGroup"), OTHER]
    told.see(ObjectSeen(node("n2")), ObjectSeen(pod("late")))
    told.cycle()
    assert said(told) == [("default/podgroup-uid-late", "bound")]
    told.see(ObjectSeen(group({"minMember": 1})))
    told.cycle()
    assert said(told) == [("default/g", "bound")]


@pytest.mark.parametrize("least", [0, -3])
def test_a_minimum_below_one_is_no_gang(least: int) -> None:
    told = begun(group({"minMember": least}))
    assert sorted(said(told)) == [("default/g", "bound"), OTHER]


def test_a_group_of_an_unknown_queue_is_refused_once_and_served_when_it_comes() -> None:
    queue = raw("Queue", "default", spec={})
    told = begun(group({"minMember": 1, "queue": "nobodys"}), queues=(queue,))
    assert said(told) == [("default/g", "QueueNotFound"), OTHER]
    told.see(ObjectSeen(node("n2")), ObjectSeen(raw("Queue", "another", spec={})))
    told.cycle()
    assert said(told) == []
    told.see(ObjectSeen(raw("Queue", "nobodys", spec={})))
    told.cycle()
    assert said(told) == [("default/g", "bound")]


def test_a_deleted_queue_with_pods_accepts_no_new_pod_groups() -> None:
    queue = raw("Queue", "q", spec={})
    told = begun(
        group({"minMember": 1, "queue": "q"}), queues=(queue, raw("Queue", "default", spec={}))
    )
    assert sorted(said(told)) == [("default/g", "bound"), OTHER]
    told.see(gone(queue))
    told.cycle()
    assert said(told) == []
    assert told.state.cluster.queues["q"].allocated == {"cpu": 1000}
    told.see(ObjectSeen(pod("g-1", metadata=GROUPED)), ObjectSeen(pod("late")))
    told.cycle()
    assert sorted(said(told)) == [
        ("default/g", "QueueNotFound"),
        ("default/podgroup-uid-late", "bound"),
    ]
    told.see(ObjectSeen(node("n2")))
    told.cycle()
    assert said(told) == []


def test_min_member_above_the_pods_is_reported_once() -> None:
    told = begun(group({"minMember": 2}, "Inqueue"))
    assert sorted(said(told)) == [("default/g", "NotEnoughPods"), OTHER]
    told.see(ObjectSeen(node("n2")))
    told.cycle()
    assert said(told) == []
    told.see(ObjectSeen(pod("g-1", metadata=GROUPED)))
    told.cycle()
    assert said(told) == [("default/g", "bound")]


def test_a_missing_priority_class_is_reported_once_and_again_after_deletion() -> None:
    told = begun(group({"minMember": 1, "priorityClassName": "urgent"}))
    fault = ("PodGroup/default/g", "UnknownPriorityClass")
    assert sorted(said(told)) == [fault, ("default/g", "bound"), OTHER]
    told.see(ObjectSeen(node("n2")), ObjectSeen(raw("PriorityClass", "another", value=3)))
    told.cycle()
    assert said(told) == []
    urgent = raw("PriorityClass", "urgent", value=7)
    told.see(ObjectSeen(urgent))
    told.cycle()
    assert said(told) == []
    assert told.state.cluster.groups["default/g"].priority == 7
    told.see(gone(urgent))
    told.cycle()
    assert said(told) == [fault]
    told.see(ObjectSeen(group({"minMember": 1})))
    assert told.state.cluster.config_errors.current == {}


@pytest.mark.parametrize("text", ["high", "", "1.5", "0x10", "9" * 40])
def test_an_invalid_task_priority_or_index_is_ignored(text: str) -> None:
    annotations = {"volcano.sh/task-priority": text, "volcano.sh/task-index": text}
    told = begun(group({"minMember": 2}))
    told.records = []
    metadata = {"annotations": {**GROUPED["annotations"], **annotations}}
    told.see(ObjectSeen(pod("g-1", metadata=metadata)))
    told.cycle()
    assert said(told) == [("default/g", "bound")]


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
    told = begun(group({"minMember": 1}), queues=(raw("Queue", "q", spec=queue), default))
    assert [one for one in said(told) if one[0] == "Queue//q"] == [
        ("Queue//q", code) for code in codes
    ]
    told.see(ObjectSeen(node("n2")), ObjectSeen(pod("late")))
    told.cycle()
    assert said(told) == [("default/podgroup-uid-late", "bound")]


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
    told = begun(group({"minMember": 1, "queue": "q"}), queues=queues)
    found = said(told)
    assert OTHER in found
    assert [code for name, code in found if name == "Queue//q"] == ["InvalidQueue"]
    told.see(ObjectSeen(node("n2")))
    told.cycle()
    assert said(told) == []
