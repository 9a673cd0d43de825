"""Why a pod got its node: the candidate nodes and their scores, recomputed.

A decision is explained from the State just before it, which includes all earlier decisions of its cycle. Tentative
placements are undone before a function returns.
"""

import numpy as np
from msgspec import structs

from projections import quota_charging
from projections.nodes import Node
from projections.plugin import PluginSet
from projections.pod_class import PodClass
from projections.pods import Pod
from scheduling.explain.nodes import NODES_MAX
from scheduling.explain.quota import cards_allowed, charged_limits
from scheduling.explanation import Choice, PlacedPod, Scored
from scheduling.node_overlay import NodeOverlay
from scheduling.node_ranking import NodeRankings
from scheduling.plugin import NodeOrder
from scheduling.topology.explain_domain import placement_domain_of
from scheduling.topology.network import Network
from scheduling.topology.node_scope import NodeScope
from scheduling.unschedulable import node_reasons


def explain_placement(rankings: NodeRankings, placed: PlacedPod) -> Choice | None:
    """Explain why the pod got its node, from the State just before the decision."""
    group, event, uid = placed.group, placed.decision, placed.uid
    cluster = rankings.cluster
    cluster.nodes.lay_out()
    with NodeOverlay(cluster, group) as overlay:
        for placement in event.placements:
            pod = cluster.pods.get(placement.uid)
            node = cluster.nodes.nodes.get(placement.node)
            if pod is None or node is None or node.facts is None:
                return None
            overlay.lift_nomination(pod)
            if placement.uid == uid:
                place, domain = placement_domain_of(Network(rankings), group, event.placements, uid)
                found = _choice(rankings, overlay, place, pod, node)
                return structs.replace(found, domain=domain)
            overlay.place(pod, node, placement.devices, later=False)
    return None


def _choice(
    rankings: NodeRankings, overlay: NodeOverlay, place: NodeScope, pod: Pod, node: Node
) -> Choice:
    cluster, pod_class = rankings.cluster, pod.pod_class
    queue = cluster.queues[overlay.group.queue]
    cards = cards_allowed(cluster, queue, pod_class, overlay.extra)
    job = rankings.job_of(overlay.group)
    plain = rankings.of(pod_class, cards, job).scores()
    scores = place.scores(rankings.of(pod_class, cards, job), pod_class)
    order = np.lexsort((np.arange(len(scores)), -scores))
    candidates = int((scores >= 0).sum())
    best = [int(slot) for slot in order[: min(candidates, NODES_MAX)]]
    if node.slot not in best:
        best.append(node.slot)
    charge = quota_charging.charge_on(cluster, pod_class, node.name)
    inside = place.candidate_nodes.inside if place.candidate_nodes.name else None
    return Choice(
        pod=pod.key,
        node=node.name,
        cards={name: amount for name, amount in charge if name in cluster.cards.resource},
        nodes=len(scores) if inside is None else int(np.count_nonzero(inside)),
        candidates=candidates,
        ranked=tuple(
            _scored(rankings, pod_class, slot, int(plain[slot]), int(scores[slot])) for slot in best
        ),
        reasons=node_reasons(rankings, pod_class, cards, job, inside)[0],
        limits=charged_limits(cluster, queue, charge, overlay.extra),
        agrees=best[0] == node.slot,
    )


def _scored(
    rankings: NodeRankings, pod_class: PodClass, slot: int, plain: int, score: int
) -> Scored:
    """Return a node with its score; `plain` is the part given by plugins that look at single nodes."""
    node = rankings.cluster.nodes.order[slot]
    parts = score_parts(rankings.cluster.plugins, pod_class, node)
    if (pod_topology := rankings.pod_topology(pod_class)) is not None:
        parts |= pod_topology.plugin_points(node)
    if plain >= 0 and (rest := plain - sum(parts.values())):
        parts["preference"] = rest
    if score >= 0 and score != plain:
        parts["network"] = score - plain
    return Scored(
        node=node.name,
        score=score,
        parts={name: part for name, part in parts.items() if part},
        free={name: node.free.get(name, 0) for name, _ in pod_class.request if name != "pods"},
    )


def score_parts(plugins: PluginSet, pod_class: PodClass, node: Node) -> dict[str, int]:
    """Return what each scorer contributes to the score of a node; the sum is the score."""
    facts = node.facts
    assert facts is not None, f"{node.name} is absent"
    scorers = [part for one in plugins.of(NodeOrder) for part in one.parts(pod_class).items()]
    return {name: one.of_node(facts.allocatable, node.free) for name, one in scorers}
