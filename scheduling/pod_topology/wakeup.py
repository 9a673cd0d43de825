"""Whether who came or left matters to pods that were refused for who stands where."""

from typing import Final

import msgspec

from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.pod_terms import Labels, PodTerm, Regard, selects
from projections.wakeup_events import ALL_PODS, WakeupEvents

_MET: Final = msgspec.json.Decoder(tuple[str, Labels, tuple[Regard, ...]])


def minds(cluster: Cluster, pod_class: PodClass, due: WakeupEvents) -> bool:
    """Whether such pods may go elsewhere now, for who came to stand on a node or left one."""
    if not due.met or not pod_class.looks_around:
        return False
    return ALL_PODS in due.met or any(_concerns(cluster, pod_class, one) for one in due.met)


def _concerns(cluster: Cluster, pod_class: PodClass, met: str) -> bool:
    namespace, listed, barring = _MET.decode(met)
    terms, labels = pod_class.terms, dict(listed)
    asked: tuple[PodTerm, ...] = (*terms.near, *terms.apart)
    if any(one.covers(namespace, labels, cluster.regards.labels_of) for one in asked):
        return True
    if namespace == terms.namespace and any(
        one.is_hard and selects(one.selector, labels) for one in terms.spread
    ):
        return True
    if not pod_class.regarded:
        return False
    return any(one in barring for one in pod_class.regarded)
