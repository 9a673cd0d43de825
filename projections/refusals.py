"""Codes of refusals, grouped by the events that could clear them."""

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
"""Limits of the queue: wait until it releases quota or is allowed more."""

NODE_CODES: Final = frozenset({"NotEnoughResources"})
"""No node fits: wait until a node that could run one of the pods gets resources back."""

COMMON_CODES: Final = frozenset({"ResourceOverused"})
"""Too much of the whole cluster is promised: wait until demand decreases or capacity increases."""

CARD_CODES: Final = frozenset({"GetTaskRequestResourceFailed", "UnnamedCard"})
"""The known cards do not match the request: wait until a node is added or changed."""

TOPOLOGY_CODES: Final = frozenset({"TopologyNotReady", "UnknownTier"})
"""The HyperNodes do not allow it: wait until one of them is added, changed or removed."""

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
"""The group itself is the cause: wait until it changes."""

WORK_CODES: Final = frozenset({"TooManyUnlikePods"})
"""Trying to place the group would take too much work: wait until the group changes or the cluster is smaller."""

EVICTION_CODES: Final = frozenset({"NoVictims", "NotEntitled"})
"""No pod may be evicted for the group: wait until a pod can newly be evicted, or resources are released."""

INTERNAL_CODES: Final = frozenset({INTERNAL_ERROR})
"""Deciding about the group raised an exception: wait until the group changes or a delay has passed."""

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
