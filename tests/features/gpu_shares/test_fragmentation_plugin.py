"""The plugin `gpu-fragmentation`: which node a pod gets, and what its arguments may be."""

import msgspec
import pytest

from events.errors import PolicyError
from features.table import FEATURES
from projections.policy.policy import parse_policy
from tests.features.gpu_shares.test_gpu_shares import given, milli, node, pod
from tests.scheduling.builders import EngineHarness


def policy(workload: list[object], **arguments: object) -> dict[str, object]:
    """A policy in which no other plugin scores nodes."""
    scoring = {"name": "gpu-fragmentation", "arguments": {"workload": workload, **arguments}}
    return {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, scoring]}],
    }


def begun(workload: list[object], *nodes: bytes, **arguments: object) -> EngineHarness:
    """A cluster with these nodes under such a policy."""
    harness = EngineHarness(policy=policy(workload, **arguments))
    harness.show_all("Node", *nodes)
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.cycle()
    return harness


def test_a_share_goes_where_it_makes_the_fewest_fragments() -> None:
    """Half a GPU completes the half on n2 that no pod of the workload could use, and leaves n1 whole."""
    harness = begun([{"gpus": 1, "milli": 1000}], node("n1", 1), node("n2", 1))
    harness.show_all("Pod", pod("a", milli(500)))
    harness.cycle()
    first = given(harness)["a"][0]
    placed = pod("a", milli(500), on=first, phase="Running")
    harness.show_all("Pod", placed, pod("b", milli(500)))
    harness.cycle()
    assert given(harness)["b"][0] == first


def test_a_gpu_that_the_workload_needs_is_left_as_it_is() -> None:
    """600 thousandths on n1 serve the workload, 400 remain there if the pod goes to n2."""
    workload: list[object] = [{"gpus": 1, "milli": 600}]
    harness = begun(workload, node("n1", 1), node("n2", 1))
    harness.show_all("Pod", pod("a", milli(400)))
    harness.cycle()
    assert given(harness)["a"][0] == "n1"
    placed = pod("a", milli(400), on="n1", phase="Running")
    harness.show_all("Pod", placed, pod("b", milli(400)))
    harness.cycle()
    assert given(harness)["b"][0] == "n2"


def test_without_a_workload_nodes_are_taken_by_best_fit() -> None:
    harness = begun([], node("n1", 1), node("n2", 1))
    harness.show_all("Pod", pod("a", milli(400)))
    harness.cycle()
    placed = pod("a", milli(400), on="n1", phase="Running")
    harness.show_all("Pod", placed, pod("b", milli(400)))
    harness.cycle()
    assert given(harness)["b"] == ("n1", "gpu-0")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"weight": 101}, "weight: 101 is more than 100"),
        ({"workload": {}}, "workload: expected a list"),
        ({"workload": [7]}, "workload[0]: expected an object"),
        ({"workload": [{}] * 1025}, "1025 pod types are more than 1024"),
        ({"workload": [{"cpu": "x"}]}, "workload[0].cpu"),
        ({"workload": [{"cpu": "-1"}]}, "workload[0].cpu: -1 is negative"),
        ({"workload": [{"gpus": 1, "milli": 1001}]}, "too many"),
        ({"workload": [{"pods": 1_000_000}] * 17}, "17000000 pods are more than"),
    ],
)
def test_an_argument_that_is_not_valid_is_an_error_with_its_path(
    arguments: dict[str, object], path: str
) -> None:
    plugins = [{"name": "gpu-fragmentation", "arguments": arguments}]
    text = msgspec.json.encode({"actions": "allocate", "tiers": [{"plugins": plugins}]})
    with pytest.raises(PolicyError) as error:
        parse_policy(text, FEATURES.policy_table)
    assert path in str(error.value)
