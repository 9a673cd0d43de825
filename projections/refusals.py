"""Codes of refusals: what each is about, and whether another node would let the pods run.

The reason of the condition `PodScheduled` follows from the second: cluster autoscalers add nodes for pods with the
reason `Unschedulable`. `PodGroupUnschedulable.node_helps` overrides it for refusals whose code alone does not say so.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.decision import INTERNAL_ERROR

NOT_ENOUGH_PODS: Final = "NotEnoughPods"
PODS_NOT_CREATED: Final = "PodsNotCreated"
"""Code of a refusal that ends the reservation of an admitted group that has too few pods."""
RESERVATION_YIELDED: Final = "ReservationYielded"
"""Code of a refusal that gives the reservation of a group to one of higher priority."""


class RefusalCode(Struct, frozen=True):
    """What a code says."""

    about: str
    node_helps: bool = False
    """Whether another node, of some shape, would let the pods run now."""


QUEUE: Final = "queue"
"""Limits of the queue."""
NODES: Final = "nodes"
"""No node fits."""
CLUSTER: Final = "cluster"
"""The whole cluster has not enough: free devices, or resources that can be reserved (`overcommit`)."""
CARDS: Final = "cards"
"""The known cards do not match the request."""
CLAIM: Final = "claim"
"""A claim of a pod cannot be used, whatever the node (docs/volumes.md)."""
REACH: Final = "reach"
"""No node can reach the volumes of a pod."""
TOPOLOGY: Final = "topology"
"""The HyperNodes, or the map of leaf switches, do not allow it."""
GROUP: Final = "group"
"""The group itself is the cause."""
WORK: Final = "work"
"""Trying to place the group would take too much work."""
RESERVATION: Final = "reservation"
"""The group was admitted, and another one took its reservation."""
EVICTION: Final = "eviction"
"""No pod may be evicted for the group."""
INTERNAL: Final = "internal"
"""Deciding about the group raised an exception."""
POOL: Final = "pool"
"""The decider of a pool (docs/pools.md)."""

REFUSAL_CODES: Final[Mapping[str, RefusalCode]] = {
    "EmptyQueueCapability": RefusalCode(QUEUE),
    "InsufficientCPUQuota": RefusalCode(QUEUE),
    "InsufficientMemoryQuota": RefusalCode(QUEUE),
    "InsufficientScalarQuota": RefusalCode(QUEUE),
    "QueueMisplaced": RefusalCode(QUEUE),
    "QueueNotFound": RefusalCode(QUEUE),
    "QueueNotLeaf": RefusalCode(QUEUE),
    "QueueNotOpen": RefusalCode(QUEUE),
    "QueueNotPermitted": RefusalCode(QUEUE),
    "NotEnoughResources": RefusalCode(NODES, node_helps=True),
    "JobEnqueueFailed": RefusalCode(CLUSTER, node_helps=True),
    "ResourceOverused": RefusalCode(CLUSTER, node_helps=True),
    "GetTaskRequestResourceFailed": RefusalCode(CARDS),
    "UnnamedCard": RefusalCode(CARDS),
    "ClaimDelayed": RefusalCode(CLAIM),
    "ClaimDeleting": RefusalCode(CLAIM),
    "ClaimLost": RefusalCode(CLAIM),
    "ClaimMissing": RefusalCode(CLAIM),
    "ClaimNotOwned": RefusalCode(CLAIM),
    "ClaimUnbound": RefusalCode(CLAIM),
    "ClassMissing": RefusalCode(CLAIM),
    "ClassUnusable": RefusalCode(CLAIM),
    "VolumeInUse": RefusalCode(CLAIM),
    "VolumeMissing": RefusalCode(CLAIM),
    "VolumesNotListed": RefusalCode(CLAIM),
    "VolumeNodeConflict": RefusalCode(REACH, node_helps=True),
    "VolumeZoneConflict": RefusalCode(REACH, node_helps=True),
    "VolumesDisagree": RefusalCode(REACH),
    "TopologyNotReady": RefusalCode(TOPOLOGY),
    "UnknownTier": RefusalCode(TOPOLOGY),
    "InvalidArgument": RefusalCode(GROUP),
    "InvalidPodGroup": RefusalCode(GROUP),
    "InvalidResourceRequest": RefusalCode(GROUP),
    NOT_ENOUGH_PODS: RefusalCode(GROUP),
    "NotEnoughPodsOfSubGroup": RefusalCode(GROUP),
    "NotEnoughPodsOfTask": RefusalCode(GROUP),
    "NoPlacementStrategy": RefusalCode(GROUP),
    "NotSupportPolicy": RefusalCode(GROUP),
    "PodGroupNotFound": RefusalCode(GROUP),
    "UnsupportedDemand": RefusalCode(GROUP),
    "TooManyUnlikePods": RefusalCode(WORK),
    PODS_NOT_CREATED: RefusalCode(RESERVATION),
    RESERVATION_YIELDED: RefusalCode(RESERVATION),
    "NoVictims": RefusalCode(EVICTION),
    "NotEntitled": RefusalCode(EVICTION),
    INTERNAL_ERROR: RefusalCode(INTERNAL),
    "BEHIND_HIGHER_PRIORITY": RefusalCode(POOL),
    "FRAGMENTED": RefusalCode(POOL, node_helps=True),
    "GANG_PRIORITY_MISMATCH": RefusalCode(GROUP),
    "GANG_SIZE_MISMATCH": RefusalCode(GROUP),
    "INFEASIBLE": RefusalCode(POOL, node_helps=True),
    "MAX_SLOTS_REACHED": RefusalCode(POOL),
    "OVER_FAIR_SHARE": RefusalCode(POOL),
    "POOL_NOT_FOUND": RefusalCode(POOL),
    "PoolNotPermitted": RefusalCode(POOL),
    "SHARE_TOO_SMALL": RefusalCode(POOL),
    "VICTIMS_NOT_PREEMPTIBLE": RefusalCode(POOL, node_helps=True),
    "WAITING_FOR_PREEMPTION": RefusalCode(POOL),
    "WAITING_FOR_SLOTS": RefusalCode(POOL, node_helps=True),
    "ZERO_SLOT_LIMIT": RefusalCode(POOL, node_helps=True),
}
"""All codes of refusals."""


OWN_LIMITS: Final = frozenset({"devices", "plugin", "SuperPoD"})
"""What limits a refusal where nodes have room by the rules of Kubernetes, and only the shape of devices, a plugin or the
network excludes them: a cluster autoscaler finds that room, and adds no node."""


def node_helps(code: str, stated: bool | None = None) -> bool:
    """Return whether another node would let pods run that are refused with a code; `stated` is what the refusal itself
    says. A code of a plugin from outside that says nothing is not about nodes."""
    if stated is not None:
        return stated
    known = REFUSAL_CODES.get(code)
    return known is not None and known.node_helps


def _about(what: str) -> frozenset[str]:
    return frozenset(code for code, one in REFUSAL_CODES.items() if one.about == what)


QUEUE_CODES: Final = _about(QUEUE)
NODE_CODES: Final = _about(NODES)
COMMON_CODES: Final = _about(CLUSTER)
CARD_CODES: Final = _about(CARDS)
CLAIM_CODES: Final = _about(CLAIM)
REACH_CODES: Final = _about(REACH)
GROUP_CODES: Final = _about(GROUP)
EVICTION_CODES: Final = _about(EVICTION)
