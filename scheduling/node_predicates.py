"""Node predicates that do not depend on free resources: taints, selectors, affinity (rules K6.3 to K6.6), and
quarantines of the tenant of the pods (K5.12)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.nodes import NodeFacts
from projections.plugin import Plugin
from projections.pod_class import PodClass
from projections.policy.pools import DEFAULT_POOL
from projections.quarantine import ALL_TENANTS
from projections.tenants import is_labelled
from scheduling.node_columns import Slots

ADMITTED: Final = 0
"""Verdict on a node that admits a pod; every other number is one of `REASONS`."""


class NodePredicate(Plugin):
    """Hook: whether a node admits pods of a class, whatever is free on it and whichever pods are there."""

    FLAG = "enablePredicate"
    checks_ports: bool = False
    """Whether a node is excluded if one of its pods uses a host port of the pod."""
    checks_pod_affinity: bool = False
    """Whether required affinity and anti-affinity between pods are evaluated."""
    checks_spread: bool = False
    """Whether topology spread constraints are evaluated."""
    checks_claims: bool = True
    """Whether the claims of pods must be bound, and a node must be within reach of their volumes."""
    checks_volume_zones: bool = True
    """Whether a node must be in the zones that the labels of volumes name."""
    pins_read_write_once: bool = True
    """Whether a ReadWriteOnce volume that is attached keeps further pods on the node where it is in use."""

    def verdict(self, pod_class: PodClass, node: NodeFacts) -> int:
        """Return ADMITTED, or the number of the first reason why not (`REASONS`)."""
        return ADMITTED


UNSCHEDULABLE: Final = 1
TAINTED: Final = 2
NOT_SELECTED: Final = 3
FAULTY: Final = 4
OTHER_POOL: Final = 5
REJECTED: Final = 6
REJECTED_OF_SEVERAL: Final = 7
REJECTED_OF_TENANT: Final = 8

REASONS: Final = {
    UNSCHEDULABLE: "node(s) were unschedulable",
    TAINTED: "node(s) had untolerated taint(s)",
    NOT_SELECTED: "node(s) didn't match Pod's node affinity/selector",
    FAULTY: "node(s) were unhealthy or had just recovered",
    OTHER_POOL: "node(s) belonged to another pool",
    REJECTED: "node(s) had rejected pods of this namespace",
    REJECTED_OF_SEVERAL: "node(s) had rejected pods of several namespaces",
    REJECTED_OF_TENANT: "node(s) had rejected pods of this tenant",
}
"""Verdict to the message about nodes with it."""


def verdict(
    cluster: Cluster, plugins: Sequence[NodePredicate], pod_class: PodClass, node: NodeFacts
) -> int:
    """Return whether the node admits pods of this class, or the first predicate that fails."""
    if cluster.is_closed_node(node.name):
        return FAULTY
    for one in plugins:
        if found := one.verdict(pod_class, node):
            return found
    return quarantine_verdict(cluster, pod_class, node.name)


def quarantine_verdict(cluster: Cluster, pod_class: PodClass, node: str) -> int:
    """Return whether the node is open to pods of this class after its kubelet rejected pods."""
    quarantines, request = cluster.quarantines, pod_class.request
    if node not in quarantines.of_node:
        return ADMITTED
    if (tenant := pod_class.closed_tenant) and quarantines.closing(node, tenant, request):
        return REJECTED_OF_TENANT if is_labelled(tenant) else REJECTED
    if quarantines.closing(node, ALL_TENANTS, request):
        return REJECTED_OF_SEVERAL
    return ADMITTED


class NodePredicates:
    """The verdicts on all nodes for pods with the same selector and tolerations."""

    def __init__(self, cluster: Cluster, pod_class: PodClass, pool: str = DEFAULT_POOL) -> None:
        self._cluster = cluster
        self._pool = pool
        self._plugins = cluster.plugins.of(NodePredicate)
        self._pod_class = pod_class
        self._table = cluster.nodes
        self._read = len(self._table.updated_slots)
        self.verdicts = self._all()
        self._admitting: Slots | None = None

    def refresh(self) -> None:
        """Re-evaluate the nodes whose object changed."""
        updated_slots = self._table.updated_slots
        if self._read < len(updated_slots):
            for slot in updated_slots[self._read :]:
                facts = self._table.order[slot].facts
                assert facts is not None
                self.verdicts[slot] = self._verdict(facts)
            self._read = len(updated_slots)
            self._admitting = None

    def admitting(self) -> Slots:
        """Return the slots of the nodes that admit such pods."""
        self.refresh()
        if self._admitting is None:
            self._admitting = np.flatnonzero(self.verdicts == ADMITTED)
        return self._admitting

    def _all(self) -> npt.NDArray[np.int8]:
        """Evaluate all nodes; nodes that agree in all inputs are evaluated once."""
        keys, cluster = self._pod_class.selector.keys, self._cluster
        known: dict[object, int] = {}
        quarantined = cluster.quarantines.of_node
        has_pools, closes_nodes = not cluster.policy.pools.is_plain, cluster.policy.reschedules
        verdicts = np.zeros(len(self._table.order), dtype=np.int8)
        for slot, node in enumerate(self._table.order):
            facts = node.facts
            assert facts is not None
            seen: object = facts.name
            if keys is not None:
                labels = facts.labels
                is_closed = closes_nodes and cluster.is_closed_node(facts.name)
                wanted = tuple(map(labels.get, keys))
                is_elsewhere = has_pools and self._is_elsewhere(facts.name)
                seen = (facts.unschedulable, facts.taints, wanted, is_closed, is_elsewhere)
                if facts.name in quarantined:
                    rejected = quarantine_verdict(cluster, self._pod_class, facts.name)
                    seen = (seen, rejected)
            if seen not in known:
                known[seen] = self._verdict(facts)
            verdicts[slot] = known[seen]
        return verdicts

    def _verdict(self, facts: NodeFacts) -> int:
        if self._is_elsewhere(facts.name):
            return OTHER_POOL
        return verdict(self._cluster, self._plugins, self._pod_class, facts)

    def _is_elsewhere(self, node: str) -> bool:
        """Return whether a node is of another pool."""
        members = self._cluster.features.pool_members
        return members is not None and members.nodes(self._cluster).get(node) != self._pool
