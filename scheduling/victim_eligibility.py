"""Eviction limits that apply before victim plugins run."""

from typing import Final

from projections.policy import GANG_EVICTING, RECLAIMING, Plugin, Policy

VICTIM_PLUGINS: Final[dict[str, tuple[str, ...]]] = {
    "preempt": ("priority", "gang", "conformance", "drf"),
    "reclaim": ("gang", "conformance", "capacity", "proportion", "drf"),
    "gangpreempt": ("priority", "conformance"),
    "gangreclaim": ("conformance", "capacity", "proportion", "drf"),
}
"""Action to the plugins that filter its victims. For reclaim `drf` takes part if queues form a tree."""


def victim_plugin_tiers(policy: Policy, action: str) -> list[list[Plugin]]:
    """Return, tier by tier, the plugins that filter victims of an action; tiers without any are left out."""
    found = [[one for one in tier if _takes_part(one, action)] for tier in policy.tiers]
    return [tier for tier in found if tier]


def _takes_part(plugin: Plugin, action: str) -> bool:
    is_reclaiming = action in RECLAIMING
    if is_reclaiming and plugin.name == "drf" and not plugin.takes_part("enableHierarchy"):
        return False
    flag = "enableReclaimable" if is_reclaiming else "enablePreemptable"
    return plugin.name in VICTIM_PLUGINS[action] and plugin.takes_part(flag)


def needs_surplus(policy: Policy, action: str) -> bool:
    """Return True if only groups with more pods than minMember give victims: `gang` takes part in whichever tier
    decides."""
    if action in GANG_EVICTING:
        return not policy.action_arguments.of_gangs(action).evicts_whole_gangs
    tiers = victim_plugin_tiers(policy, action)
    return bool(tiers) and all(any(one.name == "gang" for one in tier) for tier in tiers)


def only_quota_decides(policy: Policy) -> bool:
    """Return True if no plugin that filters victims of reclaim orders groups, so that only quotas decide."""
    names = [one.name for tier in victim_plugin_tiers(policy, "reclaim") for one in tier]
    return not any(name in ("gang", "drf") for name in names)


def priority_bound(policy: Policy, action: str, priority: int) -> int | None:
    """Return the priority below which groups may be evicted for a group of `priority`; None if there is no bound."""
    if action == "gangpreempt":
        return priority
    tiers = victim_plugin_tiers(policy, action)
    if not any(one.name == "priority" for tier in tiers for one in tier):
        return None
    return priority if len(tiers) == 1 else priority + 1
