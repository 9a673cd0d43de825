"""Where the pods of a job that is restarted were, and where those that replace them should go.

A pod that replaces a healthy one returns to the node of that pod, where its resources are reserved. A pod that replaces a
faulty one goes to a node on which no pod of the job was faulty, and that is not reserved for another pod of the job, as long
as there is one.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from events.decisions.reschedule import JOB, RestartedPod
from projections.deltas import RestartChanged
from projections.pod_groups import PodGroup
from projections.pod_ranks import stated_rank
from projections.pods import Pod
from projections.rescheduling import drop_reservations

if TYPE_CHECKING:
    from projections.cluster import Cluster


class PreviousNodes(Struct, frozen=True):
    """Where the pending pods of a job should go."""

    of: Mapping[str, str] = {}
    """UID of a pod that replaces a healthy one to the node of that pod."""
    avoided: Mapping[str, None] = {}
    """Names of nodes on which pods of the job were faulty, or that are reserved for other pods of the job."""
    replaced: Mapping[str, RestartedPod] = {}
    """UID of a pod to the one that it replaces."""


NONE: Final = PreviousNodes()

IN_PLACE: Final = "reschedule-in-place"
"""Annotation of a pod that has the node of the one that it replaces (the vendor's)."""


def previous_nodes(cluster: "Cluster", group: PodGroup) -> PreviousNodes:
    """Return where the pending pods of a group should go; nothing if it is not being restarted."""
    if not cluster.policy.reschedules:
        return NONE
    restart = cluster.reschedulings.restarts.get(group.key)
    if restart is None:
        return NONE
    gone = {one.uid: one for one in restart.members if one.uid not in group.pods}
    # Pods with nominated nodes have taken the place of another one already.
    replaced = {uid: gone.pop(old) for old, uid in restart.replaced.items() if old in gone}
    waiting = [pod for pod in group.pending if pod.facts.uid not in replaced]
    replaced |= match_members(gone.values(), waiting)
    faulty = {one.node: None for one in restart.members if one.fault}
    kept = {one.node: None for one in restart.reservations.values()}
    return PreviousNodes(
        of={uid: one.node for uid, one in replaced.items() if one.uid in restart.reservations},
        avoided={**faulty, **kept},
        replaced=replaced,
    )


def is_in_place(cluster: "Cluster", pod: Pod) -> bool:
    """Return whether a pod replaces another one on the same node, while others of its job stay."""
    restart = cluster.reschedulings.restarts.get(pod.group_key)
    if restart is None or restart.scope == JOB:
        return False
    nodes = {one.uid: one.node for one in restart.members}
    return any(
        uid == pod.facts.uid and nodes.get(old) == pod.node for old, uid in restart.replaced.items()
    )


def ranks_before(cluster: "Cluster", group: PodGroup) -> dict[str, int]:
    """Return the ranks of the pods that pending pods of a group replace, by UID."""
    replaced = previous_nodes(cluster, group).replaced
    return {uid: one.rank for uid, one in replaced.items() if one.rank >= 0}


def match_members(members: Iterable[RestartedPod], pods: Iterable[Pod]) -> dict[str, RestartedPod]:
    """Return, by UID of a pod, which pod of before it replaces: the one of the same name or of the same rank; others in
    their order, healthy ones first."""
    left = {one.uid: one for one in members}
    by_name = {one.pod: one for one in left.values()}
    by_rank = {one.rank: one for one in left.values() if one.rank >= 0}
    found: dict[str, RestartedPod] = {}
    others: list[Pod] = []
    for pod in pods:
        one = by_name.get(pod.key) or by_rank.get(stated_rank(pod))
        if one is not None and one.uid in left:
            found[pod.facts.uid] = left.pop(one.uid)
        else:
            others.append(pod)
    rest = sorted(left.values(), key=lambda one: (bool(one.fault), one.rank, one.pod))
    for pod, one in zip(others, rest, strict=False):
        found[pod.facts.uid] = one
    return found


def record_replaced(cluster: "Cluster", group: PodGroup, uids: Iterable[str]) -> None:
    """Record that pods of a group, which are pending, have nodes now: what is reserved for them is theirs."""
    restart = cluster.reschedulings.restarts.get(group.key)
    if restart is None:
        return
    replaced = previous_nodes(cluster, group).replaced
    done = {replaced[uid].uid: uid for uid in uids if uid in replaced}
    if not done:
        return
    drop_reservations(cluster, group.key, tuple(done))
    restart = cluster.reschedulings.restarts[group.key]
    known = {**restart.replaced, **done}
    cluster.reschedulings.restarts[group.key] = structs.replace(restart, replaced=known)
    cluster.indexes.dispatch(cluster, RestartChanged(group.key))
