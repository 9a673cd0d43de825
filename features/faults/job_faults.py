"""Which pods of a job are to be deleted after a fault: the faulty ones, those of their logical SuperPoD, or all.

    never escalates (`recover_policy_path: pod`, inference)      the faulty pods, whatever happens
    the pod of rank 0, or a master, is faulty                    all pods
    pods only (`pod-rescheduling: on`, or `scope: pod`)          the faulty pods; while the job is not complete again, after
                                                                 6 attempts those of their logical SuperPoD (all pods if
                                                                 rank 0 or a master is in it), after 12 all
    processes recover (`process-recover-enable: on`)             the faulty pods
    otherwise                                                    all pods

The rules are those of the vendor's scheduler (`docs/faults.md`).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from events.decisions.reschedule import JOB, POD, RestartedPod
from projections.cluster import Cluster
from projections.fault_options import (
    BACKUP,
    FORCE,
    FORCE_EXIT,
    GRACE,
    HOT_SWITCH,
    IGNORE,
    OPERATION,
    FaultOptions,
)
from projections.faulty_pods import (
    POD_FAILED,
    SOFTWARE,
    FaultyPods,
    PodFault,
    tolerance_of,
)
from projections.node_faults import SUB_HEALTH
from projections.pod_groups import PodGroup
from projections.pod_ranks import stated_rank
from projections.pods import RELEASING, SUCCEEDED, Pod
from projections.restarts import retries_left
from projections.state import State

REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
_MASTERS: Final = ("master", "launcher", "chief")
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


class JobFaults(Struct, frozen=True):
    """The pods of a job that are faulty, and how they are deleted."""

    faults: dict[str, PodFault]
    """UID of a faulty pod to its fault. Empty if nothing is to be done."""
    mode: str
    scope: str = ""
    """Which pods are deleted; empty if the rules of the job say it."""
    backups: tuple[str, ...] = ()
    """UIDs of the pods that have taken the places of faulty ones already."""


def job_faults(cluster: Cluster, group: PodGroup, options: FaultOptions, now_ns: int) -> JobFaults:
    """Return the faulty pods of a group for which something is to be done now."""
    index, book = cluster.indexes.of(FaultyPods), cluster.reschedulings
    arguments = cluster.policy.action_arguments.rescheduling
    since = book.faulty_since_ns.get(group.key, {})
    faults: dict[str, PodFault] = {}
    for uid in sorted(index.by_group.get(group.key, {})):
        fault, pod = index.pods[uid], cluster.pods[uid]
        if pod.evicted or uid in cluster.eviction_backoff or not is_movable(pod, options):
            continue
        if since.get(uid, now_ns) + tolerance_of(fault, arguments) > now_ns:
            continue
        if fault.kind == POD_FAILED and not retries_left(cluster, group):
            continue
        if fault.kind == SOFTWARE and options.recovers_processes:
            continue
        faults[uid] = fault
    hard = {uid: one for uid, one in faults.items() if one.kind != SUB_HEALTH}
    if hard:
        return JobFaults(hard, options.mode)
    return _sub_healthy(cluster, group, faults, options)


def _sub_healthy(
    cluster: Cluster, group: PodGroup, faults: dict[str, PodFault], options: FaultOptions
) -> JobFaults:
    """Return what is done if all faults of a job are of less health."""
    strategy = options.sub_healthy_strategy
    if strategy == HOT_SWITCH:
        return _hot_switch(cluster, group, faults, options)
    if strategy == IGNORE:
        return JobFaults({}, options.mode)
    return JobFaults(faults, FORCE if strategy == FORCE_EXIT else GRACE)


def _hot_switch(
    cluster: Cluster, group: PodGroup, faults: dict[str, PodFault], options: FaultOptions
) -> JobFaults:
    """Return the sub-healthy pods that a recovery controller asks to delete.

    One whose backup runs is deleted at once, alone; one whose backup has no node yet stays; without a backup it is a
    sub-healthy pod like any other.
    """
    by_name = {pod.facts.name: pod for pod in group.pods.values()}
    switched: dict[str, PodFault] = {}
    alone: dict[str, PodFault] = {}
    backups: list[str] = []
    for uid, fault in faults.items():
        stated = dict(cluster.pods[uid].facts.fault_options)
        if stated.get(OPERATION) != "delete":
            continue
        backup = by_name.get(stated.get(BACKUP, ""))
        if backup is None:
            alone[uid] = fault
        elif backup.node and backup.facts.phase == "Running":
            switched[uid] = fault
            backups.append(backup.facts.uid)
    if switched:
        return JobFaults(switched, FORCE, POD, tuple(backups))
    return JobFaults(alone, options.mode)


def job_ranks(state: State, pods: Iterable[Pod]) -> dict[str, int]:
    """Return the ranks of pods that have one, by UID: as decided, as their annotation states, or by their number."""
    decided = state.assignments.ranks
    found: dict[str, int] = {}
    for pod in pods:
        rank = decided.get(pod.facts.uid, stated_rank(pod))
        if rank < 0:
            rank = _number(pod)
        if rank >= 0:
            found[pod.facts.uid] = rank
    return found


def _number(pod: Pod) -> int:
    owner = pod.facts.owner
    if owner is None:
        return -1
    index = _label(pod, _COMPLETION_INDEX)
    if index.isascii() and index.isdigit() and len(index) < 10:
        return int(index)
    is_numbered = owner.kind == "StatefulSet" or (owner.kind == "Job" and bool(pod.facts.role))
    return pod.facts.index if is_numbered else -1


def is_master(pod: Pod, rank: int) -> bool:
    """Return whether a job cannot go on without a pod, so that its fault restarts the whole job."""
    replica = _label(pod, REPLICA_TYPE).lower()
    if replica in _MASTERS:
        return True
    return bool(pod.pod_class.asked_devices) and rank == 0 and replica != "worker"


def scope_of(
    group: PodGroup, options: FaultOptions, faulty: Iterable[Pod], ranks: dict[str, int]
) -> str:
    """Return which pods of a job are deleted first: `pod` or `job`."""
    if options.never_escalates or (group.observed.min_available <= 1 and not options.is_stated):
        # Pods that do not need each other, such as those of a Deployment.
        return POD
    if any(is_master(pod, ranks.get(pod.facts.uid, -1)) for pod in faulty):
        return JOB
    return POD if options.moves_pods_only or options.recovers_processes else JOB


def is_movable(pod: Pod, options: FaultOptions) -> bool:
    """Return whether a pod may be deleted: one without a controller is not created again, so only if the job asks for it."""
    return pod.facts.owner is not None or options.is_stated


def living_pods(group: PodGroup) -> list[Pod]:
    """Return the pods of a group that have nodes and are neither done nor terminating, by name."""
    found = [
        pod
        for pod in group.pods.values()
        if pod.node and pod.status not in (SUCCEEDED, RELEASING) and not pod.facts.is_releasing
    ]
    return sorted(found, key=lambda pod: (pod.key, pod.facts.uid))


def members(state: State, group: PodGroup, faults: dict[str, PodFault]) -> tuple[RestartedPod, ...]:
    """Return the pods that the job has on nodes, and those that a restart which is not over deleted before."""
    living = living_pods(group)
    ranks = job_ranks(state, living)
    restart = state.cluster.reschedulings.restarts.get(group.key)
    found: list[RestartedPod] = []
    if restart is not None:
        there = {pod.facts.uid: None for pod in living}
        found = [
            one
            for one in restart.members
            if one.uid not in there and one.uid not in restart.replaced
        ]
    for pod in living:
        fault = faults.get(pod.facts.uid)
        found.append(
            RestartedPod(
                pod=pod.key,
                uid=pod.facts.uid,
                node=pod.node,
                rank=ranks.get(pod.facts.uid, -1),
                fault="" if fault is None else fault.kind,
                detail="" if fault is None else fault.text,
                device="" if fault is None else fault.device,
                source="" if fault is None else fault.source,
            )
        )
    return tuple(found)


def _label(pod: Pod, name: str) -> str:
    return next((value for key, value in pod.facts.labels if key == name), "")
