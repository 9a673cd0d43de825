"""Clusters to ask about quotas: queues with what their pods use of one large node."""

from collections.abc import Mapping
from textwrap import indent

from projections.cluster import Cluster
from projections.pods import Charge, Pod
from projections.queues import Queue
from simulator.scenario import parse_scenario
from tests.scenarios.play import play

Amounts = Mapping[str, int | str]


async def cluster_of(
    plugin: str, queues: Mapping[str, str], pods: Mapping[str, tuple[str, str]]
) -> Cluster:
    """A cluster of 32 cpu and 64Gi where pods run: name to queue and requests.

    `plugin` and the `spec` of each queue are given as YAML in one line.
    """
    lines = [
        "scenario: a test",
        "policy:",
        "  actions: allocate",
        f"  tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {plugin}]}}]",
        "cycles: 1",
        "cluster:",
        "  - kind: Node",
        "    metadata: {name: n1}",
        "    status: {allocatable: {cpu: 32, memory: 64Gi, pods: 110, example.com/card: 8}}",
    ]
    lines += [
        f"  - {{kind: Queue, metadata: {{name: {name}}}, spec: {spec}}}"
        for name, spec in queues.items()
    ]
    for name, (queue, requests) in pods.items():
        pod = f"""\
- kind: Pod
  metadata: {{name: {name}, annotations: {{scheduling.volcano.sh/queue-name: {queue}}}}}
  spec: {{nodeName: n1, containers: [{{resources: {{requests: {requests}}}}}]}}
  status: {{phase: Running}}"""
        lines.append(indent(pod, "  "))
    played = await play(parse_scenario("\n".join(lines), "test.yaml"))
    return played.end.state.cluster


def pods_of(cluster: Cluster, *names: str) -> list[Pod]:
    """The pods of these names."""
    by_name = {pod.facts.name: pod for pod in cluster.pods.values()}
    return [by_name[name] for name in names]


def names_of(pods: list[Pod]) -> list[str]:
    """Their names."""
    return [pod.facts.name for pod in pods]


def queue_of(cluster: Cluster, name: str) -> Queue:
    """The queue of this name, which must be there."""
    return cluster.queues[name]


def cpus(count: int, gigabytes: int = 0) -> Charge:
    """A request of cpus, and of memory."""
    memory = (("memory", gigabytes << 30),) if gigabytes else ()
    return (("cpu", count * 1000), *memory)
