"""The table of observed kinds. Lists and watches, roles, the kinds of scenarios and the simulated API server follow
from it.
"""

from functools import lru_cache
from typing import Final

from events.normalize_config_map import Selection
from projections.feature import Features
from projections.feature_device_families import families_of
from projections.kinds.config_map import CONFIG_MAP
from projections.kinds.disruption_budget import DISRUPTION_BUDGET
from projections.kinds.hyper_node import HYPER_NODE
from projections.kinds.namespace import NAMESPACE
from projections.kinds.node import node_kind
from projections.kinds.pod import pod_kind
from projections.kinds.pod_group import pod_group_kind
from projections.kinds.priority_class import PRIORITY_CLASS
from projections.kinds.volcano_queue import QUEUE
from projections.kinds.volumes import OF_VOLUMES
from projections.kinds.workload import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    STATEFUL_SET,
    VOLCANO_JOB,
    WORKLOADS,
)
from projections.observed_kind import ObservedKind

_FIRST: Final = (
    PRIORITY_CLASS,
    NAMESPACE,
    QUEUE,
    HYPER_NODE,
    CONFIG_MAP,
)
_SECOND: Final = (DISRUPTION_BUDGET,)
_LAST: Final = (
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    VOLCANO_JOB,
    *OF_VOLUMES,
)


@lru_cache(maxsize=8)
def kinds_with(features: Features) -> dict[str, ObservedKind]:
    """Return the observed kinds, with those that features bring, by the name in records: in the order in which the first
    lists are applied, so that pods come after all that they refer to."""
    families = families_of(features)
    of_features = features.of(ObservedKind)
    kinds = (
        node_kind(families),
        *_FIRST,
        *of_features,
        *_SECOND,
        pod_group_kind(families),
        *_LAST,
        pod_kind(families),
    )
    return {one.resource.name: one for one in kinds}


@lru_cache(maxsize=8)
def settling_places(features: Features) -> dict[str, int]:
    """Return the places of kinds in the order in which they settle: that of their first lists. Owners of pods have none: they
    come before pod groups and pods."""
    kinds = kinds_with(features).items()
    return {name: place for place, (name, kind) in enumerate(kinds) if kind not in WORKLOADS}


def selections_with(features: Features) -> tuple[Selection, ...]:
    """Return the selections of ConfigMaps that are watched."""
    found = (one.resource.selection for one in kinds_with(features).values())
    return tuple([one for one in found if one is not None])


REQUIRED: Final = tuple(name for name, one in kinds_with(Features()).items() if one.is_required)
"""Kinds that must be listed whole before anything is decided; one that is not served counts as listed."""
