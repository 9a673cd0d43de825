"""ConfigMap. Only the identity is kept, and none is watched yet."""

from typing import Final

from projections.api_resource import Resource
from projections.observed_kind import ObservedKind

CONFIG_MAPS: Final = Resource(
    "ConfigMap", "configmaps", short_names=("cm",), subresources=(), has_generation=False
)

CONFIG_MAP: Final = ObservedKind(
    resource=CONFIG_MAPS, why="configuration of device plugins", is_watched=False
)
