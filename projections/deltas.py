"""Deltas: what a record changed of the facts. The cluster dispatches each to the indexes that are kept up by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.index import Index
    from projections.pods import Pod


class PodChanged(Struct, frozen=True, gc=False):
    """A pod was added (`old` is None), changed or deleted (`new` is None). Its node, group and queue are up to date.

    Not dispatched if only what no reader of pods looks at has changed: another version with the same object, status
    and class then takes the place of the pod, so an index keeps UIDs and not pods.
    """

    handler: ClassVar[str] = "on_pod"

    old: Pod | None
    new: Pod | None

    def update(self, index: Index, cluster: Cluster) -> None:
        """Call the handler of an index."""
        index.on_pod(cluster, self)


Delta = PodChanged
