"""Explain what counts of the options of a pod group instead of what it states: bounds of its queue and pool, and what features
know."""

from collections.abc import Iterator

from projections.cluster import Cluster
from projections.config_errors import OPTION_CUT
from projections.pod_groups import PodGroup
from projections.session_priority import PRIORITY_CUT
from scheduling.explanation import GroupHurdles, Hurdle


def option_hurdles(cluster: Cluster, group: PodGroup) -> Iterator[Hurdle]:
    """Yield what is cut to a bound, and what features know: none of it keeps the group from starting by itself."""
    for code, text in cluster.config_errors.current.get(f"PodGroup/{group.key}", ()):
        if code in (OPTION_CUT, PRIORITY_CUT):
            yield Hurdle("pod group", True, text)
    for one in cluster.features.of(GroupHurdles):
        yield from one.of_group(cluster, group)
