"""Whether who came or left matters to pods that were refused for who stands where."""

from typing import Final

import msgspec

from projections.cluster import Cluster
from projections.pod_terms import AffinityTerm, Labels, PodAffinityTerm, selects
from projections.pods import Pod
from projections.sized_cache import lengths, sized_cache
from projections.wakeup_events import ALL_PODS, WakeupEvents

MET_BYTES_MAX: Final = 4 << 20
"""Bytes of the descriptions of pods that came or left, of which the decoded form is kept."""

_MET: Final = msgspec.json.Decoder(tuple[str, Labels, tuple[AffinityTerm, ...]])


@sized_cache(MET_BYTES_MAX, lengths)
def _read(met: str) -> tuple[str, dict[str, str], tuple[AffinityTerm, ...]]:
    namespace, labels, barring = _MET.decode(met)
    return namespace, dict(labels), barring


def minds(cluster: Cluster, pod: Pod, due: WakeupEvents) -> bool:
    """Whether a waiting pod may go elsewhere now, because of pods that came to a node or left one."""
    if ALL_PODS in due.changed_pod_kinds:
        return pod.pod_class.depends_on_other_pods
    return any(_concerns(cluster, pod, one) for one in due.changed_pod_kinds)


def _concerns(cluster: Cluster, pod: Pod, met: str) -> bool:
    namespace, labels, barring = _read(met)
    terms = pod.pod_class.terms
    asked: tuple[PodAffinityTerm, ...] = (*terms.required_affinity, *terms.required_anti_affinity)
    if any(one.matches(namespace, labels, cluster.inter_pod_affinity.labels_of) for one in asked):
        return True
    if namespace == terms.namespace and any(
        one.is_hard and selects(one.selector, labels) for one in terms.spread
    ):
        return True
    # The terms of a pod that is gone are in no index any more: what they select is asked of the pod's own labels.
    own = dict(pod.facts.labels) if barring else {}
    labels_of = cluster.inter_pod_affinity.labels_of
    return any(one.term.matches(pod.facts.namespace, own, labels_of) for one in barring)
