"""Eviction limits that apply before victim plugins run."""

from functools import lru_cache
from typing import ClassVar

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


def victim_filter_tiers(cluster: Cluster, action: str) -> list[list[VictimLimits]]:
    """Return, tier by tier, the plugins that filter victims of an action; tiers without any are left out."""
    return _filter_tiers(cluster.plugins, action)


@lru_cache(maxsize=64)
def _filter_tiers(plugins: PluginSet, action: str) -> list[list[VictimLimits]]:
    found = [
        [one for one in tier if isinstance(one, VictimLimits) and one.filters(action)]
        for tier in plugins.tiers
    ]
    return [tier for tier in found if tier]


def needs_surplus(cluster: Cluster, action: str) -> bool:
    """Return True if only groups with more pods than minMember give victims: a plugin that wants that takes part in
    whichever tier decides."""
    if action in GANG_EVICTING:
        return not cluster.policy.action_arguments.of_gangs(action).evicts_whole_gangs
    tiers = victim_filter_tiers(cluster, action)
    return bool(tiers) and all(any(one.takes_surplus_only for one in tier) for tier in tiers)


def only_quota_decides(cluster: Cluster) -> bool:
    """Return True if no plugin that filters victims of reclaim compares groups, so that only quotas decide."""
    tiers = victim_filter_tiers(cluster, "reclaim")
    return not any(one.compares_groups for tier in tiers for one in tier)


def priority_bound(cluster: Cluster, action: str, priority: int) -> int | None:
    """Return the priority below which groups may be evicted for a group of `priority`; None if there is no bound."""
    if action == "gangpreempt":
        return priority
    tiers = victim_filter_tiers(cluster, action)
    if not any(one.takes_lower_priority_only for tier in tiers for one in tier):
        return None
    return priority if len(tiers) == 1 else priority + 1


def limits_protection(cluster: Cluster, action: str) -> bool:
    """Return True if an action may evict pods that `volcano.sh/preemptable` or a PodDisruptionBudget protects, where their
    queue holds more than it deserves (`scheduling/victims/protection.py`)."""
    return action in RECLAIMING and not cluster.policy.action_arguments.protects_always
