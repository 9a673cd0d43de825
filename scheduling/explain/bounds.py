"""Explain what counts of the options of a pod group instead of what it states: bounds of its queue and pool, and operators."""

from collections.abc import Iterator

from projections.cluster import Cluster
from projections.group_overrides import NO_CAP, override_of
from projections.pod_groups import PodGroup
from projections.pool_options import OPTION_CUT
from projections.session_priority import PRIORITY_CUT
from scheduling.explanation import Hurdle


def option_hurdles(cluster: Cluster, group: PodGroup) -> Iterator[Hurdle]:
    """Yield what is cut to a bound, and what an operator has set: none of it keeps the group from starting by itself."""
    for code, text in cluster.config_errors.current.get(f"PodGroup/{group.key}", ()):
        if code in (OPTION_CUT, PRIORITY_CUT):
            yield Hurdle("pod group", True, text)
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
