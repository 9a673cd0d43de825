"""Pod groups that are equal, and wait each for itself (projections/group_shapes.py)."""

from events.messages import ObjectSeen
from tests.scheduling.builders import EngineHarness, node, raw


def best_effort(name: str) -> bytes:
    """A pod that requests nothing."""
    spec = {"schedulerName": "muster", "containers": [{"name": "main"}]}
    return raw("Pod", name, spec=spec, status={"phase": "Pending"})


def test_equal_best_effort_pods_wait_each_under_a_key_of_its_own() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    harness.change_policy(
        {
            "actions": "allocate, backfill",
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
        }
    )
    harness.see(*[ObjectSeen(best_effort(f"p{index}")) for index in range(3)])
    harness.see(*[ObjectSeen(best_effort(f"q{index}")) for index in range(3)])
    cluster = harness.state.cluster
    for key, group in cluster.groups.items():
        assert [one.key for one in cluster.scheduling_queue.of(group)] == [
            ("backfill", ("alone", key))
        ]
    harness.cycle()
    assert {pod.node for pod in cluster.pods.values()} == {"n1"}
