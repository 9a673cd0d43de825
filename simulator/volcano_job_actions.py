"""What a Volcano Job has to answer now: what its policies say to what happened, at once or in their time."""

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
"""What happened, and the action that answers it."""


def due_actions(shop: ObjectFactory, owner: Manifest, children: OwnedObjects) -> list[DueAction]:
    """The actions that are due now, in the order in which their causes came."""
    now = shop.store.now_ns
    happened, children.happenings = children.happenings, []
    due: list[DueAction] = []
    later: list[tuple[int, JobEvent, str]] = []
    for at, happening, action in children.pending:
        if not _is_moot(shop, children, happening):
            if at <= now:
                due.append((happening, action))
            else:
                later.append((at, happening, action))
    for one in happened:
        happening = _as_policies_name_it(owner, children, one)
        action, delay = action_for(owner, happening)
        if action != SYNC and delay:
            later.append((now + delay, happening, action))
            shop.wake(uid_of(owner), now + delay)
        elif action != SYNC:
            due.append((happening, action))
    children.pending = later
    return due


def _as_policies_name_it(owner: Manifest, children: OwnedObjects, one: JobEvent) -> JobEvent:
    """The last success that a task needs completes it; another is no event."""
    if one.event != "PodSucceeded":
        return one
    task = dict(tasks_of(owner)).get(one.task)
    succeeded = children.roles[one.task][ChildState.SUCCEEDED] if one.task in children.roles else 0
    is_completed = task is not None and succeeded >= minimum_of(task)
    return structs.replace(one, event="TaskCompleted" if is_completed else "")


def _is_moot(shop: ObjectFactory, children: OwnedObjects, happening: JobEvent) -> bool:
    """Whether a delayed answer is not needed any more: the pod runs, or it no longer waits."""
    if happening.pod is None:
        return False
    if happening.event == "PodPending":
        pod = shop.store.find(happening.pod)
        is_same = pod is not None and uid_of(pod) == happening.pod_uid
        return not is_same or phase_of(pod or {}) != "Pending"
    is_about_pod = happening.event in ("PodFailed", "PodEvicted")
    return is_about_pod and children.all.get(happening.pod) is ChildState.RUNNING
