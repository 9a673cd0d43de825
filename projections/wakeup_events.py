"""Record what changed: since the last cycle, and since the views were last written."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from projections.pod_terms import Labels, PodAffinityTerm

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.nodes import NodeFacts

ALL_RESOURCES: Final = "*"
"""Stands for all resources in a set of resource names."""

ALL_VOLUMES: Final = "*"
"""Stands for all claims, volumes, storage classes and drivers in `volumes_changed`."""

LOWEST_PRIORITY: Final = -(1 << 63)
"""Lower than any priority."""

Names = dict[str, None]
"""An ordered set of names."""


class PodKind(Struct, frozen=True, array_like=True):
    """What terms of other pods select a pod by, and which pods it excludes itself."""

    namespace: str
    labels: Labels = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    """Its required anti-affinity."""


ALL_PODS: Final = PodKind("*")
"""Stands for all kinds of pods in `changed_pod_kinds`."""


class WakeupFollower:
    """A hook of features that record themselves what changed since they last decided."""

    def group_woken(self, cluster: "Cluster", key: str) -> None:
        """Record that a pod group waits and that something of it has changed."""

    def all_woken(self, cluster: "Cluster") -> None:
        """Record that something has changed which may concern all pod groups."""

    def node_counted(self, cluster: "Cluster", facts: "NodeFacts") -> None:
        """Record that a node begins or ceases to count in the sums of the cluster."""


class WakeupEvents(Struct):
    """Events since the last cycle that could change a refusal."""

    groups: Names = field(default_factory=dict)
    """Keys of pod groups that changed."""
    nodes_freed: dict[str, int] = field(default_factory=dict)
    """Nodes that were added, changed, or got resources back, and the position of the record."""
    nodes_updated: Names = field(default_factory=dict)
    """Nodes whose objects were added or changed."""
    nodes_freed_at: int = 0
    """Position of the last record that freed a node."""
    quota_released: dict[str, Names] = field(default_factory=dict)
    """Queues with released or increased quota, and for which resources (or ALL_RESOURCES)."""
    quota_released_at: dict[str, int] = field(default_factory=dict)
    """Queue to the position of the last such record."""
    victims_added: dict[str, int] = field(default_factory=dict)
    """Queues with pods that can newly be evicted, and the lowest priority of these pods."""
    changed_pod_kinds: dict[PodKind, None] = field(default_factory=dict)
    """Kinds of pods that were added to a node or removed from one, or ALL_PODS; recorded only if pods have terms about
    other pods."""
    hyper_nodes_changed_at: int = 0
    """Position of the last record that changed HyperNodes; 0 if none did."""
    everything: bool = False
    """Whether all groups must be evaluated again, for example because the policy changed."""
    faulty_groups: Names = field(default_factory=dict)
    """Keys of pod groups of which a pod became faulty or healthy, or of which the restart after a fault goes on; recorded
    only if the policy moves pods after faults."""

    volumes_changed: Names = field(default_factory=dict)
    """Claims, volumes, storage classes and drivers that changed, and claims that a pod no longer uses, as subjects of
    records; or ALL_VOLUMES. Recorded only while pods with claims wait."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing happened."""
        happened = (
            self.groups
            or self.nodes_freed
            or self.quota_released
            or self.victims_added
            or self.changed_pod_kinds
            or self.faulty_groups
            or self.volumes_changed
        )
        return not (happened or self.hyper_nodes_changed_at or self.everything)


class ChangedRows(Struct):
    """Keys whose rows may have changed since the views were last written."""

    queues: Names = field(default_factory=dict)
    nodes: Names = field(default_factory=dict)
    groups: Names = field(default_factory=dict)
    pods: Names = field(default_factory=dict)
    pod_attributes: Names = field(default_factory=dict)
    """Pods that came or went, or of which something changed that does not depend on their node."""
    topology: Names = field(default_factory=dict)
    faults: Names = field(default_factory=dict)
    """Nodes of which faults changed, or what was done about them."""
    of_features: dict[str, Names] = field(default_factory=dict)
    """View of a feature to keys."""

    def mark(self, view: str, keys: Iterable[str]) -> None:
        """Mark rows of a view of a feature as changed."""
        self.of_features.setdefault(view, {}).update(dict.fromkeys(keys))
