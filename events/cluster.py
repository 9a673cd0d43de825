"""What the API server showed us: objects seen, objects gone.

The object itself travels beside the event, normalized (`events/normalize.py`) and stored once per
content; the event holds what changes without a change of content.
"""

from typing import ClassVar

from msgspec import field

from events.record import Fact


class Observed(Fact, frozen=True, kw_only=True):
    """An object as the API server last showed it (added or modified)."""

    kind: ClassVar[str]

    uid: str
    resource_version: str
    heartbeats: dict[str, str] = field(default_factory=dict)
    """Condition type to the time of its last heartbeat, which would make every content unique."""


class Deleted(Fact, frozen=True, kw_only=True):
    """An object that is gone. `synthesized` where a list no longer held it and no one saw it go."""

    kind: ClassVar[str]

    uid: str
    resource_version: str
    synthesized: bool = False


class NodeObserved(Observed, frozen=True, kw_only=True):
    """A node, as seen."""

    kind = "node_observed.v1"


class NodeDeleted(Deleted, frozen=True, kw_only=True):
    """A node is gone."""

    kind = "node_deleted.v1"


class PodObserved(Observed, frozen=True, kw_only=True):
    """A pod, as seen, of any scheduler."""

    kind = "pod_observed.v1"


class PodDeleted(Deleted, frozen=True, kw_only=True):
    """A pod is gone."""

    kind = "pod_deleted.v1"


class PodGroupObserved(Observed, frozen=True, kw_only=True):
    """A PodGroup object, as seen."""

    kind = "pod_group_observed.v1"


class PodGroupDeleted(Deleted, frozen=True, kw_only=True):
    """A PodGroup object is gone."""

    kind = "pod_group_deleted.v1"


class QueueObserved(Observed, frozen=True, kw_only=True):
    """A Queue object, as seen."""

    kind = "queue_observed.v1"


class QueueDeleted(Deleted, frozen=True, kw_only=True):
    """A Queue object is gone."""

    kind = "queue_deleted.v1"


class PriorityClassObserved(Observed, frozen=True, kw_only=True):
    """A PriorityClass, as seen."""

    kind = "priority_class_observed.v1"


class PriorityClassDeleted(Deleted, frozen=True, kw_only=True):
    """A PriorityClass is gone."""

    kind = "priority_class_deleted.v1"


class NamespaceObserved(Observed, frozen=True, kw_only=True):
    """A Namespace, as seen: it may name the queue of its pods."""

    kind = "namespace_observed.v1"


class NamespaceDeleted(Deleted, frozen=True, kw_only=True):
    """A Namespace is gone."""

    kind = "namespace_deleted.v1"


class WorkloadObserved(Observed, frozen=True, kw_only=True):
    """An owner of pods (ReplicaSet, StatefulSet, Job, Volcano Job ...), as seen."""

    kind = "workload_observed.v1"


class WorkloadDeleted(Deleted, frozen=True, kw_only=True):
    """An owner of pods is gone."""

    kind = "workload_deleted.v1"


class PodDisruptionBudgetObserved(Observed, frozen=True, kw_only=True):
    """A disruption budget, as seen: evictions ask it."""

    kind = "pod_disruption_budget_observed.v1"


class PodDisruptionBudgetDeleted(Deleted, frozen=True, kw_only=True):
    """A disruption budget is gone."""

    kind = "pod_disruption_budget_deleted.v1"


class HyperNodeObserved(Observed, frozen=True, kw_only=True):
    """A HyperNode, as seen: nodes that are close to each other."""

    kind = "hyper_node_observed.v1"


class HyperNodeDeleted(Deleted, frozen=True, kw_only=True):
    """A HyperNode is gone."""

    kind = "hyper_node_deleted.v1"


class ConfigMapObserved(Observed, frozen=True, kw_only=True):
    """A ConfigMap that the settings name, as seen."""

    kind = "config_map_observed.v1"


class ConfigMapDeleted(Deleted, frozen=True, kw_only=True):
    """A ConfigMap that the settings name is gone."""

    kind = "config_map_deleted.v1"


class ObjectUnreadable(Fact, frozen=True, kw_only=True):
    """The API server showed something that is not an object with a kind, a name and a UID, or an object that muster
    failed to take in because of a bug of its own. It counts as absent, or as it was last read.

    What was shown is kept where it could be normalized; else it may hold secrets, and only its digest is.
    """

    kind = "object_unreadable.v1"

    reason: str
    shown_digest: str
    """SHA-256 (hex) of the bytes as they were shown; where muster failed, of the object as the log keeps it."""
    size_bytes: int
    """Of the same bytes; 0 where the object was not shown, because it is gone."""


class KindListed(Fact, frozen=True, kw_only=True):
    """A kind was listed whole, and all of the list is in the log. No decision before each is."""

    kind = "kind_listed.v1"

    resource: str
    """The Kubernetes kind, such as `Pod`."""
    resource_version: str
    count: int
    served: bool = True
    """False where the server does not know this kind: it is simply absent."""
