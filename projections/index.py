"""Indexes over the cluster: what can be computed again from facts, and is kept up only to save time.

An index is one class in one file. It handles the deltas (`projections/deltas.py`) that change it, and computes itself
again with `rebuilt`. A cluster holds all its indexes in one tuple: it dispatches deltas to them, the audit compares
each with what it rebuilds, and `State.fork` copies them. None of these knows an index by name, so an index of a
plugin is treated like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from projections.deltas import (
    DELTAS,
    Delta,
    NodeChanged,
    PodChanged,
    PodGroupChanged,
    PodWithClaimsChanged,
    PolicyChanged,
    QueueChanged,
    RecordApplied,
    RestartChanged,
)

if TYPE_CHECKING:
    from projections.cluster import Cluster

IndexT = TypeVar("IndexT", bound="Index")


class Index(ABC):
    """An index over facts. It overrides the handlers of those deltas that change it.

    A handler is called after the facts have changed. It may record in the cluster what the change allows (freed nodes,
    released quota, pod groups to settle), and changes no facts.
    """

    name: ClassVar[str]
    """Its name in messages of the audit."""
    COMPARED: ClassVar[tuple[str, ...]]
    """Its attributes that follow from facts alone: no facts, caches, versions or journals."""
    can_be_left_out: ClassVar[bool] = False
    """Whether a fold may leave it out while older records are applied, and compute it again behind them: no fact depends on
    it, and whatever applies such a record does not read it (`Cluster.leave_indexes_out`)."""
    follows_status: ClassVar[bool] = True
    """Whether `on_pods` gets also pods that stay on their nodes and of which at most the status has changed
    (`PodChanged.stays`)."""

    @abstractmethod
    def rebuilt(self, cluster: Cluster, /) -> Index:
        """Return what the index should hold, computed again from the facts of the cluster."""

    def rebuild(self, cluster: Cluster) -> None:
        """Compute the index again in its place, after facts were loaded without deltas."""
        counted = self.rebuilt(cluster)
        for name in self.COMPARED:
            setattr(self, name, getattr(counted, name))

    def mark_rows(self, cluster: Cluster) -> None:  # noqa: B027
        """Mark all rows of views that come from the index as changed (only of an index that a feature brings)."""

    def dropped(self, cluster: Cluster) -> None:  # noqa: B027
        """Take back what the index has recorded in the cluster: the policy no longer names its feature."""

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:  # noqa: B027
        """Update the index for the pods that were added, changed or deleted: all of one settling, each once.

        What it records in the cluster goes by `cluster.position`, which a handler sets to that of each change first.
        """

    def on_pod_with_claims(  # noqa: B027
        self, cluster: Cluster, delta: PodWithClaimsChanged
    ) -> None:
        """Update the index for a pod with claims that was added, changed or deleted, after `on_pods`."""

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:  # noqa: B027
        """Update the index for a node that was added, changed or deleted."""

    def on_pod_groups(  # noqa: B027
        self, cluster: Cluster, changes: Sequence[PodGroupChanged]
    ) -> None:
        """Update the index for pod groups that were added, changed or deleted, as `on_pods` does."""

    def on_queue(self, cluster: Cluster, delta: QueueChanged) -> None:  # noqa: B027
        """Update the index for a queue that was added, changed or deleted."""

    def on_policy(self, cluster: Cluster, delta: PolicyChanged) -> None:  # noqa: B027
        """Update the index for another policy."""

    def on_restart(self, cluster: Cluster, delta: RestartChanged) -> None:  # noqa: B027
        """Update the index for a restart after a fault that began, changed or ended."""

    def on_record(self, cluster: Cluster, delta: RecordApplied) -> None:  # noqa: B027
        """Update the index once after all that a record changed."""


class Indexes:
    """The indexes of a cluster, and which of them handle a type of delta."""

    def __init__(
        self,
        own: Iterable[Index],
        of_features: Iterable[Index] = (),
        of_plugins: Iterable[Index] = (),
        *,
        are_left_out: bool = False,
    ) -> None:
        self.own, self.of_features = tuple(own), tuple(of_features)
        """Those that every cluster has; those that come and go with the features that the policy names. Others come and go
        with its plugins."""
        self.of_plugins, self.are_left_out = tuple(of_plugins), are_left_out
        """Whether deltas are dispatched only to those that cannot be left out."""
        self.all = (*self.own, *self.of_features, *self.of_plugins)
        kept = [one for one in self.all if not (are_left_out and one.can_be_left_out)]
        handlers = {one: tuple([i for i in kept if _handles(i, one)]) for one in DELTAS}
        # Types without a handler are left out.
        self._by_delta: dict[type[Delta], tuple[Index, ...]] = {
            one: found for one, found in handlers.items() if found
        }
        self._by_type: dict[type[Index], Index] = {type(one): one for one in self.all}

    def left_out(self, *, are_left_out: bool) -> Indexes:
        """Return the same indexes, of which those that can be are left out, or are not."""
        return Indexes(self.own, self.of_features, self.of_plugins, are_left_out=are_left_out)

    def of(self, kind: type[IndexT]) -> IndexT:
        """Return the index of this class. Raise KeyError if the cluster does not keep it."""
        found = self._by_type[kind]
        assert isinstance(found, kind)
        return found

    def find(self, kind: type[IndexT]) -> IndexT | None:
        """Return the index of this class; None if the cluster does not keep it."""
        found = self._by_type.get(kind)
        assert found is None or isinstance(found, kind)
        return found

    def dispatch_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Update all indexes for the pods that one settling changed, one index after the other."""
        others = [one for one in changes if not one.stays]
        for index in self._by_delta.get(PodChanged, ()):
            found = changes if index.follows_status else others
            if found:
                index.on_pods(cluster, found)

    def dispatch_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Update all indexes for pod groups that changed, one index after the other."""
        for index in self._by_delta.get(PodGroupChanged, ()):
            index.on_pod_groups(cluster, changes)

    def dispatch(self, cluster: Cluster, delta: Delta) -> None:
        """Update all indexes that handle a delta, in their order."""
        for index in self._by_delta.get(type(delta), ()):
            getattr(index, delta.handler)(cluster, delta)


def _handles(index: Index, delta: type[Delta]) -> bool:
    """Return whether an index overrides the handler of a type of delta."""
    return getattr(type(index), delta.handler) is not getattr(Index, delta.handler)
