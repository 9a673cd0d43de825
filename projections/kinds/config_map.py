"""ConfigMap. Watched are those that a feature selects; each selection is a kind of its own."""

from typing import Final

from projections.api_resource import Resource
from projections.observed_kind import ObservedKind

CONFIG_MAPS: Final = Resource(
    "ConfigMap", "configmaps", short_names=("cm",), subresources=(), has_generation=False
)

WHY: Final = "devices, faults and leaf switches of Ascend nodes"


CONFIG_MAP: Final = ObservedKind(
    resource=CONFIG_MAPS, why="settings of workloads", is_watched=False
)
