"""The actions of a Volcano Job that are due: what its policies say about its events, at once or delayed."""

from typing import TypeAlias

from msgspec import structs

from simulator.job_events import JobEvent
from simulator.manifest import Manifest
from simulator.manifest_fields import phase_of, uid_of
from simulator.object_factory import ObjectFactory
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.volcano_job_constants import SYNC
from simulator.volcano_job_pod_group import minimum_of, tasks_of
from simulator.volcano_job_policies import action_for

DueAction: TypeAlias = tuple[JobEvent, str]
"""An event, and the action that handles it."""


def due_actions(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> list[DueAction]:
    """Return the actions that are due now, in the order of their events."""
    now = factory.store.now_ns
    happened, children.job_events = children.job_events, []
    due: list[DueAction] = []
    later: list[tuple[int, JobEvent, str]] = []
    for at, job_event, action in children.pending:
        if not _is_void(factory, children, job_event):
            if at <= now:
                due.append((job_event, action))
            else:
                later.append((at, job_event, action))
    for one in happened:
        job_event = _policy_event(owner, children, one)
        action, delay = action_for(owner, job_event)
        if action != SYNC and delay:
            later.append((now + delay, job_event, action))
            factory.wake(uid_of(owner), now + delay)
        elif action != SYNC:
            due.append((job_event, action))
    children.pending = later
    return due


def _policy_event(owner: Manifest, children: OwnedObjects, one: JobEvent) -> JobEvent:
    """The success that completes a task becomes TaskCompleted; other successes are no event."""
    if one.event != "PodSucceeded":
        return one
    task = dict(tasks_of(owner)).get(one.task)
    succeeded = children.roles[one.task][ChildState.SUCCEEDED] if one.task in children.roles else 0
    is_completed = task is not None and succeeded >= minimum_of(task)
    return structs.replace(one, event="TaskCompleted" if is_completed else "")


def _is_void(factory: ObjectFactory, children: OwnedObjects, job_event: JobEvent) -> bool:
    """Return True if a delayed action is void: the pod runs, or no longer waits."""
    if job_event.pod is None:
        return False
    if job_event.event == "PodPending":
        pod = factory.store.find(job_event.pod)
        is_same = pod is not None and uid_of(pod) == job_event.pod_uid
        return not is_same or phase_of(pod or {}) != "Pending"
    is_about_pod = job_event.event in ("PodFailed", "PodEvicted")
    return is_about_pod and children.all.get(job_event.pod) is ChildState.RUNNING
