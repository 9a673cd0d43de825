"""Delete pods that their device plugin rejected: their controllers create them again."""

from collections.abc import Iterator
from typing import Final

from events.decision import Decision, Eviction
from events.decisions.eviction import EvictionDecided
from projections.cluster import Cluster
from projections.rejected_pods import RejectedPods

RECREATE: Final = "recreate"
"""`action` of the decision."""


def recreate_rejected(cluster: Cluster) -> Iterator[Decision]:
    """Yield a decision for each pod group with rejected pods and text of the device plugin."""
    found: dict[tuple[str, str], list[Eviction]] = {}
    for pod in cluster.indexes.of(RejectedPods).due(cluster):
        one = Eviction(pod=pod.key, uid=pod.facts.uid, node=pod.node)
        found.setdefault((pod.group_key, pod.facts.device_rejection), []).append(one)
    for (key, text), evictions in found.items():
        yield EvictionDecided(
            pod_group=key,
            queue=cluster.groups[key].queue,
            evictions=tuple(evictions),
            action=RECREATE,
            code=text,
            message=f"the device plugin could not give it its devices ({text})",
        )
