"""Why a group may be refused, and what could change that answer."""

from typing import Final

from projections.suspensions import INTERNAL_ERROR

QUEUE_CODES: Final = frozenset(
    {
        "EmptyQueueCapability",
        "InsufficientCPUQuota",
        "InsufficientMemoryQuota",
        "InsufficientScalarQuota",
        "QueueMisplaced",
        "QueueNotFound",
        "QueueNotLeaf",
        "QueueNotOpen",
    }
)
"""The queue stands in the way: these wait until it gets something back or is allowed more."""

NODE_CODES: Final = frozenset({"NotEnoughResources"})
"""No node has room: these wait until a node that could take one of the pods gets something back."""

COMMON_CODES: Final = frozenset({"ResourceOverused"})
"""Too much of the whole cluster is promised: these wait until that is less, or there is more."""

CARD_CODES: Final = frozenset({"GetTaskRequestResourceFailed", "UnnamedCard"})
"""The cards there are do not fit the request: these wait until a node comes or changes."""

TOPOLOGY_CODES: Final = frozenset({"TopologyNotReady", "UnknownTier"})
"""The HyperNodes stand in the way: these wait until one of them comes, changes or goes."""

GROUP_CODES: Final = frozenset(
    {
        "InvalidPodGroup",
        "NotEnoughPods",
        "NotEnoughPodsOfSubGroup",
        "NotEnoughPodsOfTask",
        "PodGroupNotFound",
        "UnsupportedDemand",
    }
)
"""The group itself stands in the way: these wait until it changes."""

WORK_CODES: Final = frozenset({"TooManyUnlikePods"})
"""Trying to place the group would take too much work: these wait until the group changes or the cluster is smaller."""

EVICTION_CODES: Final = frozenset({"NoVictims", "NotEntitled"})
"""Nobody may be evicted in its favour: these wait until somebody comes who may, or something is given back."""

INTERNAL_CODES: Final = frozenset({INTERNAL_ERROR})
"""Deciding about the group raised an exception: these wait until the group changes or some time has passed."""

CODES: Final = (
    QUEUE_CODES
    | NODE_CODES
    | COMMON_CODES
    | CARD_CODES
    | TOPOLOGY_CODES
    | GROUP_CODES
    | WORK_CODES
    | EVICTION_CODES
    | INTERNAL_CODES
)
"""Every code a refusal may bear."""
