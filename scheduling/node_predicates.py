"""Node predicates that do not depend on free resources: taints, selectors, affinity (rules K6.3 to K6.6)."""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeFacts, NodeTable
from projections.objects import Taint
from projections.pod_class import PodClass
from projections.policy import Policy
from projections.selector import untolerated

ADMITTED: Final = 0
UNSCHEDULABLE: Final = 1
TAINTED: Final = 2
NOT_SELECTED: Final = 3

REASONS: Final = {
    UNSCHEDULABLE: "node(s) were unschedulable",
    TAINTED: "node(s) had untolerated taint(s)",
    NOT_SELECTED: "node(s) didn't match Pod's node affinity/selector",
}
"""Verdict to the message about nodes with it."""

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = ("NoSchedule", "NoExecute")


def verdict(policy: Policy, pod_class: PodClass, node: NodeFacts) -> int:
    """Return whether the node admits pods of this class, or the first predicate that fails."""
    rules = policy.predicates
    if rules is None:
        return ADMITTED
    tolerations = pod_class.tolerations
    if node.unschedulable and untolerated((_CORDON,), tolerations, _HARD):
        return UNSCHEDULABLE
    if rules.taint_toleration and node.taints and untolerated(node.taints, tolerations, _HARD):
        return TAINTED
    if rules.node_affinity and not pod_class.selector.matches(node.name, node.labels):
        return NOT_SELECTED
    return ADMITTED


def refused_demand(policy: Policy, pod_class: PodClass) -> str:
    """Return a hard constraint of the pods that muster does not support, or an empty text.

    Volumes are accepted if the policy disables all volume predicates.
    """
    rules = policy.predicates
    if rules and not (rules.volume_binding or rules.volume_zone or rules.volume_limits):
        return pod_class.unsupported
    return pod_class.unsupported or pod_class.claims


class NodePredicates:
    """The verdicts on all nodes for pods with the same selector and tolerations."""

    def __init__(self, policy: Policy, pod_class: PodClass, table: NodeTable) -> None:
        self._policy = policy
        self._pod_class = pod_class
        self._table = table
        self._read = len(table.updated_slots)
        self.verdicts = self._all()

    def refresh(self) -> None:
        """Re-evaluate the nodes whose object changed."""
        updated_slots = self._table.updated_slots
        if self._read < len(updated_slots):
            for slot in updated_slots[self._read :]:
                facts = self._table.order[slot].facts
                assert facts is not None
                self.verdicts[slot] = verdict(self._policy, self._pod_class, facts)
            self._read = len(updated_slots)

    def _all(self) -> npt.NDArray[np.int8]:
        """Evaluate all nodes; nodes that agree in all inputs are evaluated once."""
        keys = self._pod_class.selector.keys
        known: dict[object, int] = {}
        verdicts = np.zeros(len(self._table.order), dtype=np.int8)
        for slot, node in enumerate(self._table.order):
            facts = node.facts
            assert facts is not None
            seen: object = facts.name
            if keys is not None:
                labels = facts.labels
                seen = (facts.unschedulable, facts.taints, tuple([labels.get(key) for key in keys]))
            if seen not in known:
                known[seen] = verdict(self._policy, self._pod_class, facts)
            verdicts[slot] = known[seen]
        return verdicts
