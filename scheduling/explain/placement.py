"""Why a pod got its node: the candidate nodes and their scores, recomputed.

A decision is explained from the State just before it, which includes all earlier decisions of its cycle. Tentative
placements are undone before a function returns.
"""

import numpy as np
from msgspec import structs

from projections import quota_charging
from projections.nodes import Node
from projections.pods import Pod
from scheduling.explain.every_node import judged_node
from scheduling.explain.nodes import NODES_MAX
from scheduling.explain.quota import QueueLimits
from scheduling.explanation import Choice, Explanation, JudgedNode, JudgedPod, PlacedPod
from scheduling.gang_placement import placement_walk
from scheduling.group_trial import GroupTrial
from scheduling.node_ranking import NodeRankings
from scheduling.session import Session
from scheduling.topology.default_spread import DefaultSpread
from scheduling.topology.explain_domain import placement_domain_of
from scheduling.topology.network import Network
from scheduling.unschedulable import node_reasons


def explain_placement(session: Session, placed: PlacedPod) -> Explanation:
    """Explain why the pod got its node, from the State just before the decision."""
    group, event = placed.group, placed.decision
    rankings, cluster = session.rankings, session.cluster
    cluster.nodes.lay_out()
    walk = placement_walk(session, group)
    with GroupTrial(cluster, group) as trial:
        for placement in event.placements:
            pod = cluster.pods.get(placement.uid)
            node = cluster.nodes.nodes.get(placement.node)
            if pod is None or node is None or node.facts is None:
                return Explanation()
            trial.lift_nomination(pod)
            if placement.uid == placed.uid:
                found = _explained(rankings, trial, placed, pod, node)
                if not walk or found.choice is None:
                    return found
                choice = structs.replace(found.choice, walk=walk, agrees=True)
                return structs.replace(found, choice=choice)
            trial.place(pod, node, placement.devices)
    return Explanation()


def _explained(
    rankings: NodeRankings, trial: GroupTrial, placed: PlacedPod, pod: Pod, node: Node
) -> Explanation:
    cluster, pod_class = rankings.cluster, pod.pod_class
    place, domain = placement_domain_of(
        Network(rankings), placed.group, placed.decision.placements, placed.uid
    )
    queue = cluster.queues[trial.group.queue]
    cards = QueueLimits(cluster, queue).cards_allowed(pod_class, trial.extra)
    job = rankings.job_of(trial.group)
    plain = rankings.of(pod_class, cards, job).scores()
    scores = place.scores(rankings.of(pod_class, cards, job), pod_class)

    scope = "spread" if isinstance(place, DefaultSpread) else "network"

    def judged(slot: int) -> JudgedNode:
        points = int(plain[slot]), int(scores[slot])
        return judged_node(rankings, pod_class, cards, job, slot, *points, scope)

    order = np.lexsort((np.arange(len(scores)), -scores))
    candidates = int((scores >= 0).sum())
    best = [int(slot) for slot in order[: min(candidates, NODES_MAX)]]
    if node.slot not in best:
        best.append(node.slot)
    charge = quota_charging.charge_on(cluster, pod_class, node.name)
    inside = place.candidate_nodes.inside if place.candidate_nodes.name else None
    choice = Choice(
        pod=pod.key,
        node=node.name,
        cards={name: amount for name, amount in charge if name in cluster.cards.resource},
        nodes=len(scores) if inside is None else int(np.count_nonzero(inside)),
        candidates=candidates,
        ranked=tuple(judged(slot) for slot in best),
        reasons=node_reasons(rankings, pod_class, cards, job, inside)[0],
        limits=QueueLimits(cluster, queue).charged(charge, trial.extra),
        agrees=best[0] == node.slot,
        domain=domain,
    )
    if not placed.with_every_node:
        return Explanation(choice=choice)
    every = sorted(map(judged, range(len(scores))), key=lambda one: one.node)
    return Explanation(choice=choice, judged=(JudgedPod(pod.key, 1, tuple(every)),))
