"""Whether an added or removed pod matters to pods that were refused by affinity or spread."""

from typing import Final

import msgspec

from events.sized_cache import length, sized_cache
from projections.cluster import Cluster
from projections.pod_terms import AffinityTerm, Labels, PodAffinityTerm, selects
from projections.pods import Pod
from projections.wakeup_events import ALL_PODS, WakeupEvents

MET_BYTES_MAX: Final = 4 << 20
"""Maximum size of the cached decoded descriptions of added and removed pods."""

_POD_KIND: Final = msgspec.json.Decoder(tuple[str, Labels, tuple[AffinityTerm, ...]])


@sized_cache(MET_BYTES_MAX, length)
def _read(met: str) -> tuple[str, dict[str, str], tuple[AffinityTerm, ...]]:
    namespace, labels, barring = _POD_KIND.decode(met)
    return namespace, dict(labels), barring


def has_anti_affinity(met: str) -> bool:
    """Return True if pods of a kind that was added or removed exclude other pods by anti-affinity."""
    return bool(_read(met)[2])


def is_affected_by_pods(cluster: Cluster, pod: Pod, due: WakeupEvents) -> bool:
    """Return True if a pending pod may be feasible on other nodes now, because pods were added to nodes or removed."""
    if ALL_PODS in due.changed_pod_kinds:
        return pod.pod_class.depends_on_other_pods
    return any(_selects_pod(cluster, pod, one) for one in due.changed_pod_kinds)


def _selects_pod(cluster: Cluster, pod: Pod, met: str) -> bool:
    namespace, labels, barring = _read(met)
    terms = pod.pod_class.terms
    asked: tuple[PodAffinityTerm, ...] = (*terms.required_affinity, *terms.required_anti_affinity)
    if any(one.matches(namespace, labels, cluster.inter_pod_affinity.labels_of) for one in asked):
        return True
    if namespace == terms.namespace and any(
        one.is_hard and selects(one.selector, labels) for one in terms.spread
    ):
        return True
    # The terms of a removed pod are in no index any more: match what they select against the pod's own labels.
    own = dict(pod.facts.labels) if barring else {}
    labels_of = cluster.inter_pod_affinity.labels_of
    return any(one.term.matches(pod.facts.namespace, own, labels_of) for one in barring)
