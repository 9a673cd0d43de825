"""After random faults, under each placement of jobs with chips: a healthy pod is not evicted while a suitable node is free,
and returns to its node when its whole job is restarted.

What is suitable is judged by less than the rules allow: a free node where the job certainly may go.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from events.normalize import JsonObject
from features.ascend.network_labels import LARGE_MODEL, NORMAL
from simulator.scenario import parse_scenario
from tests.example_count import examples
from tests.scenarios.play import play

GROUPS: Final = 3
"""Leaf switches, or SuperPoDs."""
SIZE: Final = 4
NODES: Final = [f"{group}-{at}" for group in "abc" for at in range(SIZE)]
APART_SECONDS: Final = 40
SOAK_EXAMPLES: Final = 300

LEAF: Final = ("leaf-1.0", "leaf-2.0", "leaf-one-layer")
PLAIN, HARD, SOFT = "plain", "super-pods", "super-pods-soft"


class Decided(Struct):
    """An entry of the list of decisions."""

    at_seconds: float
    kind: str
    pod: str | None = None
    node: str | None = None


class Case(NamedTuple):
    """A job, and the nodes that break one after the other."""

    placement: str
    job_class: str
    pods: int
    block: int
    """Nodes of a logical SuperPoD."""
    moves_pods: bool
    broken: tuple[tuple[str, ...], ...]
    """Nodes that break together; they stay broken."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    placement = draw(st.sampled_from((PLAIN, HARD, SOFT, *LEAF)))
    block = draw(st.integers(1, 3)) if placement == HARD else 1
    pods = (
        block * draw(st.integers(1, 8 // block)) if placement == HARD else draw(st.integers(2, 8))
    )
    if placement == "leaf-one-layer":
        pods = min(pods, SIZE)
    names = draw(st.permutations(NODES))
    first = draw(st.integers(1, 2))
    return Case(
        placement,
        draw(st.sampled_from((LARGE_MODEL, NORMAL))),
        pods,
        pods if placement == SOFT else block,
        draw(st.booleans()),
        (tuple(names[:first]), tuple(names[first : first + 1]), (names[first + 1],)),
    )


def manifests(case: Case) -> list[JsonObject]:
    """Nodes with their reports, and the map of switches."""
    is_leaf, chips = case.placement in LEAF, 8 if case.placement in (PLAIN, *LEAF) else 16
    found: list[JsonObject] = []
    for number, name in enumerate(NODES):
        kind = "module" if chips == 8 else "module-a3-16-super-pod"
        amounts: JsonObject = {"cpu": "64", "pods": "110", "huawei.com/Ascend910": str(chips)}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"accelerator": "huawei-Ascend910", "accelerator-type": kind},
                    "annotations": {} if chips == 8 else {"superPodID": str(number // SIZE)},
                },
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}],
                },
            }
        )
        listed = ",".join(f"Ascend910-{one}" for one in range(chips))
        report = (
            '{"DeviceInfo":{"DeviceList":{"huawei.com/Ascend910":"'
            + listed
            + '","huawei.com/Ascend910-NetworkUnhealthy":""}}}'
        )
        found.append(config_map(f"mindx-dl-deviceinfo-{name}", "kube-system", DeviceInfoCfg=report))
    if is_leaf:
        servers = [
            ", ".join(
                f'{{"server_ip": "10.0.0.{group * SIZE + at}", "slice_id": {at}}}'
                for at in range(SIZE)
            )
            for group in range(GROUPS)
        ]
        switches = ", ".join(
            f'{{"tor_id": {group}, "tor_ip": "{name}", "server": [{servers[group]}]}}'
            for group, name in enumerate("abc")
        )
        level = {"tor_level": "single_layer"} if case.placement == "leaf-one-layer" else {}
        text = f'{{"version": "1.0", "tor_count": {SIZE}, "server_list": [{switches}]}}'
        found.append(config_map("basic-tor-node-cm", "kube-system", tor_info=text, **level))
    return found


def config_map(name: str, namespace: str, **data: str) -> JsonObject:
    metadata: JsonObject = {
        "name": name,
        "namespace": namespace,
        "labels": {"mx-consumer-cim": "true"},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {**data}}


def job_of(case: Case) -> JsonObject:
    chips = 8 if case.placement in (PLAIN, *LEAF) else 16
    labels: JsonObject = {"fault-scheduling": "grace"}
    if case.moves_pods:
        labels["pod-rescheduling"] = "on"
    if case.placement == SOFT:
        labels["super-pod-affinity"] = "soft"
    is_leaf = case.placement in LEAF
    kind = "module" if chips == 8 else "module-a3-16-super-pod"
    amounts: JsonObject = {"huawei.com/Ascend910": str(chips)}
    container: JsonObject = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    template: JsonObject = {
        "metadata": {"labels": {"tor-affinity": case.job_class} if is_leaf else {}},
        "spec": {"nodeSelector": {"accelerator-type": kind}, "containers": [container]},
    }
    annotations: JsonObject = {} if chips == 8 else {"sp-block": str(16 * case.block)}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "t", "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "muster",
            "minAvailable": case.pods,
            "tasks": [{"name": "w", "replicas": case.pods, "template": template}],
        },
    }


