"""Explanations of decisions: the numbers behind them, recomputed from the State in which they were made.

Nothing here decides. A decision is explained from the State just before it, which includes all earlier decisions
of its cycle. Tentative placements are undone before a function returns.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from projections import quota_charging
from projections.cluster import Cluster
from projections.device_family import Cards
from projections.nodes import Node, NodeFacts
from projections.plugin import PluginSet
from projections.pod_class import Amounts, PodClass
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.queues import Queue
from projections.selector import untolerated
from scheduling.node_overlay import NodeOverlay
from scheduling.node_predicates import NOT_SELECTED, TAINTED, UNSCHEDULABLE, verdict
from scheduling.node_ranking import NodeRankings
from scheduling.plugin import ADMITTED, NodeOrder, NodePredicate
from scheduling.quota import quota_check
from scheduling.quota.card_selection import CardChoice, choose_cards
from scheduling.topology.explain_domain import placement_domain_of
from scheduling.topology.network import Network
from scheduling.topology.node_scope import NodeScope
from scheduling.unschedulable import node_reasons

NODES_MAX: Final = 5
"""Maximum number of nodes that an explanation lists."""

_HARD: Final = ("NoSchedule", "NoExecute")


class Limit(Struct, frozen=True):
    """A resource or card of a queue, compared with what is requested of it."""

    name: str
    used: int
    """Amount allocated or nominated."""
    reserved: int
    """Amount reserved for groups that are admitted and not placed yet, less what groups use beyond their minimum or
    could release."""
    requested: int
    limit: int | None
    """The limit; None if there is none."""
    queue: str = ""
    """The ancestor queue that the limit belongs to; empty for the pod group's own queue."""

    @property
    def short(self) -> int:
        """Return by how much the request exceeds the limit."""
        if self.limit is None:
            return 0
        return max(0, self.used + self.reserved + self.requested - self.limit)


class Scored(Struct, frozen=True):
    """A feasible node with its score in thousandths of a point."""

    node: str
    score: int
    parts: dict[str, int]
    """Scorer to its contribution, weight included."""
    free: dict[str, int]
    """Resource to the amount that was free before the pod was placed, for every resource that it requests."""


class Choice(Struct, frozen=True):
    """Why a pod got its node: the candidate nodes and their scores."""

    pod: str
    node: str
    cards: dict[str, int]
    nodes: int
    candidates: int
    """Number of feasible nodes."""
    ranked: tuple[Scored, ...]
    """The best feasible nodes; the chosen node is always included."""
    reasons: dict[str, int]
    """Reason to the number of nodes that it made infeasible."""
    limits: tuple[Limit, ...]
    """The limits of the queue just before the decision, with what the pod is charged."""
    agrees: bool
    """True if recomputing finds the same node as best."""
    domain: str = ""
    """The topology domain to which the pod was restricted; empty if there was none."""


class NodeShortfall(Struct, frozen=True):
    """An infeasible node and what the pod lacks there."""

    node: str
    lacks: dict[str, int]
    """Resource to the additional amount that would have to be free."""
    obstacle: str = ""
    """Why the node excludes the pod regardless of free resources."""
    withheld_until_ns: dict[str, int] = {}
    """Resource of the request to the time at which the node offers it again, after the kubelet rejected pods."""


def choice(
    rankings: NodeRankings, group: PodGroup, event: GangBindDecided | PipelineDecided, uid: str
) -> Choice | None:
    """Explain why the pod got its node, from the State just before the decision."""
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
            overlay.place(pod, node, later=False)
    return None


def _choice(
    rankings: NodeRankings, overlay: NodeOverlay, place: NodeScope, pod: Pod, node: Node
) -> Choice:
    cluster, pod_class = rankings.cluster, pod.pod_class
    queue = cluster.queues[overlay.group.queue]
    cards = cards_allowed(cluster, queue, pod_class, overlay.extra)
    plain = rankings.of(pod_class, cards).scores()
    scores = place.scores(rankings.of(pod_class, cards), pod_class)
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
        reasons=node_reasons(rankings, pod_class, cards, inside)[0],
        limits=charged_limits(cluster, queue, charge, overlay.extra),
        agrees=best[0] == node.slot,
    )


def cards_allowed(cluster: Cluster, queue: Queue, pod_class: PodClass, extra: Amounts) -> Cards:
    """Return the cards that the queue allows a pod now; if none, the cards that would do."""
    if pod_class.is_best_effort:
        return None
    chosen = choose_cards(cluster, queue, pod_class, extra)
    if isinstance(chosen, CardChoice):
        return chosen.cards
    known = tuple(name for name in pod_class.cards if name in cluster.cards.resource)
    return known or pod_class.cards or None


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


def charged_limits(
    cluster: Cluster, queue: Queue, charge: Charge, extra: Amounts
) -> tuple[Limit, ...]:
    """Return the limits of a queue and its ancestors compared with a charge: what a pod would add to what is
    allocated. `extra` counts as used."""
    return tuple(
        Limit(
            name=member,
            queue="" if one is queue else one.name,
            used=quota_check.used(one, member, extra),
            reserved=0,
            requested=amount,
            limit=quota_check.limit(cluster, one, member),
        )
        for one in queue.lineage
        for name, amount in charge
        for member in quota_charging.cards_of_charge(cluster, name)
    )


