"""Whether who came or left matters to pods that were refused for who stands where."""

from typing import Final

import msgspec

from projections.cluster import Cluster
from projections.pod_terms import Labels, PodTerm, Regard, selects
from projections.pods import Pod
from projections.sized_cache import lengths, sized_cache
from projections.wakeup_events import ALL_PODS, WakeupEvents

MET_BYTES_MAX: Final = 4 << 20
"""Bytes of the descriptions of pods that came or left, of which the decoded form is kept."""

_MET: Final = msgspec.json.Decoder(tuple[str, Labels, tuple[Regard, ...]])


@sized_cache(MET_BYTES_MAX, lengths)
def _read(met: str) -> tuple[str, dict[str, str], tuple[Regard, ...]]:
    namespace, labels, barring = _MET.decode(met)
    return namespace, dict(labels), barring


def minds(cluster: Cluster, pod: Pod, due: WakeupEvents) -> bool:
    """Whether a waiting pod may go elsewhere now, because of pods that came to a node or left one."""
    if ALL_PODS in due.met:
        return pod.pod_class.looks_around
    return any(_concerns(cluster, pod, one) for one in due.met)


def _concerns(cluster: Cluster, pod: Pod, met: str) -> bool:
    namespace, labels, barring = _read(met)
    terms = pod.pod_class.terms
    asked: tuple[PodTerm, ...] = (*terms.near, *terms.apart)
    if any(one.covers(namespace, labels, cluster.regards.labels_of) for one in asked):
        return True
    if namespace == terms.namespace and any(
        one.is_hard and selects(one.selector, labels) for one in terms.spread
    ):
        return True
    # The terms of a pod that is gone are in no index any more: what they select is asked of the pod's own labels.
    own = dict(pod.facts.labels) if barring else {}
    labels_of = cluster.regards.labels_of
    return any(one.term.covers(pod.facts.namespace, own, labels_of) for one in barring)
