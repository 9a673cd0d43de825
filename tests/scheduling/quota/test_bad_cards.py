"""Cards asked for or allowed in ways that cannot be: a reason in the right place, once, and all others go on."""

import pytest
from msgspec import Struct

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ObjectSeen
from events.normalize import JsonObject
from tests.scheduling.given import Told, raw

GPU, SLICE, NPU = "nvidia.com/gpu", "nvidia.com/mig-1g", "huawei.com/npu"
QUOTA = '{"A": 4, "A/mig-1g-mixed": 4, "910B": 4, "H800": 4}'
GOOD: JsonObject = {GPU: "1"}


def machine(name: str, product: str = "A", **labels: str) -> bytes:
    """A node with cards, whole and cut."""
    amounts: JsonObject = {"cpu": "8", "pods": "110", GPU: "4", SLICE: "4"}
    metadata: JsonObject = {"labels": {"nvidia.com/gpu.product": product, **labels}}
    return raw("Node", name, metadata=metadata, spec={}, status={"allocatable": amounts})


def npus() -> bytes:
    """A node with cards of another vendor."""
    metadata: JsonObject = {"labels": {"huawei.com/npu.product": "910B"}}
    amounts: JsonObject = {"cpu": "8", "pods": "110", NPU: "4"}
    return raw("Node", "npu", metadata=metadata, spec={}, status={"allocatable": amounts})


def user(name: str, card: str, requests: JsonObject, **spec: object) -> bytes:
    """A pod that asks for cards."""
    metadata: JsonObject = {"annotations": {"volcano.sh/card.name": card}} if card else {}
    container: JsonObject = {"name": "main", "resources": {"requests": requests}}
    body = {"schedulerName": "muster", "containers": [container], **spec}
    return raw("Pod", name, metadata=metadata, spec=body, status={"phase": "Pending"})


def queue(quota: str) -> bytes:
    """The queue of everybody."""
    return raw("Queue", "default", metadata={"annotations": {"volcano.sh/card.quota": quota}})


def begun(*pods: bytes, quota: str = QUOTA) -> Told:
    """Two nodes, a queue, and these pods."""
    told = Told()
    told.show_all("Node", machine("n1"), npus())
    told.show_all("Queue", queue(quota))
    told.show_all("Pod", *pods)
    told.show_the_rest()
    told.cycle()
    return told


def said(told: Told) -> list[str]:
    """What was decided since this was last asked: who was bound, refused or faulted, and why."""
    records, told.records = told.records, []
    found: list[str] = []
    for event in map(event_of, records):
        match event:
            case PodGroupUnschedulable():
                found.append(f"{event.pod_group.rpartition('-')[2]}: {event.code}")
            case GangBindDecided():
                found.append(f"{event.pod_group.rpartition('-')[2]}: bound")
            case ConfigInvalid() if event.subject.startswith("Queue/"):
                found.append(f"queue: {event.code}")
            case EvictionDecided():
                found.append(f"{event.pod_group}: evicted")
            case _:
                pass
    return sorted(found)


class Bad(Struct, frozen=True):
    """A pod that cannot be served, and why."""

    card: str
    requests: JsonObject
    code: str
    spec: dict[str, object] = {}


