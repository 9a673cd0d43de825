"""All nodes, judged for one pod: whether each fits it, the parts of its score, and the devices that it would give."""

from typing import Final

from projections.device_family import Cards, JobShape
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pods import Pod
from scheduling.device_request import invalid_device_request
from scheduling.explain.nodes import shortfall_of
from scheduling.explain.quota import QueueLimits
from scheduling.explanation import JudgedNode, JudgedPod, NodeShortfall
from scheduling.node_ranking import NodeRankings
from scheduling.score_formulas import NodeOrder
from scheduling.session import Session
from scheduling.volumes.claim_check import ClaimCheck

CLASSES_MAX: Final = 8
"""Maximum number of equivalence classes of a group for which nodes are judged."""

OUTSIDE: Final = "node is outside the topology domain of the gang"


def judged_pods(session: Session, group: PodGroup) -> tuple[JudgedPod, ...]:
    """Return all nodes, judged for the first waiting pod of each equivalence class of the group, each pod alone.

    If a device family refuses the group whatever nodes there are, or a claim of the pod cannot be used, that is the reason
    of every node.
    """
    cluster, rankings = session.cluster, session.rankings
    cluster.nodes.lay_out()
    waiting: dict[int, list[Pod]] = {}
    for pod in () if group.is_foreign else group.pending:
        waiting.setdefault(pod.pod_class.index, []).append(pod)
    job = rankings.job_of(group)
    invalid = invalid_device_request(session, group)
    found: list[JudgedPod] = []
    for pods in list(waiting.values())[:CLASSES_MAX]:
        pod_class = pods[0].pod_class
        cards = QueueLimits(cluster, cluster.queues[group.queue]).cards_allowed(pod_class, {})
        unusable = ClaimCheck(cluster, pod_class).refusal(group) if invalid is None else invalid
        if unusable is None:
            scores = rankings.of(pod_class, cards, job).scores().tolist()
            nodes = [
                judged_node(rankings, pod_class, cards, job, slot, score, score)
                for slot, score in enumerate(scores)
            ]
        else:
            refused = [NodeShortfall(one.name, {}, unusable.message) for one in cluster.nodes.order]
            nodes = [JudgedNode(one.node, -1, {}, {}, shortfall=one) for one in refused]
        nodes.sort(key=lambda one: one.node)
        found.append(JudgedPod(pods[0].key, len(pods), tuple(nodes)))
    return tuple(found)


def judged_node(
    rankings: NodeRankings,
    pod_class: PodClass,
    cards: Cards,
    job: JobShape,
    slot: int,
    plain: int,
    score: int,
    scope: str = "network",
) -> JudgedNode:
    """Return a node with its score; `plain` is the part given by plugins that look at single nodes, and
    the rest is shown under the name `scope`."""
    node = rankings.cluster.nodes.order[slot]
    free = {name: node.free.get(name, 0) for name, _ in pod_class.request if name != "pods"}
    if plain < 0:
        shortfall = shortfall_of(rankings, pod_class, cards, job, node)
        return JudgedNode(node.name, score, {}, free, shortfall=shortfall)
    assert node.facts is not None, f"{node.name} is absent"
    ranking = rankings.of(pod_class, cards, job)
    orders = rankings.cluster.plugins.of(NodeOrder)
    scorers = [part for one in orders for part in one.parts(pod_class).items()]
    parts = {name: one.of_node(node.facts.allocatable, node.free) for name, one in scorers}
    parts |= ranking.shared_scores.device_parts(node)
    if (pod_topology := rankings.pod_topology(pod_class)) is not None:
        parts |= pod_topology.plugin_points(node)
    parts["preference"] = plain - sum(parts.values())
    if score < 0:
        outside = NodeShortfall(node.name, {}, OUTSIDE)
        return JudgedNode(node.name, score, {}, free, shortfall=outside)
    parts[scope] = score - plain
    return JudgedNode(
        node=node.name,
        score=score,
        parts={name: part for name, part in parts.items() if part},
        free=free,
        devices=ranking.devices.pick(node),
    )
