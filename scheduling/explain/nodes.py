"""Which nodes a waiting pod does not fit, and which waiting pods a node excludes."""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.device_family import Cards, JobShape
from projections.faulty_pods import FaultyPods
from projections.nodes import Node, NodeFacts
from projections.pod_class import PodClass
from projections.pods import Pod
from projections.quarantine import ALL_TENANTS
from projections.selector import untolerated
from projections.tenants import tenant_text
from scheduling.explain.quota import QueueLimits
from scheduling.explanation import ExcludedPods, NodeShortfall
from scheduling.node_predicates import (
    ADMITTED,
    FAULTY,
    NOT_SELECTED,
    REJECTED,
    REJECTED_OF_SEVERAL,
    REJECTED_OF_TENANT,
    TAINTED,
    UNSCHEDULABLE,
    NodePredicate,
    verdict,
)
from scheduling.node_ranking import NodeRankings

NODES_MAX: Final = 5
"""Maximum number of nodes that an explanation lists."""

_HARD: Final = ("NoSchedule", "NoExecute")


def nearest(
    rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape
) -> tuple[NodeShortfall, ...]:
    """Return the infeasible nodes that come nearest to feasible: nodes that admit the pod first, then those that
    lack least.

    A shortage is weighed by its share of the request, resource by resource.
    """
    table = rankings.cluster.nodes
    table.lay_out()
    if not table.order:
        return ()
    rankings.of(pod_class, cards, job).scores()
    closed = rankings.predicates(pod_class).verdicts != ADMITTED
    if (points := rankings.devices(pod_class, cards, job).of_all()) is not None:
        closed = closed | (points < 0)
    if (pod_topology := rankings.pod_topology(pod_class)) is not None:
        closed = closed | ~pod_topology.admitted()
    missing: npt.NDArray[np.int64] = closed.astype(np.int64) * (1 << 40)
    for name, amount in pod_class.request:
        column = table.column(name)
        short = amount if column is None else np.maximum(amount - column, 0)
        # For an amount that overflows 64 bits when multiplied by a thousand, ignore the last bits.
        scale = max(0, amount.bit_length() - 52)
        missing = missing + (np.minimum(short, amount) >> scale) * 1000 // (amount >> scale)
    slots = np.lexsort((np.arange(len(missing)), missing))
    slots = slots[missing[slots] > 0][:NODES_MAX]
    return tuple(shortfall_of(rankings, pod_class, cards, job, table.order[slot]) for slot in slots)


def large_enough(rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape) -> int:
    """Return how many nodes could take the pod if they were empty."""
    rankings.of(pod_class, cards, job).scores()
    table = rankings.cluster.nodes
    large = rankings.predicates(pod_class).verdicts == ADMITTED
    if (having_devices := rankings.having_devices(pod_class, cards, job)) is not None:
        large = large & having_devices
    if pod_class.claims and (pod_topology := rankings.pod_topology(pod_class)) is not None:
        for excluded in pod_topology.volumes.excluded().values():
            large = large & ~excluded
    for name, amount in pod_class.request:
        column = table.allocatable.get(name)
        large = large & (False if column is None else column >= amount)
    return int(np.count_nonzero(large))


def excluded_pods(rankings: NodeRankings, node: Node) -> tuple[ExcludedPods, ...]:
    """Return the waiting pods that a present node excludes or that do not fit it now, one entry per equivalence class."""
    cluster = rankings.cluster
    cluster.nodes.lay_out()
    waiting: dict[int, list[Pod]] = {}
    for _, group in sorted(cluster.groups.items()):
        for pod in () if group.is_foreign else group.pending:
            waiting.setdefault(pod.pod_class.index, []).append(pod)
    found: list[ExcludedPods] = []
    for pods in waiting.values():
        pod_class = pods[0].pod_class
        queue = cluster.queues[cluster.groups[pods[0].group_key].queue]
        cards = QueueLimits(cluster, queue).cards_allowed(pod_class, {})
        job = rankings.job_of(cluster.groups[pods[0].group_key])
        shortfall = shortfall_of(rankings, pod_class, cards, job, node)
        if shortfall.obstacle or shortfall.lacks:
            found.append(ExcludedPods(len(pods), pods[0].key, shortfall))
    return tuple(found)


def shortfall_of(
    rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape, node: Node
) -> NodeShortfall:
    """Return what a pod lacks on a node now, and why the node excludes it."""
    assert node.facts is not None, f"{node.name} is absent"
    lacks = {
        name: amount - node.free.get(name, 0)
        for name, amount in pod_class.request
        if amount > node.free.get(name, 0)
    }
    obstacle = obstacle_of(rankings.cluster, pod_class, node.facts)
    obstacle = obstacle or rankings.devices(pod_class, cards, job).obstacle(node)
    if not obstacle and (pod_topology := rankings.pod_topology(pod_class)) is not None:
        obstacle = pod_topology.obstacle(node.slot)
    withheld = _withheld(rankings.cluster, pod_class, node)
    return NodeShortfall(
        node=node.name,
        lacks=lacks,
        obstacle=obstacle,
        withheld_until_ns=withheld,
    )


def _withheld(cluster: Cluster, pod_class: PodClass, node: Node) -> dict[str, int]:
    """Return the resources that a node withholds from such pods because its kubelet rejected pods, and until when."""
    until_ns: dict[str, int] = {}
    for one in cluster.quarantines.standing(node.name):
        if one.tenant not in (ALL_TENANTS, pod_class.closed_tenant):
            continue
        if one.concerns(pod_class.request):
            end_ns = cluster.quarantines.end_ns(one)
            until_ns[one.resource] = max(end_ns, until_ns.get(one.resource, 0))
    return until_ns


def _fault_text(cluster: Cluster, name: str) -> str:
    """Return why a node that is faulty or settles gets no pods."""
    faults = cluster.indexes.of(FaultyPods).faults_of(name)
    return f"node is unhealthy: {faults[0].text}" if faults else "node has just recovered"


def obstacle_of(cluster: Cluster, pod_class: PodClass, node: NodeFacts) -> str:
    """Return why the node excludes pods of this class regardless of free resources; empty if it does not."""
    match verdict(cluster, cluster.plugins.of(NodePredicate), pod_class, node):
        case code if code == FAULTY:
            return _fault_text(cluster, node.name)
        case code if code == UNSCHEDULABLE:
            return "node is unschedulable"
        case code if code == TAINTED:
            bad = [one for one in node.taints if untolerated((one,), pod_class.tolerations, _HARD)]
            shown = ", ".join(f"{one.key}={one.value or ''}:{one.effect}" for one in bad)
            return f"untolerated taint {shown}"
        case code if code == NOT_SELECTED:
            pairs = pod_class.selector.pairs
            unlike = [
                f"{key}={value}" for key, value in pairs if node.labels.get(key) != value
            ] or ["required node affinity"]
            return f"node does not match {', '.join(unlike)}"
        case code if code in (REJECTED, REJECTED_OF_SEVERAL, REJECTED_OF_TENANT):
            tenant = ALL_TENANTS if code == REJECTED_OF_SEVERAL else pod_class.closed_tenant
            found = cluster.quarantines.closing(node.name, tenant, pod_class.request)
            whose = f"pods of {tenant_text(tenant)}" if tenant else "pods of several namespaces"
            return f"its kubelet rejected {whose} ({'' if found is None else found.reason})"
        case _:
            return ""