def scenario_text(case: Case) -> str:
    version = "1.0" if case.placement == "leaf-1.0" else "2.0"
    init = {"nslb-version": version, "super-pod-size": "8", "reserve-nodes": "0"}
    tiers = [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ]
    faults = '{"NodeInfo":{"FaultDevList":[],"NodeStatus":"UnHealthy"}}'
    steps: list[dict[str, object]] = [{"at": "1s", "apply": [job_of(case)]}]
    for number, names in enumerate(case.broken, 1):
        maps = [
            config_map(f"mindx-dl-nodeinfo-{one}", "mindx-dl", NodeInfo=faults) for one in names
        ]
        steps.append({"at": f"{number * APART_SECONDS}s", "apply": maps})
    whole = {
        "scenario": "random faults",
        "policy": {
            "actions": "enqueue, reschedule, allocate, backfill",
            "configurations": [{"name": "init-params", "arguments": init}],
            "tiers": tiers,
        },
        "cluster": manifests(case),
        "steps": steps,
        "until": f"{(len(case.broken) + 1) * APART_SECONDS}s",
    }
    return yaml.safe_dump(whole, sort_keys=False)


def is_suitable(
    case: Case,
    before: Mapping[str, str],
    lost: list[str],
    free: set[str],
    pieces: Mapping[str, str],
) -> bool:
    """Whether the job may certainly replace its lost pods one by one: `before` are the nodes of its pods, `pieces` their
    logical SuperPoDs."""
    if case.placement == PLAIN:
        return len(free) >= len(lost)
    if case.placement == SOFT and len(lost) == 1:
        return bool(free)
    if case.placement in (HARD, SOFT):
        needed: dict[str, int] = {}
        for pod in lost:
            gone = [one for one in before if pieces[one] == pieces[pod]]
            if len(gone) == sum(one in lost for one in gone):
                return False  # All of it is gone, and goes anywhere.
            needed[before[pod][0]] = needed.get(before[pod][0], 0) + 1
        return all(sum(one[0] == home for one in free) >= count for home, count in needed.items())
    own = {node[0] for node in before.values()}
    if case.placement == "leaf-1.0" and case.job_class == LARGE_MODEL and case.pods >= SIZE:
        at = sorted(before[pod][2] for pod in lost)
        return at == sorted({one[2] for one in free if one[2] in at})[: len(at)] and len(
            {*at}
        ) == len(at)
    return sum(one[0] in own for one in free) >= len(lost)


def judge(case: Case) -> None:
    found = asyncio.run(play(parse_scenario(scenario_text(case), "random.yaml")))
    assert found.divergence is None
    decisions = msgspec.convert(found.result.document["decisions"], list[Decided])
    nodes: dict[str, str] = {}
    broken: set[str] = set()
    pieces: dict[str, str] = {}
    for number, names in enumerate(((), *case.broken)):
        begins = number * APART_SECONDS
        own = [one for one in decisions if begins <= one.at_seconds < begins + APART_SECONDS]
        broken |= {*names}
        before, lost = dict(nodes), sorted(pod for pod, node in nodes.items() if node in names)
        evicted = {one.pod for one in own if one.kind == "evict" and one.pod is not None}
        for one in own:
            if one.kind == "evict" and one.pod is not None:
                nodes.pop(one.pod, None)
            elif one.kind == "bind" and one.pod is not None and one.node is not None:
                assert one.node not in broken
                nodes[one.pod] = one.node
                pieces[one.pod] = piece_of(case, one.pod, one.node)
        if len(before) < case.pods:
            continue  # It waits for nodes, or there are too few.
        if not lost:
            assert not evicted, "nothing happened to it"
            continue
        free = {*NODES} - broken - {*before.values()}
        if not is_suitable(case, before, lost, free, pieces):
            event("no node is certainly suitable")
            continue
        healthy = {pod: node for pod, node in before.items() if pod not in lost}
        event(f"{case.placement}: judged")
        assert len(nodes) == case.pods, "all of it has nodes again"
        if case.moves_pods and "default/t-w-0" not in lost:
            assert evicted == {*lost}, "healthy pods stay"
        assert {pod: nodes[pod] for pod in healthy} == healthy, "healthy pods keep their nodes"


def piece_of(case: Case, pod: str, node: str) -> str:
    rank = int(pod.rpartition("-")[2])
    return node[0] if case.placement == SOFT else str(rank // case.block)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
@example(Case("leaf-2.0", LARGE_MODEL, 5, 1, moves_pods=True, broken=(("b-0",), ("a-0",))))
@example(Case("leaf-1.0", LARGE_MODEL, 8, 1, moves_pods=False, broken=(("b-2",), ("a-2",))))
@example(Case(SOFT, NORMAL, 6, 6, moves_pods=False, broken=(("a-1", "b-1"), ("c-0",))))
def test_healthy_pods_stay_and_return(case: Case) -> None:
    judge(case)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_healthy_pods_stay_and_return_in_many_cases(case: Case) -> None:
    judge(case)
