"""Names of quotas in `minResources`, as Volcano's controllers write them, reach no vote and no ledger."""

import pytest

from events.messages import ObjectSeen
from tests.scheduling.builders import EngineHarness, raw

WRITTEN = {
    "count/pods": "1",
    "pods": "1",
    "cpu": "1",
    "requests.cpu": "1",
    "limits.cpu": "1500m",
    "memory": "1Gi",
    "requests.memory": "1Gi",
    "limits.memory": "1Gi",
}


@pytest.mark.parametrize("plugin", ["capacity", "capacity-card", "proportion", "overcommit"])
def test_an_admitted_group_reserves_resources_and_nothing_else(plugin: str) -> None:
    plugins = [{"name": "gang"}, {"name": plugin}]
    policy: dict[str, object] = {"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}]}
    harness = EngineHarness(policy=policy)
    harness.show_all(
        "Node",
        raw("Node", "n1", spec={}, status={"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 9}}),
    )
    harness.show_all("Queue", raw("Queue", "default"))
    harness.show_all("PodGroup")
    harness.show_the_rest()
    harness.see(ObjectSeen(raw("PodGroup", "g", spec={"minMember": 1, "minResources": WRITTEN})))
    harness.cycle()
    group = harness.state.cluster.groups["default/g"]
    assert (group.decided.phase, group.decided.refusals) == ("Inqueue", {})
    assert harness.state.cluster.queues["default"].inqueue == {"cpu": 1000, "memory": 1 << 30}
