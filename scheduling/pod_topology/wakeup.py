"""Whether an added or removed pod matters to pods that were refused by affinity or spread."""

from collections.abc import Iterable

from projections.pod_terms import LabelsOf, PodAffinityTerm, selects
from projections.pods import Pod
from projections.wakeup_events import ALL_PODS, PodKind


def is_affected_by_pods(pod: Pod, changed: Iterable[PodKind], labels_of: LabelsOf) -> bool:
    """Return True if a pending pod may be feasible on other nodes now, because pods of some kinds were added to nodes or
    removed. `labels_of` are those of namespaces."""
    if ALL_PODS in changed:
        return pod.pod_class.depends_on_other_pods
    return any(_selects_pod(pod, one, labels_of) for one in changed)


def _selects_pod(pod: Pod, kind: PodKind, labels_of: LabelsOf) -> bool:
    namespace, labels = kind.namespace, dict(kind.labels)
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
