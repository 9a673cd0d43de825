"""Pod affinity and anti-affinity: which nodes they close, and how they score (Kubernetes' InterPodAffinity).

Anti-affinity holds both ways: a pod does not go where it does not bear others, nor where others do not bear
it. The first of a set of pods that want each other goes anywhere.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.pod_class import PodClass
from scheduling.pod_topology.counts import Tally
from scheduling.pod_topology.index import Neighbourhood
from scheduling.score import FULL

Mask = npt.NDArray[np.bool_]

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
NOT_BORNE: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


def closed_by_affinity(around: Neighbourhood, pod_class: PodClass, *, later: bool) -> Mask:
    """Nodes that are not in the same domain as pods that the pod must be near."""
    terms = pod_class.terms.required_affinity
    tally = around.covered(terms)
    amounts = tally.sure(later=later)
    sums = [(one, around.domain(one.topology_key).sums(amounts)) for one in terms]
    is_first = not any(bool(of.any()) for _, of in sums) and _wants_itself(around, pod_class)
    open_nodes: Mask = np.ones(len(amounts), dtype=np.bool_)
    for term, of in sums:
        domain = around.domain(term.topology_key)
        open_nodes &= domain.inside if is_first else domain.spread_out(of) > 0
    return ~open_nodes


def _wants_itself(around: Neighbourhood, pod_class: PodClass) -> bool:
    terms, labels_of = pod_class.terms, around.cluster.inter_pod_affinity.labels_of
    labels = dict(terms.labels)
    return all(one.matches(terms.namespace, labels, labels_of) for one in terms.required_affinity)


def closed_by_anti_affinity(around: Neighbourhood, pod_class: PodClass, *, later: bool) -> Mask:
    """Nodes in the same domain as pods that the pod does not bear."""
    closed: Mask = np.zeros(len(around.cluster.nodes.order), dtype=np.bool_)
    for term in pod_class.terms.required_anti_affinity:
        closed |= _near(around, term.topology_key, around.covered((term,)), later=later)
    return closed


def closed_by_others(around: Neighbourhood, pod_class: PodClass, *, later: bool) -> Mask:
    """Nodes in the same domain as pods that do not bear this one."""
    closed: Mask = np.zeros(len(around.cluster.nodes.order), dtype=np.bool_)
    if (seen := pod_class.selected_as) is not None:
        for key in around.selecting(seen).barring:
            closed |= _near(around, key, around.barring(seen, key), later=later)
    return closed


def _near(around: Neighbourhood, topology_key: str, tally: Tally, *, later: bool) -> Mask:
    domain = around.domain(topology_key)
    return domain.spread_out(domain.sums(tally.possible(later=later))) > 0


def affinity_points(
    around: Neighbourhood, pod_class: PodClass, can: Mask
) -> npt.NDArray[np.int64] | None:
    """What is preferred, by this pod and by those there: 100 points for the best of the nodes that can take it.

    None where it is the same everywhere.
    """
    raw = np.zeros(len(can), dtype=np.int64)
    for preferred_term in pod_class.terms.preferred:
        domain = around.domain(preferred_term.term.topology_key)
        tally = around.covered((preferred_term.term,))
        raw += preferred_term.weight * domain.spread_out(domain.sums(tally.there))
    if (seen := pod_class.selected_as) is not None:
        for key in around.selecting(seen).weighing:
            domain = around.domain(key)
            raw += domain.spread_out(domain.sums(around.weighing(seen, key).there))
    least, most = int(raw[can].min()), int(raw[can].max())
    if least == most:
        return None
    return (raw - least) * FULL // (most - least)
