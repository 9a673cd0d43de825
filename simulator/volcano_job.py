"""Volcano Job: a PodGroup first, and pods once that group has left Pending (volcano A.3).

Events are handled by the job's policies; without any, the job is reconciled one phase at a time: its own status
update enqueues it again. Killing a job deletes its PodGroup, so that nothing stays reserved for it.
"""

from collections import Counter
from typing import Final

from events.normalize import Json, JsonObject
from projections.volumes.facts import CLAIM
from simulator.job_events import JOB_VERSION, PARTITION, TASK_SPEC
from simulator.manifest import VOLCANO_JOB, Manifest
from simulator.manifest_fields import (
    list_at,
    name_of,
    namespace_of,
    phase_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.object_factory import ObjectFactory, PodOverrides
from simulator.object_store import Key
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import kind_named
from simulator.ttl_after_finished import expire
from simulator.volcano_job_actions import DueAction, due_actions
from simulator.volcano_job_constants import (
    RESTART_JOB,
    RESTART_PARTITION,
    RESTART_POD,
    RESTART_TASK,
)
from simulator.volcano_job_phases import (
    FINISHED,
    LIVE,
    PENDING,
    RESTARTING,
    JobStatus,
    job_status_of,
    max_retry,
    next_phase,
    phase_after,
)
from simulator.volcano_job_pod_group import (
    Task,
    group_key,
    min_available,
    minimum_of,
    replicas_of,
    sync_pod_group,
    tasks_of,
)
from simulator.volume_controller import claim_volumes, job_volumes

_CLAIM: Final = kind_named(CLAIM)
_INHERITED: Final = (
    *("volcano.sh/preemptable", "volcano.sh/revocable-zone"),
    *("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"),
)
"""Annotations of a job that its pods inherit."""


def reconcile_volcano_job(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Handle events, or else reconcile one step; then update the status."""
    job_status = job_status_of(owner)
    acted = [
        _execute(factory, owner, children, job_status, answer)
        for answer in due_actions(factory, owner, children)
    ]
    if not any(acted):
        _keep(factory, owner, children, job_status)
    _update_status(factory, owner, children, job_status)
    if job_status.phase in FINISHED:
        expire(factory, owner, children)


def _execute(
    factory: ObjectFactory,
    owner: Manifest,
    children: OwnedObjects,
    job_status: JobStatus,
    answer: DueAction,
) -> bool:
    """Execute the action of a policy or Command; return False if the phase does not allow it."""
    job_event, action = answer
    if job_event.version is not None and job_event.version < job_status.version:
        return False
    phase = phase_after(job_status, action)
    if phase is None:
        return False
    # In the last try, ended pods are kept for inspection.
    keeps_ended = action != RESTART_JOB or job_status.retry_count >= max_retry(owner) - 1
    if phase == RESTARTING and job_status.phase != RESTARTING:
        job_status.retry_count += 1
    job_status.phase = phase
    if action in (RESTART_TASK, RESTART_POD, RESTART_PARTITION):
        for key in _target(factory, children, answer):
            if children.all[key] is not ChildState.STOPPING:
                factory.delete_unwanted(key, children)
    else:
        _kill(factory, owner, children, job_status, keeps_ended=keeps_ended)
    return True


def _target(factory: ObjectFactory, children: OwnedObjects, answer: DueAction) -> list[Key]:
    """The pods that an action is about: one, those of its task, or those of its partition."""
    job_event, action = answer
    if action == RESTART_POD:
        return [job_event.pod] if job_event.pod in children.all else []
    pods = children.of_role(job_event.task)
    if action == RESTART_TASK or job_event.pod is None:
        return pods
    partition = job_event.partition
    return [key for key in pods if _partition(factory.store.find(key)) == partition]


def _partition(pod: Manifest | None) -> str:
    return text_at(section(pod or {}, "metadata", "annotations"), PARTITION)


def _kill(
    factory: ObjectFactory,
    owner: Manifest,
    children: OwnedObjects,
    job_status: JobStatus,
    *,
    keeps_ended: bool,
) -> None:
    """Delete the pods and the PodGroup; ended pods may be kept."""
    kept = (
        (ChildState.STOPPING, ChildState.SUCCEEDED, ChildState.FAILED)
        if keeps_ended
        else (ChildState.STOPPING,)
    )
    for key, child in list(children.all.items()):
        if key[0] == "Pod" and child not in kept:
            factory.delete_unwanted(key, children)
    factory.delete(group_key(owner))
    job_status.version += 1


def _keep(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, job_status: JobStatus
) -> None:
    """Reconcile PodGroup and pods for the phase, and move to the next phase."""
    if job_status.phase in LIVE:
        group = sync_pod_group(factory, owner)
        if phase_of(group) not in ("", PENDING):
            _sync_pods(factory, owner, children, job_status)
        job_status.phase = next_phase(owner, job_status, children)
    else:
        job_status.phase = next_phase(owner, job_status, children)
    if job_status.phase not in LIVE and (children.active or factory.store.find(group_key(owner))):
        _kill(factory, owner, children, job_status, keeps_ended=True)


def _sync_pods(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, job_status: JobStatus
) -> None:
    """Create missing pods of tasks whose dependencies are met; delete surplus ones."""
    _make_claims(factory, owner)
    tasks = tasks_of(owner)
    for role, task in tasks:
        there, wanted = children.roles.get(role, Counter()).total(), replicas_of(task)
        prefix = f"{name_of(owner)}-{role}-"
        if there < wanted and _is_ready(task, dict(tasks), children):
            for number in range(wanted):
                key: Key = ("Pod", namespace_of(owner), f"{prefix}{number}")
                if key not in children.all:
                    marks = _marks(owner, job_status, (role, task), number)
                    factory.make_pod(
                        owner, children, section(task, "template"), key[2], marks=marks
                    )
        elif there > wanted:
            kept = {f"{prefix}{number}" for number in range(wanted)}
            for key in children.of_role(role):
                if key[2] not in kept and children.all[key] is not ChildState.STOPPING:
                    factory.delete_unwanted(key, children)


def _make_claims(factory: ObjectFactory, owner: Manifest) -> None:
    """Create the claims that the job states and that do not exist."""
    for name, spec in job_volumes(owner):
        if spec and factory.store.find((CLAIM, namespace_of(owner), name)) is None:
            factory.make(owner, _CLAIM, name, {"spec": dict(spec)})


def _is_ready(task: Task, tasks: dict[str, Task], children: OwnedObjects) -> bool:
    """Return True if the tasks that this one depends on, any or all, have their minimum of pods."""
    depends = section(task, "dependsOn")
    names = depends.get("name")
    if not isinstance(names, list) or not names:
        return True
    ready = [
        children.roles.get(name, Counter())[ChildState.RUNNING]
        + children.roles.get(name, Counter())[ChildState.SUCCEEDED]
        >= minimum_of(tasks[name])
        for name in map(str, names)
        if name in tasks
    ]
    return any(ready) if text_at(depends, "iteration") == "any" else all(ready)


def _marks(
    owner: Manifest, job_status: JobStatus, named: tuple[str, Task], number: int
) -> PodOverrides:
    role, task = named
    spec, pod_spec = section(owner, "spec"), section(task, "template", "spec")
    labels = {
        "volcano.sh/job-name": name_of(owner),
        "volcano.sh/job-namespace": namespace_of(owner),
        "volcano.sh/queue-name": text_at(spec, "queue") or "default",
        TASK_SPEC: role,
        "volcano.sh/task-index": str(number),
    }
    size = whole_at(section(task, "partitionPolicy"), "partitionSize", 0)
    if size > 0:
        labels[PARTITION] = str(number // size)
    of_owner = section(owner, "metadata", "annotations")
    annotations = {
        **{key: text_at(of_owner, key) for key in _INHERITED if key in of_owner},
        "scheduling.k8s.io/group-name": f"{name_of(owner)}-{uid_of(owner)}",
        JOB_VERSION: str(job_status.version),
        "volcano.sh/job-retry-count": str(job_status.retry_count),
        **labels,
    }
    extra: JsonObject = {}
    for key in ("schedulerName", "priorityClassName"):
        if spec.get(key) and not pod_spec.get(key):
            extra[key] = spec[key]
    claims = {f"volume-{number}": name for number, (name, _) in enumerate(job_volumes(owner))}
    if claims:
        extra["volumes"] = [*map(dict, list_at(pod_spec, "volumes")), *claim_volumes(claims)]
    return PodOverrides(labels, annotations, extra)


def _update_status(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, job_status: JobStatus
) -> None:
    """Write the status, if it changed."""
    before = section(owner, "status")
    state, conditions = dict(section(before, "state")), list_at(before, "conditions")
    listed: list[Json] = [dict(one) for one in conditions]
    if text_at(state, "phase") != job_status.phase:
        at = factory.store.timestamp()
        state = {"phase": job_status.phase, "lastTransitionTime": at}
        listed.append({"status": job_status.phase, "lastTransitionTime": at})
    status: JsonObject = {
        "state": state,
        "minAvailable": min_available(owner),
        **_counted(children.counts),
        "taskStatusCount": {
            role: {"phase": counted}
            for role, counts in children.roles.items()
            if (counted := _by_phase(counts))
        },
        "version": job_status.version,
        "retryCount": job_status.retry_count,
        "conditions": listed,
    }
    status = {key: value for key, value in status.items() if value not in (0, {})}
    if status != before:
        factory.store.put(VOLCANO_JOB, {**owner, "status": status})


def _counted(counts: Counter[ChildState]) -> dict[str, int]:
    return {
        "pending": counts[ChildState.ACTIVE],
        "running": counts[ChildState.RUNNING],
        "succeeded": counts[ChildState.SUCCEEDED],
        "failed": counts[ChildState.FAILED],
        "terminating": counts[ChildState.STOPPING],
    }


def _by_phase(counts: Counter[ChildState]) -> JsonObject:
    counted = {name.capitalize(): count for name, count in _counted(counts).items()}
    return {name: count for name, count in counted.items() if count and name != "Terminating"}
