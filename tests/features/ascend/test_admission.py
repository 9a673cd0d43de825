"""A group whose PodGroup needs more chips than are free in the cluster is not admitted to its queue."""

import pytest

from events.messages import ObjectSeen
from scheduling.explain.waiting import WaitingExplanation
from scheduling.session import Session
from tests.features.ascend.builders import (
    POLICY,
    T,
    chips,
    npu_node,
    npu_pod,
    policy,
    report,
    started,
)
from tests.scheduling.builders import EngineHarness, gone, raw


def group(name: str, chip_count: int, least: int = 2, **annotations: str) -> bytes:
    """A PodGroup without pods that states its minimum."""
    spec = {"minMember": least, "minResources": {T: str(chip_count)}}
    return raw("PodGroup", name, metadata={"annotations": annotations}, spec=spec)


def phase(harness: EngineHarness, name: str) -> tuple[str, str]:
    """Phase of a group, and why it is not admitted."""
    found = harness.state.cluster.groups[f"default/{name}"]
    refusal = found.decided.refusals.get("enqueue")
    return found.decided.phase, "" if refusal is None else f"{refusal.code}: {refusal.message}"


def too_few(asked: int, free: int) -> tuple[str, str]:
    text = f"JobEnqueueFailed: require npu num is {asked}, but cluster npu num is {free}"
    return "Pending", text


def test_a_group_is_admitted_when_as_many_chips_are_free_as_it_needs() -> None:
    harness = started(npu_node("n"), npu_node("m"))
    running = npu_pod("old", 4, on="n", phase="Running", annotations={T: chips(0, 1, 2, 3)})
    harness.show_all("Pod", running)
    harness.show_all("PodGroup", group("g", 12), group("h", 16))
    harness.cycle()
    assert phase(harness, "g") == ("Inqueue", "")
    assert phase(harness, "h") == too_few(16, 12)
    waiting = WaitingExplanation(
        Session(harness.state), harness.state.cluster.groups["default/h"]
    ).explain()
    assert waiting is not None
    assert waiting.code == "JobEnqueueFailed"
    harness.see(gone(running))
    harness.cycle()
    assert phase(harness, "h") == ("Inqueue", "")


def test_chips_of_nodes_that_cannot_be_used_do_not_count() -> None:
    harness = started(npu_node("n"), npu_node("m"), npu_node("other", resource="huawei.com/npu"))
    # The pod's chips are not known: more seem to be free than Kubernetes knows.
    harness.show_all("Pod", npu_pod("old", 4, on="n", phase="Running"))
    harness.see(ObjectSeen(report("m", chips(0, 1, 2), lists={"Unhealthy": chips(7)})))
    harness.show_all("PodGroup", group("g", 8))
    harness.cycle()
    assert phase(harness, "g") == too_few(8, 7)
    harness.see(ObjectSeen(report("m", chips(0, 1, 2), at=2, lists={"Unhealthy": ""})))
    harness.cycle()
    assert phase(harness, "g") == ("Inqueue", "")


def test_only_listed_chips_count_where_the_device_plugin_keeps_the_list() -> None:
    given = policy(init={"self-maintain-available-card": "false"})
    harness = started(npu_node("n"), given=given)
    harness.see(ObjectSeen(report("n", chips(0, 1, 2))))
    harness.show_all("PodGroup", group("g", 4))
    harness.cycle()
    assert phase(harness, "g") == too_few(4, 3)


def test_a_minimum_in_an_annotation_multiplies_the_minimum_of_one_pod() -> None:
    harness = started(npu_node("n"))
    stated = {"huawei.com/schedule_minAvailable": "3"}
    harness.show_all("PodGroup", group("g", 4, 1, **stated), group("h", 4, 1))
    harness.cycle()
    assert phase(harness, "g") == too_few(12, 8)
    assert phase(harness, "h") == ("Inqueue", "")


@pytest.mark.parametrize(
    "given",
    [
        {**POLICY, "actions": "enqueue, allocate, preempt"},
        {"actions": "enqueue, allocate", "tiers": []},
    ],
)
def test_where_pods_can_be_evicted_or_without_the_plugin_groups_are_admitted(
    given: dict[str, object],
) -> None:
    harness = started(npu_node("n"), given=given)
    harness.show_all("PodGroup", group("g", 64))
    harness.cycle()
    assert phase(harness, "g") == ("Inqueue", "")