def reserved_limits(
    cluster: Cluster, queue: Queue, least: Amounts, reclaimable: Mapping[str, Amounts] | None = None
) -> tuple[Limit, ...]:
    """Return the limits of a queue compared with the minimum of a group that asks to be admitted. Resources that
    others could release for it do not count as reserved.

    A choice of cards is one entry: all cards that may serve it, and what is reserved on any of them.
    """
    limits: list[Limit] = []
    reclaimable = reclaimable or {}
    own = reclaimable.get(queue.name, {})
    for above in queue.lineage[1:]:
        limits += [
            Limit(
                name=name,
                queue=above.name,
                used=quota_check.used(above, name, {}),
                reserved=quota_check.reserved(above, name)
                - reclaimable.get(above.name, {}).get(name, 0),
                requested=amount,
                limit=cluster.plugins.quota.admission_limit(cluster, above, name),
            )
            for name, amount in least.items()
        ]
    for name, amount in least.items():
        ours = quota_charging.cards_of_charge(cluster, name)
        held = sum(
            kept for other, kept in queue.inqueue.items()
            if set(quota_charging.cards_of_charge(cluster, other)) & set(ours)
        )  # fmt: skip
        most = [cluster.plugins.quota.admission_limit(cluster, queue, one) for one in ours]
        limits.append(
            Limit(
                name=name,
                used=sum(quota_check.used(queue, one, {}) for one in ours),
                reserved=held - sum(queue.elastic.get(one, 0) + own.get(one, 0) for one in ours),
                requested=amount,
                limit=None if None in most else sum(one for one in most if one is not None),
            )
        )
    return tuple(limits)


def nearest(rankings: NodeRankings, pod_class: PodClass, cards: Cards) -> tuple[NodeShortfall, ...]:
    """Return the infeasible nodes that come nearest to feasible: nodes that admit the pod first, then those that
    lack least.

    A shortage is weighed by its share of the request, resource by resource.
    """
    table = rankings.cluster.nodes
    table.lay_out()
    if not table.order:
        return ()
    rankings.of(pod_class, cards).scores()
    closed = rankings.predicates(pod_class).verdicts != ADMITTED
    if (points := rankings.devices(pod_class, cards).of_all()) is not None:
        closed = closed | (points < 0)
    if (pod_topology := rankings.pod_topology(pod_class)) is not None:
        closed = closed | ~pod_topology.admitted()
    missing: npt.NDArray[np.int64] = closed.astype(np.int64) * (1 << 40)
    for name, amount in pod_class.request:
        column = table.column(name)
        short = amount if column is None else np.maximum(amount - column, 0)
        # For an amount that overflows 64 bits when multiplied by a thousand, ignore the last bits.
        scale = max(0, amount.bit_length() - 52)
        missing = missing + (np.minimum(short, amount) >> scale) * 1000 // (amount >> scale)
    slots = np.lexsort((np.arange(len(missing)), missing))
    slots = slots[missing[slots] > 0][:NODES_MAX]
    return tuple(_lacking(rankings, pod_class, cards, int(slot)) for slot in slots)


def large_enough(rankings: NodeRankings, pod_class: PodClass, cards: Cards) -> int:
    """Return how many nodes could take the pod if they were empty."""
    rankings.of(pod_class, cards).scores()
    table = rankings.cluster.nodes
    large = rankings.predicates(pod_class).verdicts == ADMITTED
    if (having_devices := rankings.having_devices(pod_class, cards)) is not None:
        large = large & having_devices
    for name, amount in pod_class.request:
        column = table.allocatable.get(name)
        large = large & (False if column is None else column >= amount)
    return int(np.count_nonzero(large))


def _lacking(rankings: NodeRankings, pod_class: PodClass, cards: Cards, slot: int) -> NodeShortfall:
    node = rankings.cluster.nodes.order[slot]
    assert node.facts is not None
    lacks = {
        name: amount - node.free.get(name, 0)
        for name, amount in pod_class.request
        if amount > node.free.get(name, 0)
    }
    obstacle = obstacle_of(rankings.cluster.plugins, pod_class, node.facts)
    obstacle = obstacle or rankings.devices(pod_class, cards).obstacle(node)
    obstacle = obstacle or pod_topology_obstacle(rankings, pod_class, node)
    withheld = withheld_from(pod_class, node)
    return NodeShortfall(node=node.name, lacks=lacks, obstacle=obstacle, withheld_until_ns=withheld)


def withheld_from(pod_class: PodClass, node: Node) -> dict[str, int]:
    """Return the requested resources that the node does not offer for a while, and until when (K5.12)."""
    asked = [name for name, _ in pod_class.request if name in node.quarantine]
    return {name: node.quarantine[name].until_ns for name in asked}


def pod_topology_obstacle(rankings: NodeRankings, pod_class: PodClass, node: Node) -> str:
    """Return which pods exclude pods of this class from a node through affinity, spread or ports; empty if none."""
    pod_topology = rankings.pod_topology(pod_class)
    return "" if pod_topology is None else pod_topology.obstacle(node.slot)


def obstacle_of(plugins: PluginSet, pod_class: PodClass, node: NodeFacts) -> str:
    """Return why the node excludes pods of this class regardless of free resources; empty if it does not."""
    match verdict(plugins.of(NodePredicate), pod_class, node):
        case code if code == UNSCHEDULABLE:
            return "node is unschedulable"
        case code if code == TAINTED:
            bad = [one for one in node.taints if untolerated((one,), pod_class.tolerations, _HARD)]
            shown = ", ".join(f"{one.key}={one.value or ''}:{one.effect}" for one in bad)
            return f"untolerated taint {shown}"
        case code if code == NOT_SELECTED:
            pairs = pod_class.selector.pairs
            unlike = [
                f"{key}={value}" for key, value in pairs if node.labels.get(key) != value
            ] or ["required node affinity"]
            return f"node does not match {', '.join(unlike)}"
        case _:
            return ""
