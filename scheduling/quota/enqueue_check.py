"""Admission of a pod group to its queue: votes of the plugins, tier by tier (Volcano's enqueueable functions).

A plugin permits, rejects or abstains. The first rejection refuses the group; after a permit in a tier later tiers
are not asked; if all abstain the group is admitted. A group without minResources is permitted by all plugins that
enforce a limit.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct, structs

from projections import quota_charging
from projections.cluster import Cluster
from projections.plugin import Plugin
from projections.pod_groups import PodGroup
from projections.refusals import node_helps
from scheduling.quota.queue_room import QueueRoom
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.quota.yielding import YieldingReservations, needed
from scheduling.shortage import Shortage

Vote: TypeAlias = Shortage | Literal["permit", "abstain"]


class JobEnqueueable(Plugin):
    """Hook: admission of a pod group to its queue. The first shortage refuses it; after a permit in a tier later tiers
    are not asked."""

    FLAG = "enableJobEnqueued"
    votes_by_limits: ClassVar[bool] = False
    """Whether the plugin keeps quotas and permits every group for which its limits (`Quota.admission_limit`) have room."""

    @abstractmethod
    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Return the vote on a group. `reclaimable` is what evictions could release for it."""


class ClusterQuota(JobEnqueueable):
    """Hook: admission by what the whole cluster can reserve. A group that is refused for a resource awaits
    `cluster-quota/NAME` (`events/requeue.py`), and is not asked again before its minimum can be reserved."""

    @abstractmethod
    def awaited(self, group: PodGroup, name: str) -> int:
        """Return how much of a resource is reserved for a group."""

    @abstractmethod
    def available(self, cluster: Cluster, name: str) -> int:
        """Return how much of a resource can still be reserved; negative if more than allowed is."""


class JobPipelined(Plugin):
    """Hook: whether a gang may hold the room found for only some of its pods. The first tier with votes decides."""

    FLAG = "enableJobPipelined"

    @abstractmethod
    def may_hold_part(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether the group may hold a part of what it needs."""


class Admission(Struct, frozen=True):
    """Whether a pod group is admitted to its queue."""

    short: Shortage | None
    """Why it is not; None if it is."""
    yielding: tuple[PodGroup, ...] = ()
    """The groups whose reservations it takes."""


class EnqueueCheck:
    """The votes of the plugins of one State."""

    def __init__(self, cluster: Cluster, reclaimable: ReclaimableResources) -> None:
        self._cluster = cluster
        self._reclaimable = reclaimable

    def admission(self, group: PodGroup, room: QueueRoom | None = None) -> Admission:
        """Return whether the group is admitted now, with the room there is or with reservations that yield to it. `room` is that
        of its queue, if it is kept."""
        short = self._shortage(self._reclaimable, group, room)
        if short is None:
            return Admission(None)

        def is_enough(yielding: tuple[PodGroup, ...]) -> bool:
            return self._shortage(self._reclaimable.without(yielding), group) is None

        are_shared = bool(self._cluster.plugins.of(ClusterQuota))
        reservations = YieldingReservations(self._cluster, are_shared=are_shared)
        yielding = needed(reservations.yielding_to(group), is_enough)
        if yielding:
            return Admission(None, yielding)
        held = reservations.holder_text(group, short.limit)
        return Admission(structs.replace(short, message=short.message + held) if held else short)

    def _shortage(
        self, reclaimable: ReclaimableResources, group: PodGroup, room: QueueRoom | None = None
    ) -> Shortage | None:
        """Return why the group is not admitted to its queue, or None."""
        for tier in self._cluster.plugins.tiers_of(JobEnqueueable):
            is_permitted = False
            for plugin in tier:
                if room is not None and plugin.votes_by_limits and self._has_room(room, group):
                    is_permitted = True
                    continue
                vote = plugin.may_enqueue(self._cluster, reclaimable, group)
                if isinstance(vote, Shortage):
                    return self._beside_others(reclaimable, group, vote, tier)
                is_permitted |= vote == "permit"
            if is_permitted:
                return None
        return None

    def _has_room(self, room: QueueRoom, group: PodGroup) -> bool:
        """Return True if the limits of its queue permit a group without anything being released."""
        asked = quota_charging.admission_charge(self._cluster, group)
        return asked is None or room.may_reserve(asked)

    def _beside_others(
        self,
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
            other = plugin.may_enqueue(self._cluster, reclaimable, group)
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
