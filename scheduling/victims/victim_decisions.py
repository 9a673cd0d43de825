"""The outcome of a preemption attempt: whether the gang is complete with it, and the resulting decisions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from events.decision import Decision, Eviction
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.duration import format_duration
from events.requeue import ANY_QUOTA, PODS_CHANGED, VICTIMS_OF_OTHERS, VICTIMS_OF_QUEUE
from projections.budget_refusals import is_overdue
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy.policy import GANG_EVICTING, RECLAIMING
from scheduling.group_trial import GroupTrial
from scheduling.trial import placements
from scheduling.victims.pdb_filter import BudgetsLeft


def victim_events(action: str) -> tuple[str, ...]:
    """Return the events after which an action may find victims that it did not find before."""
    if action in RECLAIMING:
        return (VICTIMS_OF_OTHERS,)
    if action in GANG_EVICTING:
        return (VICTIMS_OF_QUEUE, PODS_CHANGED, ANY_QUOTA)
    return (VICTIMS_OF_QUEUE, PODS_CHANGED)


def is_whole(trial: GroupTrial) -> bool:
    """Return True if the gang of a trial is complete once all victims have terminated."""
    group = trial.group
    own = trial.evicted_of(group.key)
    placed = [one.pod for one in trial.placed]
    if len(placed) <= len(group.decided.nominations):
        return False
    if any(pod.pod_class.is_best_effort for pod in placed):
        # Best-effort pods count as ready while they are pending; here they must have a node.
        return group.is_ready_without_waiting(placed, own)
    roles = Counter(pod.facts.role for pod in placed)
    roles.subtract(pod.facts.role for pod in own)
    return group.is_ready_with(len(placed) - len(own), roles)


def decisions(action: str, trial: GroupTrial) -> Iterator[Decision]:
    """Yield the evictions, group by group, and the nominations for the preemptor."""
    cluster, group = trial.cluster, trial.group
    yield from _evictions(action, trial, trial.evicted_by_group)
    placed = placements(cluster, trial.placed)
    if trial.later:
        yield PipelineDecided(pod_group=group.key, queue=group.queue, placements=placed)
    else:
        # `allocate` would have found this room too, if one of the group's pods had not taken too much.
        yield GangBindDecided(pod_group=group.key, queue=group.queue, placements=placed)


def evictions_of(action: str, trial: GroupTrial, some: list[Pod]) -> Iterator[Decision]:
    """Yield the evictions of some of the victims, group by group."""
    by_group: dict[str, list[Pod]] = {}
    for pod in some:
        by_group.setdefault(pod.group_key, []).append(pod)
    yield from _evictions(action, trial, by_group)


def _evictions(
    action: str, trial: GroupTrial, by_group: Mapping[str, Sequence[Pod]]
) -> Iterator[EvictionDecided]:
    cluster, group = trial.cluster, trial.group
    late: dict[str, None] = {}
    if action in RECLAIMING and cluster.budget_refusals:
        late = {
            pod.facts.uid: None
            for pod in BudgetsLeft(cluster).refused(trial.evicted)
            if is_overdue(cluster, pod.facts.uid)
        }
    for key, pods in by_group.items():
        if not pods:
            continue
        yield EvictionDecided(
            pod_group=key,
            queue=cluster.groups[key].queue,
            evictions=tuple(
                Eviction(
                    pod=pod.key,
                    uid=pod.facts.uid,
                    node=pod.node,
                    is_without_budgets=pod.facts.uid in late,
                )
                for pod in pods
            ),
            action=action,
            in_favour_of=group.key,
            code="Reclaimed" if action in RECLAIMING else "Preempted",
            message=_message(cluster, action, group, pods, late),
        )


def _message(
    cluster: Cluster, action: str, ours: PodGroup, pods: Sequence[Pod], late: Mapping[str, None]
) -> str:
    victim = cluster.groups[pods[0].group_key]
    if action in RECLAIMING:
        text = f"reclaimed for pod group {ours.key} of queue {ours.queue}: queue {victim.queue} exceeds its share"
        if any(pod.facts.is_protected for pod in pods):
            text += "; pods are protected only within what their queue deserves"
        if any(pod.facts.uid in late for pod in pods):
            span = format_duration(cluster.policy.action_arguments.budget_timeout_ns)
            text += f"; disruption budgets have refused for {span}, so that pods are deleted without them"
        return text
    if victim is ours:
        return "preempted by a pod of the same pod group with higher priority"
    return f"preempted by pod group {ours.key} of priority {ours.priority}; this pod group has priority {victim.priority}"
