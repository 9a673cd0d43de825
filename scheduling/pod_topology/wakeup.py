"""Whether an added or removed pod matters to pods that were refused by affinity or spread."""

from projections.cluster import Cluster
from projections.pod_terms import PodAffinityTerm, selects
from projections.pods import Pod
from projections.wakeup_events import ALL_PODS, PodKind, WakeupEvents


def is_affected_by_pods(cluster: Cluster, pod: Pod, due: WakeupEvents) -> bool:
    """Return True if a pending pod may be feasible on other nodes now, because pods were added to nodes or removed."""
    if ALL_PODS in due.changed_pod_kinds:
        return pod.pod_class.depends_on_other_pods
    return any(_selects_pod(cluster, pod, one) for one in due.changed_pod_kinds)


def _selects_pod(cluster: Cluster, pod: Pod, kind: PodKind) -> bool:
    namespace, labels = kind.namespace, dict(kind.labels)
    labels_of = cluster.inter_pod_affinity.labels_of
    terms = pod.pod_class.terms
    asked: tuple[PodAffinityTerm, ...] = (*terms.required_affinity, *terms.required_anti_affinity)
    if any(one.matches(namespace, labels, labels_of) for one in asked):
        return True
    if namespace == terms.namespace and any(
        one.is_hard and selects(one.selector, labels) for one in terms.spread
    ):
        return True
    # The terms of a removed pod are in no index any more: match what they select against the pod's own labels.
    own = dict(pod.facts.labels) if kind.anti_affinity else {}
    return any(one.matches(pod.facts.namespace, own, labels_of) for one in kind.anti_affinity)
