"""Admission of a pod group to its queue: votes of the plugins, tier by tier (Volcano's enqueueable functions).

A plugin permits, rejects or abstains. The first rejection refuses the group; after a permit in a tier later tiers
are not asked; if all abstain the group is admitted. A group without minResources is permitted by all plugins that
enforce a limit.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from projections import quota_charging
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.refusals import node_helps
from scheduling.plugin import JobEnqueueable, JobPipelined, Vote
from scheduling.quota.queue_room import QueueRoom
from scheduling.quota.quota_check import may_enqueue
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.quota.yielding import holder_text, may_yield, needed, reserved_by
from scheduling.shortage import Shortage


class Admission(Struct, frozen=True):
    """Whether a pod group is admitted to its queue."""

    short: Shortage | None
    """Why it is not; None if it is."""
    yielding: tuple[PodGroup, ...] = ()
    """The groups whose reservations it takes."""


def admission(
    cluster: Cluster,
    reclaimable: ReclaimableResources,
    group: PodGroup,
    room: QueueRoom | None = None,
) -> Admission:
    """Return whether the group is admitted now, with the room there is or with reservations that yield to it. `room` is that
    of its queue, if it is kept."""
    short = why_not_admitted(cluster, reclaimable, group, room)
    if short is None:
        return Admission(None)

    def is_enough(yielding: tuple[PodGroup, ...]) -> bool:
        return why_not_admitted(cluster, reclaimable.without(yielding), group) is None

    yielding = needed(may_yield(cluster, group), is_enough)
    if yielding:
        return Admission(None, yielding)
    held = holder_text(cluster, group, short.limit)
    return Admission(structs.replace(short, message=short.message + held) if held else short)


def why_not_admitted(
    cluster: Cluster,
    reclaimable: ReclaimableResources,
    group: PodGroup,
    room: QueueRoom | None = None,
) -> Shortage | None:
    """Return why the group is not admitted to its queue now, or None."""
    for tier in cluster.plugins.tiers_of(JobEnqueueable):
        is_permitted = False
        for plugin in tier:
            if room is not None and plugin.votes_by_limits and _has_room(cluster, room, group):
                is_permitted = True
                continue
            vote = plugin.may_enqueue(cluster, reclaimable, group)
            if isinstance(vote, Shortage):
                return _beside_others(cluster, reclaimable, group, vote, tier)
            is_permitted |= vote == "permit"
        if is_permitted:
            return None
    return None


def _has_room(cluster: Cluster, room: QueueRoom, group: PodGroup) -> bool:
    """Return True if the limits of its queue permit a group without anything being released."""
    asked = quota_charging.admission_charge(cluster, group)
    return asked is None or room.may_reserve(asked)


def _beside_others(
    cluster: Cluster,
    reclaimable: ReclaimableResources,
    group: PodGroup,
    vote: Shortage,
    tier: Sequence[JobEnqueueable],
) -> Shortage:
    """Return a vote by the resources of the cluster as one that no node helps if another plugin of the tier rejects the
    group whatever nodes are added."""
    if not node_helps(vote.code, vote.node_helps):
        return vote
    for plugin in tier:
        other = plugin.may_enqueue(cluster, reclaimable, group)
        if isinstance(other, Shortage) and not node_helps(other.code, other.node_helps):
            return structs.replace(vote, node_helps=False)
    return vote


def may_hold_partial_reservation(cluster: Cluster, group: PodGroup) -> bool:
    """Return True if a gang may hold the room found for only some of its pods, because it waited longer than its
    SLA.

    The first tier with votes decides (Volcano's pipelined functions).
    """
    for tier in cluster.plugins.tiers_of(JobPipelined):
        return all(one.may_hold_part(cluster, group) for one in tier)
    return False


def vote_of_quota(cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup) -> Vote:
    """Vote by the limits of the quota plugin; what evictions could release does not count as used."""
    asked = quota_charging.admission_request(cluster, group)
    if asked is None:
        return "permit"
    queue, yielded = cluster.queues[group.queue], reserved_by(cluster, reclaimable.yielding)
    short = may_enqueue(cluster, queue, asked, yielded=yielded)
    if short is not None and cluster.policy.evicting:
        released = reclaimable.of_queue(group, asked)
        short = may_enqueue(cluster, queue, asked, released, yielded=yielded)
    return short or "permit"
