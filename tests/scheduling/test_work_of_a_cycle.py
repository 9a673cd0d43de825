"""The work of a cycle grows with what changed, not with the nodes of the cluster or its waiting pods."""

from textwrap import dedent

import pytest

from daemon.log.memory import MemoryLog
from daemon.simulation import SimulationRun, simulate
from simulator.scenario import parse_scenario

CROWD = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H200}}
    status: {allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu: 2}}
    count: NODES
  - kind: Pod
    metadata: {name: "p{i}", annotations: {volcano.sh/card.name: H200, muster.sh/run-seconds: "60"}}
    spec: {containers: [{name: main, resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}
    count: PODS
until: UNTIL
"""


async def _played(nodes: int, pods: int, until: str, tail: str = "") -> SimulationRun:
    text = CROWD.replace("NODES", str(nodes)).replace("PODS", str(pods)).replace("UNTIL", until)
    scenario = parse_scenario("scenario: a crowd\n" + dedent(text + tail), "crowd")
    return await simulate(scenario, MemoryLog(), with_views=False)


@pytest.mark.parametrize("nodes", [50, 200])
async def test_equal_pods_look_at_every_node_once_and_then_at_what_moved(nodes: int) -> None:
    pods = 40
    simulated = await _played(nodes, pods, "0s")
    assert sum(1 for pod in simulated.state.cluster.pods.values() if pod.node) == pods
    assert nodes <= simulated.examined <= nodes + 2 * pods


async def test_a_pending_pod_group_is_not_examined_again_without_a_relevant_event() -> None:
    one_comes = """\
    steps:
      - {at: 5s, apply: [{kind: Node, metadata: {name: tiny}, status: {allocatable: {cpu: 100m}}}]}
    """
    few = await _played(10, 30, "8s", dedent(one_comes))
    many = await _played(10, 300, "8s", dedent(one_comes))
    assert many.groups_examined - few.groups_examined <= 2 * (300 - 30)
    quiet = await _played(10, 300, "8s")
    assert many.groups_examined == quiet.groups_examined


async def test_one_pod_that_ends_makes_room_for_one_and_costs_no_more_than_that() -> None:
    before = await _played(20, 200, "59s")
    after = await _played(20, 200, "60s")
    freed = 40
    assert after.groups_examined - before.groups_examined <= 4 * freed
