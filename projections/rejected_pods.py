"""Pods that their device plugin rejected, and that are deleted so that their controllers create them again.

A pod without a controller is left as it is: nothing would create it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.device_families import DeviceFamilies
from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.deltas import PodChanged
    from projections.pods import Pod


class RejectedPods(Index):
    """UIDs of rejected pods whose deletion is not decided yet."""

    name = "rejected pods"
    COMPARED: ClassVar[tuple[str, ...]] = ("uids",)
    follows_status = False

    def __init__(self) -> None:
        self.uids: dict[str, None] = {}

    def rebuilt(self, cluster: Cluster, /) -> RejectedPods:
        """Look at all pods again."""
        twin = RejectedPods()
        twin.uids = {
            uid: None
            for uid, pod in cluster.pods.items()
            if _is_rejected(pod, cluster.device_families)
        }
        return twin

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Add or remove pods."""
        for one in changes:
            cluster.position = one.position
            pod, families = one.new, cluster.device_families
            if pod is not None and pod.facts.device_rejection and _is_rejected(pod, families):
                self.uids[pod.facts.uid] = None
            elif self.uids:
                pod = pod or one.old
                assert pod is not None
                self.uids.pop(pod.facts.uid, None)

    def due(self, cluster: Cluster) -> list[Pod]:
        """Return the pods to delete now, by name: not those whose deletion has just failed."""
        found = [cluster.pods[uid] for uid in self.uids if uid not in cluster.eviction_backoff]
        return sorted(found, key=lambda pod: (pod.key, pod.facts.uid))


def _is_rejected(pod: Pod, families: DeviceFamilies) -> bool:
    facts = pod.facts
    if not facts.device_rejection or facts.is_releasing or pod.evicted:
        return False
    if facts.owner is None or not pod.group_key:
        return False
    return any(
        facts.device_rejection in families[name].rejections
        for name, _ in pod.pod_class.asked_devices
    )
