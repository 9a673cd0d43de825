"""The outcome of a preemption attempt: whether the gang is complete with it, and the resulting decisions."""

from collections import Counter
from collections.abc import Iterator

from events.decision import Decision, Eviction
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.requeue import ANY_QUOTA, PODS_CHANGED, VICTIMS_OF_OTHERS, VICTIMS_OF_QUEUE
from projections.pod_groups import PodGroup
from projections.policy import GANG_EVICTING, RECLAIMING
from scheduling.node_overlay import NodeOverlay, placements


def victim_events(action: str) -> tuple[str, ...]:
    """Return the events after which an action may find victims that it did not find before."""
    if action in RECLAIMING:
        return (VICTIMS_OF_OTHERS,)
    if action in GANG_EVICTING:
        return (VICTIMS_OF_QUEUE, PODS_CHANGED, ANY_QUOTA)
    return (VICTIMS_OF_QUEUE, PODS_CHANGED)


def is_whole(overlay: NodeOverlay) -> bool:
    """Return True if the gang of an overlay is complete once all victims have terminated."""
    group = overlay.group
    own = overlay.evicted_by_group.get(group.key, [])
    placed = [pod for pod, _ in overlay.placed]
    if len(placed) <= len(group.nominations):
        return False
    if any(pod.pod_class.is_best_effort for pod in placed):
        # Best-effort pods count as ready while they are pending; here they must have a node.
        return group.is_ready_without_waiting(placed, own)
    roles = Counter(pod.facts.role for pod in placed)
    roles.subtract(pod.facts.role for pod in own)
    return group.is_ready_with(len(placed) - len(own), roles)


def decisions(action: str, overlay: NodeOverlay) -> Iterator[Decision]:
    """Yield the evictions, group by group, and the nominations for the preemptor."""
    cluster, group = overlay.cluster, overlay.group
    for key, pods in overlay.evicted_by_group.items():
        if not pods:
            continue
        yield EvictionDecided(
            pod_group=key,
            queue=cluster.groups[key].queue,
            evictions=tuple(
                Eviction(pod=pod.key, uid=pod.facts.uid, node=pod.node) for pod in pods
            ),
            action=action,
            in_favour_of=group.key,
            code="Reclaimed" if action in RECLAIMING else "Preempted",
            message=_message(action, group, cluster.groups[key]),
        )
    if overlay.later:
        placed = placements(cluster, overlay.placed, overlay.devices)
        yield PipelineDecided(pod_group=group.key, queue=group.queue, placements=placed)
    else:
        placed = placements(cluster, overlay.placed, overlay.devices)
        # `allocate` would have found this room too, if one of the group's pods had not taken too much.
        yield GangBindDecided(pod_group=group.key, queue=group.queue, placements=placed)


def _message(action: str, ours: PodGroup, victim: PodGroup) -> str:
    if action in RECLAIMING:
        return f"reclaimed for pod group {ours.key} of queue {ours.queue}: queue {victim.queue} exceeds its share"
    if victim is ours:
        return "preempted by a pod of the same pod group with higher priority"
    return f"preempted by pod group {ours.key} of priority {ours.priority}; this pod group has priority {victim.priority}"
