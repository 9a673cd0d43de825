"""The phases of a Volcano Job: which comes next, and what an action changes (volcano A.3).

Pending -> Running                    minAvailable pods run or have ended
Running -> Completed, Failed          all pods have ended, or minSuccess have succeeded
Pending, Running -> Restarting        RestartJob, RestartTask, RestartPod, RestartPartition
Restarting -> Pending, Failed         Failed after `maxRetry` restarts
Pending, Running -> Aborting -> Aborted (-> Restarting by ResumeJob)
Pending, Running -> Completing -> Completed
Pending, Running -> Terminating -> Terminated
"""

from collections import Counter
from typing import Final

from msgspec import Struct

from simulator.manifest import Manifest
from simulator.manifest_fields import section, text_at, whole_at
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.volcano_job_constants import (
    ABORT_JOB,
    COMPLETE_JOB,
    RESTART_JOB,
    RESTART_PARTITION,
    RESTART_POD,
    RESTART_TASK,
    RESUME_JOB,
    TERMINATE_JOB,
)
from simulator.volcano_job_pod_group import min_available, minimum_of, replicas_of, tasks_of

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
ABORTED: Final = "Aborted"
MAX_RETRY: Final = 3

LIVE: Final = (PENDING, RUNNING, RESTARTING)
"""Phases in which the job has a PodGroup, and pods are created."""
FINISHED: Final = (COMPLETED, FAILED, "Terminated")
"""Final phases."""

_LEAVING: Final = {"Aborting": ABORTED, "Completing": COMPLETED, "Terminating": "Terminated"}
_LEAVE: Final = {
    ABORT_JOB: "Aborting",
    COMPLETE_JOB: "Completing",
    TERMINATE_JOB: "Terminating",
}
_RESTARTS: Final = (RESTART_JOB, RESTART_TASK, RESTART_POD, RESTART_PARTITION)


class JobStatus(Struct):
    """The part of a job's status that its controller uses."""

    phase: str
    retry_count: int
    version: int
    """Raised each time the job is killed."""


def job_status_of(owner: Manifest) -> JobStatus:
    """Read the status of a job."""
    status = section(owner, "status")
    return JobStatus(
        phase=text_at(section(status, "state"), "phase") or PENDING,
        retry_count=whole_at(status, "retryCount", 0),
        version=whole_at(status, "version", 0),
    )


def phase_after(job_status: JobStatus, action: str) -> str | None:
    """Return the phase after an action; None if the present phase does not allow it."""
    if job_status.phase in (PENDING, RUNNING):
        return RESTARTING if action in _RESTARTS else _LEAVE.get(action)
    if job_status.phase == RESTARTING and action in _RESTARTS:
        return RESTARTING
    if job_status.phase in ("Aborting", ABORTED) and action == RESUME_JOB:
        return RESTARTING
    return None


def next_phase(owner: Manifest, job_status: JobStatus, children: OwnedObjects) -> str:
    """Return the phase that follows from the states of the pods."""
    counts = children.counts
    if job_status.phase == PENDING:
        is_up = min_available(owner) <= counts[ChildState.RUNNING] + _over(counts)
        return RUNNING if is_up else PENDING
    if job_status.phase == RUNNING:
        return _running(owner, children)
    if job_status.phase == RESTARTING:
        if job_status.retry_count >= max_retry(owner):
            return FAILED
        total = sum(replicas_of(task) for _, task in tasks_of(owner))
        # The pods that are not terminating any more must reach minAvailable.
        is_free = total - counts[ChildState.STOPPING] >= min_available(owner)
        return PENDING if is_free else RESTARTING
    if job_status.phase in _LEAVING:
        is_empty = not (
            counts[ChildState.STOPPING] + counts[ChildState.ACTIVE] + counts[ChildState.RUNNING]
        )
        return _LEAVING[job_status.phase] if is_empty else job_status.phase
    return job_status.phase


def max_retry(owner: Manifest) -> int:
    """How often a job may be restarted; the restart with this number fails it."""
    return whole_at(section(owner, "spec"), "maxRetry", MAX_RETRY) or MAX_RETRY


def _running(owner: Manifest, children: OwnedObjects) -> str:
    counts, tasks = children.counts, tasks_of(owner)
    succeeded = counts[ChildState.SUCCEEDED]
    needed = whole_at(section(owner, "spec"), "minSuccess", 0)
    if needed and succeeded >= needed:
        return COMPLETED
    total = sum(replicas_of(task) for _, task in tasks)
    if total == 0 or _over(counts) != total:
        return RUNNING
    if min_available(owner) >= sum(minimum_of(task) for _, task in tasks):
        for name, task in tasks:
            done = children.roles.get(name, Counter())[ChildState.SUCCEEDED]
            if done < minimum_of(task):
                return FAILED
    if needed:
        return FAILED
    return COMPLETED if succeeded >= min_available(owner) else FAILED


def _over(counts: Counter[ChildState]) -> int:
    return counts[ChildState.SUCCEEDED] + counts[ChildState.FAILED]
