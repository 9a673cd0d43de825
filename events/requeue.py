"""What can change the answer to an unschedulable pod group: the members of `requeue_on`.

A refused group is not evaluated again until one of these happens, or until the group itself changes. Some name a
resource or card after the slash.
"""

from collections.abc import Iterable
from typing import Final

QUOTA: Final = "quota/"
"""`quota/NAME`: the quota of this resource or card is released or raised in the queue or in a queue above it."""

ANY_QUOTA: Final = "any-quota"
"""Any quota of the group's own queue is released or raised."""

QUEUE_UPDATED: Final = "queue-updated"
"""The limits of the queue, or of a queue above it, change."""

CLUSTER_QUOTA: Final = "cluster-quota/"
"""`cluster-quota/NAME`: less of this resource is reserved in the whole cluster, or the cluster has more."""

NODE_FREED: Final = "node-freed"
"""A node gains resources that a pending pod of the group could use."""

NODE_UPDATED: Final = "node-updated"
"""A node is added or changed that could hold a pending pod of the group if it were empty."""

ANY_NODE: Final = "any-node"
"""Any node is added, changed, removed or freed."""

PODS_CHANGED: Final = "pods-changed"
"""A pod that concerns the affinity, anti-affinity or spread of a pending pod is added to a node or removed."""

VICTIMS_OF_QUEUE: Final = "victims/own-queue"
"""Pods of lower priority in the queue become evictable, or a node changes on which evictions could make room."""

VICTIMS_OF_OTHERS: Final = "victims/other-queues"
"""The same for pods of other queues that have more than they deserve; also any released quota of the queue."""

ADMISSION_BY_QUEUE: Final = "admission-victims/own-queue"
"""Pods of lower priority in the queue become evictable, from which the group could take the quota to be admitted."""

ADMISSION_BY_OTHERS: Final = "admission-victims/other-queues"
"""The same for pods of other queues; also a change of the limits of the queue."""

HYPER_NODES: Final = "hyper-nodes"
"""A HyperNode is added, changed or removed."""

CLASS_BUDGET: Final = "class-budget"
"""The cluster becomes so small that placing the group takes no more work than the policy allows."""

VOLUMES: Final = "volumes/"
"""`volumes/SUBJECT`: a PersistentVolumeClaim, PersistentVolume, StorageClass or CSIDriver changes, or a pod no longer uses
the claim; `volumes/*` for any of them."""

ROOM: Final = (NODE_FREED, PODS_CHANGED)
"""What can give room to a pending pod."""


def quota_events(limits: Iterable[str]) -> tuple[str, ...]:
    """Return the events that release quota of these resources and cards."""
    return tuple([QUOTA + name for name in limits])


def quota_names(requeue_on: Iterable[str]) -> tuple[str, ...]:
    """Return the resources and cards whose quota is awaited."""
    return tuple([one.removeprefix(QUOTA) for one in requeue_on if one.startswith(QUOTA)])
