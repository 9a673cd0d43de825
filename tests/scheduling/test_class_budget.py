"""A gang of unlike pods is bounded: beyond `classBudget` it is refused with the numbers, and equal pods are not."""

from typing import Final

import pytest

from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ObjectSeen
from tests.properties.test_bounded_search import of_kind
from tests.scheduling.builders import EngineHarness, gone, node, raw

GROUP: Final = "scheduling.k8s.io/group-name"


def policy(budget: int) -> dict[str, object]:
    """A policy under which unlike pods may take so many thousands of units."""
    return {
        "actions": "enqueue, allocate, backfill",
        "configurations": [{"name": "cycle", "arguments": {"classBudget": budget}}],
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
    }


def pod(name: str, milli_cpu: int, is_apart: bool = False) -> bytes:
    """A pod of the gang."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec: dict[str, object] = {
        "schedulerName": "muster",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{milli_cpu}m"}}}],
        **({"affinity": rules} if is_apart else {}),
    }
    meta = {"annotations": {GROUP: "gang"}}
    return raw("Pod", name, metadata=meta, spec=spec, status={"phase": "Pending"})


def cluster(budget: int, pods: list[bytes]) -> EngineHarness:
    """A cluster of two large nodes, in which the gang waits."""
    harness = EngineHarness(policy=policy(budget))
    harness.show_all("Node", node("n1", cpu=64), node("n2", cpu=64))
    spec = {"minMember": len(pods), "queue": "default"}
    harness.show_all("PodGroup", raw("PodGroup", "gang", spec=spec, status={"phase": "Inqueue"}))
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    return harness


def test_a_gang_of_too_many_unlike_pods_is_refused_with_the_numbers() -> None:
    harness = cluster(10, [pod(f"p{index}", 10 + index) for index in range(41)])
    harness.cycle()
    [refusal] = of_kind(harness, PodGroupUnschedulable)
    assert refusal.code == "TooManyUnlikePods"
    for number in ("41 classes", "10 thousand units", "classBudget of 10 thousand"):
        assert number in refusal.message
    # 41 classes on two nodes.
    assert harness.engine.decider.session.work.done < 1_000
    assert not harness.engine.is_due(harness.now_ns)


@pytest.mark.parametrize("number", [40, 41])
def test_unlike_pods_within_the_bound_and_any_number_of_equal_pods_are_placed(number: int) -> None:
    engine = 1 if number == 40 else 0
    harness = cluster(10, [pod(f"p{index:02}", 10 + engine * index) for index in range(number)])
    harness.cycle()
    [bound] = of_kind(harness, GangBindDecided)
    assert len(bound.placements) == number


def test_a_class_with_affinity_counts_for_more() -> None:
    harness = cluster(10, [pod(f"p{index}", 10, is_apart=True) for index in range(20)])
    harness.cycle()
    assert [one.code for one in of_kind(harness, PodGroupUnschedulable)] == ["TooManyUnlikePods"]


def test_the_gang_is_placed_once_enough_of_its_pods_are_alike() -> None:
    pods = [pod(f"p{index}", 10 + index) for index in range(41)]
    harness = cluster(10, pods)
    harness.cycle()
    harness.see(gone(pods[0]), ObjectSeen(pod("new", 11)))
    harness.cycle()
    assert [len(one.placements) for one in of_kind(harness, GangBindDecided)] == [41]


def test_another_policy_lets_it_be_tried() -> None:
    harness = cluster(10, [pod(f"p{index}", 10 + index) for index in range(41)])
    harness.cycle()
    harness.change_policy(policy(11))
    harness.cycle()
    assert of_kind(harness, GangBindDecided)
