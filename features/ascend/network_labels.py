"""Labels and annotations of pods by which the Ascend stack says what the network is for them."""

from typing import Final

CLASS_LABEL: Final = "tor-affinity"
LARGE_MODEL: Final = "large-model-schema"
NORMAL: Final = "normal-schema"
NO_CLASS: Final = "null"
CLASSES: Final = (LARGE_MODEL, NORMAL)
"""Values of the label of jobs that are placed by leaf switches."""

IS_SHARED: Final = "isSharedTor"
IS_HEALTHY: Final = "isHealthy"
SHARED_ADDRESS: Final = "sharedTorIp"
"""Annotations of pods under leaf switches."""
