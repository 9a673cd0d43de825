"""Pod affinity and anti-affinity: which nodes they exclude, and how they score (Kubernetes' InterPodAffinity).

Anti-affinity applies both ways: a pod is not placed near pods that match its terms, nor near pods whose terms
match it. The first of a set of pods with affinity to each other may be placed anywhere.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.pod_class import PodClass
from scheduling.node_columns import FULL
from scheduling.pod_topology.counts import PodCounts
from scheduling.pod_topology.index import PodTopologyIndex

Mask = npt.NDArray[np.bool_]

AFFINITY_MISMATCH: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


def excluded_by_affinity(index: PodTopologyIndex, pod_class: PodClass, *, later: bool) -> Mask:
    """Return the nodes without a pod in their topology domain that matches the pod's affinity."""
    terms = pod_class.terms.required_affinity
    pod_counts = index.matching_all(terms)
    amounts = pod_counts.guaranteed(later=later)
    sums = [(one, index.domain(one.topology_key).sums(amounts)) for one in terms]
    is_first = not any(bool(of.any()) for _, of in sums) and _matches_own_affinity(index, pod_class)
    open_nodes: Mask = np.ones(len(amounts), dtype=np.bool_)
    for term, of in sums:
        domain = index.domain(term.topology_key)
        open_nodes &= domain.inside if is_first else domain.spread_out(of) > 0
    return ~open_nodes


def _matches_own_affinity(index: PodTopologyIndex, pod_class: PodClass) -> bool:
    terms, labels_of = pod_class.terms, index.cluster.inter_pod_affinity.labels_of
    labels = dict(terms.labels)
    return all(one.matches(terms.namespace, labels, labels_of) for one in terms.required_affinity)


def excluded_by_anti_affinity(index: PodTopologyIndex, pod_class: PodClass, *, later: bool) -> Mask:
    """Return the nodes with a pod in their topology domain that matches the pod's anti-affinity."""
    excluded: Mask = np.zeros(len(index.cluster.nodes.order), dtype=np.bool_)
    for term in pod_class.terms.required_anti_affinity:
        excluded |= _in_domain_of(
            index, term.topology_key, index.matching_all((term,)), later=later
        )
    return excluded


def excluded_by_existing_anti_affinity(
    index: PodTopologyIndex, pod_class: PodClass, *, later: bool
) -> Mask:
    """Return the nodes with a pod in their topology domain whose anti-affinity matches this pod."""
    excluded: Mask = np.zeros(len(index.cluster.nodes.order), dtype=np.bool_)
    if (seen := pod_class.selected_as) is not None:
        for key in index.selecting(seen).barring:
            excluded |= _in_domain_of(
                index, key, index.with_anti_affinity_to(seen, key), later=later
            )
    return excluded


def _in_domain_of(
    index: PodTopologyIndex, topology_key: str, pod_counts: PodCounts, *, later: bool
) -> Mask:
    domain = index.domain(topology_key)
    return domain.spread_out(domain.sums(pod_counts.possible(later=later))) > 0


def affinity_points(
    index: PodTopologyIndex, pod_class: PodClass, can: Mask
) -> npt.NDArray[np.int64] | None:
    """Score the preferred terms of this pod and of existing pods: 100 points for the best feasible node.

    Return None if the score is the same on all nodes.
    """
    raw = np.zeros(len(can), dtype=np.int64)
    for preferred_term in pod_class.terms.preferred:
        domain = index.domain(preferred_term.term.topology_key)
        pod_counts = index.matching_all((preferred_term.term,))
        raw += preferred_term.weight * domain.spread_out(domain.sums(pod_counts.present))
    if (seen := pod_class.selected_as) is not None:
        for key in index.selecting(seen).weighing:
            domain = index.domain(key)
            raw += domain.spread_out(domain.sums(index.preference_weights(seen, key).present))
    least, most = int(raw[can].min()), int(raw[can].max())
    if least == most:
        return None
    return (raw - least) * FULL // (most - least)
