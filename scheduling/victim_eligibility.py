"""Eviction limits that apply before victim plugins run."""

from functools import lru_cache
from typing import ClassVar

from msgspec import Struct

from projections.cluster import Cluster
from projections.plugin import Plugin, PluginSet
from projections.policy.policy import GANG_EVICTING, RECLAIMING


class VictimLimits(Plugin):
    """What a plugin that filters victims excludes whatever the candidates are, so that no search is begun for them."""

    actions: ClassVar[tuple[str, ...]] = ()
    """The evicting actions whose victims it filters."""
    compares_groups: ClassVar[bool] = False
    """Whether it compares pod groups with one another, and not only pods or queues."""
    prevents_reclaim_back: ClassVar[bool] = False
    """Whether what it agrees on cannot be taken back by the group that loses it."""
    takes_surplus_only: ClassVar[bool] = False
    """Whether only groups with more pods than minMember give victims."""
    takes_lower_priority_only: ClassVar[bool] = False
    """Whether only groups of lower priority give victims."""

    def filters(self, action: str) -> bool:
        """Return whether it filters the victims of an action."""
        flag = "enableReclaimable" if action in RECLAIMING else "enablePreemptable"
        return action in self.actions and self.takes_part(flag)


class EvictionLimits(Struct, frozen=True):
    """What one action may not evict under a policy, whatever the candidates are."""

    tiers: tuple[tuple[VictimLimits, ...], ...]
    """The plugins that filter its victims, tier by tier, without tiers that have none."""
    needs_surplus: bool
    """Whether only groups with more pods than minMember give victims: a plugin that wants that takes part in whichever tier
    decides."""
    takes_protected: bool
    """Whether it may evict pods that `volcano.sh/preemptable` or a PodDisruptionBudget protects, where their queue holds more
    than it deserves (`scheduling/victims/protection.py`)."""
    margin: int | None
    """What is added to the priority of a group for the bound of its victims' priorities; None if there is no bound."""

    @property
    def compares_groups(self) -> bool:
        """Return True if a plugin compares groups, so that not only quotas decide."""
        return any(one.compares_groups for tier in self.tiers for one in tier)

    def bound(self, priority: int) -> int | None:
        """Return the priority below which groups may be evicted for a group of `priority`; None if there is no bound."""
        return None if self.margin is None else priority + self.margin


def eviction_limits(cluster: Cluster, action: str) -> EvictionLimits:
    """Return the limits of an action under the policy in force."""
    arguments = cluster.policy.action_arguments
    is_whole = action in GANG_EVICTING and arguments.of_gangs(action).evicts_whole_gangs
    takes_protected = action in RECLAIMING and not arguments.protects_always
    return _limits(cluster.plugins, action, is_whole, takes_protected)


@lru_cache(maxsize=64)
def _limits(
    plugins: PluginSet, action: str, evicts_whole_gangs: bool, takes_protected: bool
) -> EvictionLimits:
    found = [
        tuple([one for one in tier if isinstance(one, VictimLimits) and one.filters(action)])
        for tier in plugins.tiers
    ]
    tiers = tuple([tier for tier in found if tier])
    needs_surplus = bool(tiers) and all(any(one.takes_surplus_only for one in t) for t in tiers)
    margin: int | None = None
    if any(one.takes_lower_priority_only for tier in tiers for one in tier):
        margin = 0 if len(tiers) == 1 else 1
    return EvictionLimits(
        tiers,
        not evicts_whole_gangs if action in GANG_EVICTING else needs_surplus,
        takes_protected,
        0 if action == "gangpreempt" else margin,
    )
