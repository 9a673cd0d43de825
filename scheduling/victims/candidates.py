"""Candidates: pods on a node that an action looks at, those that lose least by it first.

`preempt` looks at pods of the same queue, `reclaim` at running pods of other queues that allow it. Never
looked at are pods that belong to their node or say that they are not to be evicted, pods that could not be
evicted a moment ago, and pods that their disruption budgets hold.
"""

from projections.contest import MOVABLE
from projections.nodes import Node
from projections.pods import RUNNING, Pod
from projections.standing import job_order
from scheduling.quota.order import Turn
from scheduling.quota.reclaiming import kinship
from scheduling.victims.claim import Claim

AGE_AND_NAMES = 3
"""The last parts of the order of pod groups, which no plugin has said."""


def candidates(claim: Claim, node: Node) -> list[Pod]:
    """The candidates on a node, in the order in which they would be evicted."""
    pods = claim.cluster.pods
    return in_victim_order(claim, [pods[uid] for uid in node.pods if _is_one(claim, pods[uid])])


def _is_one(claim: Claim, pod: Pod) -> bool:
    group = claim.cluster.groups.get(pod.group_key)
    if group is None or not pod.facts.is_evictable or pod.facts.uid in claim.cluster.spared:
        return False
    if pod in claim.trial.taken.get(pod.group_key, ()):
        return False
    if claim.is_within:
        is_less = pod.facts.task_priority < claim.pod.facts.task_priority
        return group is claim.group and pod.status in MOVABLE and is_less
    if claim.action == "preempt":
        return group is not claim.group and group.queue == claim.group.queue and _is_there(pod)
    if group.queue == claim.group.queue or pod.status != RUNNING:
        return False
    facts = claim.cluster.queue(group.queue).facts
    return facts is None or facts.is_reclaimable


def _is_there(pod: Pod) -> bool:
    return pod.status in MOVABLE


def in_victim_order(claim: Claim, pods: list[Pod]) -> list[Pod]:
    """Whose turn would be last goes first: by queue (in a tree, near ones first), by what plugins say of the group, by pod."""
    cluster = claim.cluster
    names = dict.fromkeys(cluster.groups[pod.group_key].queue for pod in pods)
    turns = sorted(Turn(cluster, cluster.queue(name)) for name in names)
    ranks = {turn.queue.name: rank for rank, turn in enumerate(turns)}
    nearness = {name: kinship(claim.queue, cluster.queue(name)) for name in names}

    def place(pod: Pod) -> tuple[object, ...]:
        group = cluster.groups[pod.group_key]
        said = job_order(cluster, group)[:-AGE_AND_NAMES]
        return (nearness[group.queue], ranks[group.queue], said, pod.heading)

    return sorted(pods, key=place, reverse=True)