NOT_H200: dict[str, object] = {"nodeSelector": {"nvidia.com/gpu.product": "H200"}}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Bad("H800", GOOD, "GetTaskRequestResourceFailed"), id="a card nobody has"),
        pytest.param(
            Bad("A|910B", GOOD, "GetTaskRequestResourceFailed"), id="cards of two vendors"
        ),
        pytest.param(
            Bad("A|A/mig-1g-mixed", GOOD, "GetTaskRequestResourceFailed"), id="a card or its slice"
        ),
        pytest.param(Bad("A", {"cpu": "1"}, "GetTaskRequestResourceFailed"), id="nothing of it"),
        pytest.param(
            Bad("A", {"cpu": "1", GPU: "0"}, "GetTaskRequestResourceFailed"), id="none of it"
        ),
        pytest.param(Bad("", GOOD, "UnnamedCard"), id="no name"),
        pytest.param(Bad(" | ", GOOD, "UnnamedCard"), id="a name that is blank"),
        pytest.param(Bad("A", {GPU: "1", SLICE: "1"}, "UnnamedCard"), id="another card beside it"),
        pytest.param(Bad("A", {GPU: "500m"}, "UnsupportedDemand"), id="half a card"),
        pytest.param(Bad("A", {GPU: "-1"}, "UnsupportedDemand"), id="less than none"),
        pytest.param(Bad("A", {GPU: "many"}, "UnsupportedDemand"), id="no number"),
        pytest.param(Bad("B", GOOD, "InsufficientScalarQuota"), id="a card without quota"),
        pytest.param(Bad("A", GOOD, "NotEnoughResources", NOT_H200), id="against its affinity"),
    ],
)
def test_an_unschedulable_pod_is_reported_once_and_bound_when_it_fits(bad: Bad) -> None:
    told = begun(user("bad", bad.card, bad.requests, **bad.spec), user("good", "A", GOOD))
    assert said(told) == [f"bad: {bad.code}", "good: bound"]
    told.see(ObjectSeen(user("late", "A", GOOD)), ObjectSeen(machine("n3", "B")))
    told.cycle()
    assert said(told) == ["late: bound"]
    assert told.state.cluster.queues["default"].allocated == {"A": 2}
    told.see(ObjectSeen(user("bad", "A", GOOD)))
    told.cycle()
    assert said(told) == ["bad: bound"]


def test_an_invalid_card_quota_is_reported_each_time_it_becomes_invalid() -> None:
    told = begun(user("there", "A", GOOD))
    assert said(told) == ["there: bound"]
    for number in range(2):
        told.see(ObjectSeen(queue('{"A": 4')), ObjectSeen(user(f"new{number}", "A", GOOD)))
        told.cycle()
        assert said(told) == [f"new{number}: InsufficientScalarQuota", "queue: InvalidCardQuota"]
        told.see(ObjectSeen(machine(f"m{number}")))
        told.cycle()
        assert said(told) == [], "neither is told again"
        told.see(ObjectSeen(queue('{"A": 4, "B": -1}')))
        told.cycle()
        assert said(told) == ["queue: InvalidCardQuota"], "it is nonsense for another reason"
        told.see(ObjectSeen(queue(QUOTA)))
        told.cycle()
        assert said(told) == [f"new{number}: bound"]
    assert told.state.cluster.queues["default"].allocated == {"A": 3}


def test_a_quota_below_use_evicts_no_pods_and_is_reported_once() -> None:
    told = begun(*[user(f"p{one}", "A", GOOD) for one in range(3)])
    assert said(told) == ["p0: bound", "p1: bound", "p2: bound"]
    told.see(ObjectSeen(queue('{"A": 1}')), ObjectSeen(user("new", "A", GOOD)))
    told.cycle()
    assert said(told) == ["new: InsufficientScalarQuota"]
    told.see(ObjectSeen(queue('{"A": 2}')))
    told.cycle()
    assert said(told) == [], "the reason is the same, with another number"
    told.see(ObjectSeen(queue('{"A": 4}')))
    told.cycle()
    assert said(told) == ["new: bound"]


def test_a_negative_capability_is_reported_and_counts_as_zero() -> None:
    told = begun(user("p", "A", GOOD))
    assert said(told) == ["p: bound"]
    told.see(ObjectSeen(raw("Queue", "default", spec={"capability": {"cpu": "-1"}})))
    told.cycle()
    assert said(told) == ["queue: InvalidQuantity"]
    facts = told.state.cluster.queues["default"].facts
    assert facts is not None
    assert facts.capability == {"cpu": 0}


def test_a_group_that_needs_less_than_none_is_refused() -> None:
    told = begun()
    told.see(ObjectSeen(raw("PodGroup", "g", spec={"minMember": 1, "minResources": {GPU: "-1"}})))
    told.cycle()
    assert said(told) == ["default/g: InvalidPodGroup"]
