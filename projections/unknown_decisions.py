"""Pods that muster bound by a decision that is not in this log, as after the loss of its end.

A binding of muster writes the position of its decision on the pod. The owner of the pod can write it, too, so it is a hint that
the log lost something, and never more.
"""

from msgspec import Struct

from projections.cluster import Cluster
from projections.pods import Pod


class UnknownDecisions(Struct, frozen=True):
    """Bound pods that name decisions which the log does not have."""

    count: int = 0
    highest: int = 0
    """The highest position that one of them names."""
    pod: str = ""
    """That pod."""


def has_unknown_decision(cluster: Cluster, pod: Pod) -> bool:
    """Return True if a pod that muster schedules is on a node, names the decision that bound it, and the log has none."""
    facts = pod.facts
    return (
        facts.decision > 0
        and not pod.decision
        and bool(facts.node)
        and not cluster.is_shadow
        and facts.scheduler in cluster.scheduler_names
    )


def unknown_decisions(cluster: Cluster) -> UnknownDecisions:
    """Count them: all pods are looked at."""
    found = [pod for pod in cluster.pods.values() if has_unknown_decision(cluster, pod)]
    if not found:
        return UnknownDecisions()
    last = max(found, key=lambda pod: (pod.facts.decision, pod.key))
    return UnknownDecisions(len(found), last.facts.decision, last.key)
