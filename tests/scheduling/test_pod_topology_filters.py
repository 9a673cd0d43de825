"""Pod-topology filters: messages name the reason, and pods without such constraints cost nothing."""

import pytest

from events.codec import event_of
from features.table import FEATURES
from projections.device_family import NO_JOB
from projections.pod_class import PodClass
from projections.state import State
from scheduling.explain.nodes import nearest
from scheduling.node_ranking import NodeRankings
from scheduling.pod_topology.spread import logarithm
from tests.builders import recorded

CLUSTER = """\
cluster:
  - kind: Node
    metadata: {name: "a{i}", labels: {zone: a}}
    status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}
    count: 1
  - {kind: Node, metadata: {name: bare}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}
  - {kind: Pod, metadata: {name: plain}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
  - kind: Pod
    metadata: {name: there, labels: {app: there}}
    spec:
      nodeName: a1
      containers: [{ports: [{hostPort: 80}], resources: {requests: {cpu: 1}}}]
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: zone, labelSelector: {matchLabels: {app: unborne}}}]}}
    status: {phase: Running}
  - kind: Pod
    metadata: {name: port}
    spec: {nodeSelector: {zone: a}, containers: [{ports: [{hostPort: 80}], resources: {requests: {cpu: 1}}}]}
  - kind: Pod
    metadata: {name: unborne, labels: {app: unborne}}
    spec: {nodeSelector: {zone: a}, containers: [{resources: {requests: {cpu: 1}}}]}
  - kind: Pod
    metadata: {name: apart}
    spec:
      nodeSelector: {zone: a}
      containers: [{resources: {requests: {cpu: 1}}}]
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: zone, labelSelector: {matchLabels: {app: there}}}]}}
  - kind: Pod
    metadata: {name: near}
    spec:
      containers: [{resources: {requests: {cpu: 1}}}]
      affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: zone, labelSelector: {matchLabels: {app: nobody}}}]}}
until: 5s
"""

NODE_TEXTS = {
    "port": "a hostPort of the pod is in use",
    "unborne": "pod anti-affinity of an existing pod in its topology domain excludes this node",
    "apart": "pod anti-affinity excludes this node: a matching pod is in its topology domain",
    "near": "no pod in its topology domain matches the pod affinity",
}


async def _last() -> State:
    state = State(FEATURES)
    for one in await recorded(CLUSTER):
        state.apply(one.record, event_of(one.record), one.content)
    state.settle()
    return state


def _class(state: State, name: str) -> PodClass:
    return next(one for one in state.cluster.pods.values() if one.facts.name == name).pod_class


@pytest.mark.parametrize("name", NODE_TEXTS)
async def test_the_nearest_nodes_name_the_pod_topology_constraint_that_excludes_them(
    name: str,
) -> None:
    state = await _last()
    found = nearest(NodeRankings(state.cluster), _class(state, name), None, NO_JOB)
    assert {one.node: one.obstacle for one in found}["a1"] == NODE_TEXTS[name]


async def test_pods_that_ask_nothing_have_no_surroundings() -> None:
    state = await _last()
    assert NodeRankings(state.cluster).pod_topology(_class(state, "plain")) is None


def test_logarithms_are_whole_numbers_of_thousandths() -> None:
    assert [logarithm(number) for number in (1, 2, 3, 10, 1000)] == [0, 693, 1098, 2302, 6907]
