"""Codes of refusals, by what they are about."""

from typing import Final

from events.decision import INTERNAL_ERROR

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
"""Limits of the queue."""

NODE_CODES: Final = frozenset({"NotEnoughResources"})
"""No node fits."""

COMMON_CODES: Final = frozenset({"JobEnqueueFailed", "ResourceOverused"})
"""The whole cluster has not enough: free devices, or resources that can be reserved (`overcommit`)."""

CARD_CODES: Final = frozenset({"GetTaskRequestResourceFailed", "UnnamedCard"})
"""The known cards do not match the request."""

TOPOLOGY_CODES: Final = frozenset({"TopologyNotReady", "UnknownTier"})
"""The HyperNodes do not allow it."""

NOT_ENOUGH_PODS: Final = "NotEnoughPods"

GROUP_CODES: Final = frozenset(
    {
        "InvalidArgument",
        "InvalidPodGroup",
        "InvalidResourceRequest",
        NOT_ENOUGH_PODS,
        "NotEnoughPodsOfSubGroup",
        "NotEnoughPodsOfTask",
        "NotSupportPolicy",
        "PodGroupNotFound",
        "UnsupportedDemand",
    }
)
"""The group itself is the cause."""

WORK_CODES: Final = frozenset({"TooManyUnlikePods"})
"""Trying to place the group would take too much work."""

EVICTION_CODES: Final = frozenset({"NoVictims", "NotEntitled"})
"""No pod may be evicted for the group."""

INTERNAL_CODES: Final = frozenset({INTERNAL_ERROR})
"""Deciding about the group raised an exception."""

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
"""All codes of refusals."""
