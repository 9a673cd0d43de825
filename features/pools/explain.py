"""Explain what an operator has set for the job of a pod group."""

from collections.abc import Iterator

from features.pools.group_overrides import NO_CAP, override_of
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from scheduling.explanation import GroupHurdles, Hurdle


class OverrideHurdles(GroupHurdles):
    """Names what an operator has set, where the policy has pools."""

    def of_group(self, cluster: Cluster, group: PodGroup) -> Iterator[Hurdle]:
        """Yield what an operator has set for a pod group: it does not keep the group from starting."""
        override = override_of(cluster, group)
        if override is None or cluster.policy.pools.is_plain:
            return
        values = {
            "pool": override.pool or None,
            "priority": override.priority,
            "weight": f"{override.weight[0] / override.weight[1]:g}" if override.weight else None,
            "max-slots": "none" if override.max_slots == NO_CAP else override.max_slots,
            "position": override.position or None,
        }
        said = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
        if said:
            yield Hurdle("pod group", True, f"set by an operator: {said}")
