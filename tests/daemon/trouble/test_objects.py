"""Trouble with objects: huge, strange, of the wrong type, or asking for what muster does not do."""

import asyncio

import pytest

from events.daemon import DaemonStarted
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.normalize import Json
from tests.daemon.trouble.rig import MERGE, PODS, Given, StartTrial, pod
from tests.storm.over_http.hurry import hurriedly

NODES = """\
cluster:
  - {kind: Node, metadata: {name: bare}}
  - {kind: Node, metadata: {name: empty}, status: {allocatable: {}}}
  - {kind: Node, metadata: {name: text, labels: {slots: many}}, status: {allocatable: {cpu: 8, pods: 20}}}
  - {kind: Node, metadata: {name: three, labels: {slots: "3"}}, status: {allocatable: {cpu: 8, pods: 20}}}
"""


@hurriedly
async def test_an_object_of_five_mebibytes_is_taken_in_and_placed(trouble: StartTrial) -> None:
    async with trouble() as one:
        one.put("Pod", {**pod("big"), "example": "x" * (5 << 20)})
        await one.until_bound("big")
        one.put("Node", {"metadata": {"name": "n2"}, "example": "x" * (5 << 20)})
        one.pod("a")
        await one.until_bound("a")


@hurriedly
async def test_unknown_fields_are_kept_and_ignored(trouble: StartTrial) -> None:
    """K1.6"""
    async with trouble() as one:
        spec: dict[str, Json] = {"futureField": {"deep": [1, 2.5, None, "é"]}}
        one.put(
            "Pod", {**pod("a", **spec), "newSection": [{}], "status": {"phase": "Pending", "q": 1}}
        )
        await one.until_bound("a")
        stored = [body for body in one.memory.contents.values() if body and b"futureField" in body]
        assert stored
        assert "é".encode() in stored[-1]


@hurriedly
async def test_a_label_that_is_no_number_matches_no_comparison(trouble: StartTrial) -> None:
    """K6.6: `Gt` on a label that is not an integer is no match; nodes without capacity take nothing."""
    compared: Json = {"key": "slots", "operator": "Gt", "values": ["1"]}
    terms: Json = {"nodeSelectorTerms": [{"matchExpressions": [compared]}]}
    affinity: Json = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    async with trouble(Given(text=NODES)) as one:
        one.pod("a", affinity=affinity)
        await one.until_bound("a")
        assert one.node_of("a") == "three"
        one.ask("PATCH", "/api/v1/nodes/three", {"metadata": {"labels": {"slots": "few"}}}, MERGE)
        one.pod("b", affinity=affinity)
        await one.until(lambda: one.events(PodGroupUnschedulable))
        await asyncio.sleep(60)
        assert not one.node_of("b")
        one.ask("PATCH", "/api/v1/nodes/text", {"metadata": {"labels": {"slots": "4"}}}, MERGE)
        await one.until_bound("b")
        assert one.node_of("b") == "text"


DEMANDS: dict[str, dict[str, Json]] = {
    "resourceClaims": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
    "volumes": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
}


@pytest.mark.parametrize("demand", DEMANDS)
@hurriedly
async def test_what_is_not_supported_is_refused_with_a_reason(
    trouble: StartTrial, demand: str
) -> None:
    """K6.7: neither placed nor ignored; the pod's condition has the reason."""
    async with trouble() as one:
        one.put("Pod", pod("odd", **DEMANDS[demand]))
        one.pod("a")
        await one.until_bound("a")
        await one.until(lambda: one.condition("odd", "PodScheduled").get("status") == "False")
        assert one.condition("odd", "PodScheduled")["reason"] == "NotReadyForScheduling"
        refusals = [
            event for event in one.events(PodGroupUnschedulable) if event.pod == "default/odd"
        ]
        assert len(refusals) == 1
        assert refusals[0].message
        await asyncio.sleep(120)
        assert not one.node_of("odd")


@hurriedly
async def test_values_of_the_wrong_type_are_faults_and_not_failures(trouble: StartTrial) -> None:
    """Custom resources without a schema may hold anything."""
    async with trouble() as one:
        one.put(
            "Queue", {"metadata": {"name": "odd"}, "spec": {"weight": "heavy", "capability": 7}}
        )
        one.put(
            "PodGroup",
            {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"minMember": "x"}},
        )
        one.put("PriorityClass", {"metadata": {"name": "odd"}, "value": "high"})
        one.pod("member", group="odd")
        one.pod("a")
        await one.until_bound("a")
        one.ask("DELETE", f"{PODS}/member")
        one.pod("b")
        await one.until_bound("b")


@pytest.mark.parametrize("hours", [1, -1])
@hurriedly
async def test_a_clock_that_jumps_by_an_hour_changes_nothing(
    trouble: StartTrial, hours: int
) -> None:
    """K14.2: leases go by monotonic time; time in the log does not run backwards."""
    async with trouble() as one:
        one.pod("a")
        await one.until_bound("a")
        one.clock.later_ns += hours * 3600 * 1_000_000_000
        one.pod("b")
        await one.until(lambda: one.node_of("b"), seconds=5)
        await asyncio.sleep(60)
        one.server.api.simulated.store.set_clock(hours * 3600 * 1_000_000_000)
        one.pod("c")
        await one.until(lambda: one.node_of("c"), seconds=5)
        one.pod("big", containers=[{"name": "m", "resources": {"requests": {"cpu": "99"}}}])
        await one.until(lambda: one.condition("big", "PodScheduled"), seconds=5)
        assert len(one.events(DaemonStarted)) == 1
