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
from tests.scheduling.builders import EngineHarness, raw

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


def begun(*pods: bytes, quota: str = QUOTA) -> EngineHarness:
    """Two nodes, a queue, and these pods."""
    harness = EngineHarness()
    harness.show_all("Node", machine("n1"), npus())
    harness.show_all("Queue", queue(quota))
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    harness.cycle()
    return harness


def said(harness: EngineHarness) -> list[str]:
    """What was decided since this was last asked: who was bound, refused or faulted, and why."""
    records, harness.records = harness.records, []
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
        pytest.param(
            Bad("H800", GOOD, "GetTaskRequestResourceFailed"), id="a card that no node has"
        ),
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
    harness = begun(user("bad", bad.card, bad.requests, **bad.spec), user("good", "A", GOOD))
    assert said(harness) == [f"bad: {bad.code}", "good: bound"]
    harness.see(ObjectSeen(user("late", "A", GOOD)), ObjectSeen(machine("n3", "B")))
    harness.cycle()
    assert said(harness) == ["late: bound"]
    assert harness.state.cluster.queues["default"].allocated == {"A": 2}
    harness.see(ObjectSeen(user("bad", "A", GOOD)))
    harness.cycle()
    assert said(harness) == ["bad: bound"]


def test_an_invalid_card_quota_is_reported_each_time_it_becomes_invalid() -> None:
    harness = begun(user("there", "A", GOOD))
    assert said(harness) == ["there: bound"]
    for number in range(2):
        harness.see(ObjectSeen(queue('{"A": 4')), ObjectSeen(user(f"new{number}", "A", GOOD)))
        harness.cycle()
        assert said(harness) == [f"new{number}: InsufficientScalarQuota", "queue: InvalidCardQuota"]
        harness.see(ObjectSeen(machine(f"m{number}")))
        harness.cycle()
        assert said(harness) == [], "neither is reported again"
        harness.see(ObjectSeen(queue('{"A": 4, "B": -1}')))
        harness.cycle()
        assert said(harness) == ["queue: InvalidCardQuota"], "it is nonsense for another reason"
        harness.see(ObjectSeen(queue(QUOTA)))
        harness.cycle()
        assert said(harness) == [f"new{number}: bound"]
    assert harness.state.cluster.queues["default"].allocated == {"A": 3}


def test_a_quota_below_use_evicts_no_pods_and_is_reported_once() -> None:
    harness = begun(*[user(f"p{one}", "A", GOOD) for one in range(3)])
    assert said(harness) == ["p0: bound", "p1: bound", "p2: bound"]
    harness.see(ObjectSeen(queue('{"A": 1}')), ObjectSeen(user("new", "A", GOOD)))
    harness.cycle()
    assert said(harness) == ["new: InsufficientScalarQuota"]
    harness.see(ObjectSeen(queue('{"A": 2}')))
    harness.cycle()
    assert said(harness) == [], "the reason is the same, with another number"
    harness.see(ObjectSeen(queue('{"A": 4}')))
    harness.cycle()
    assert said(harness) == ["new: bound"]


def test_a_negative_capability_is_reported_and_counts_as_zero() -> None:
    harness = begun(user("p", "A", GOOD))
    assert said(harness) == ["p: bound"]
    harness.see(ObjectSeen(raw("Queue", "default", spec={"capability": {"cpu": "-1"}})))
    harness.cycle()
    assert said(harness) == ["queue: InvalidQuantity"]
    facts = harness.state.cluster.queues["default"].facts
    assert facts is not None
    assert facts.capability == {"cpu": 0}


def test_a_group_that_needs_less_than_none_is_refused() -> None:
    harness = begun()
    harness.see(
        ObjectSeen(raw("PodGroup", "g", spec={"minMember": 1, "minResources": {GPU: "-1"}}))
    )
    harness.cycle()
    assert said(harness) == ["default/g: InvalidPodGroup"]
