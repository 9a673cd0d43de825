"""Events of a Volcano Job that its policies may react to (volcano A.3)."""

from typing import Final

from msgspec import Struct

from simulator.manifest import Manifest
from simulator.manifest_fields import (
    is_terminal,
    is_terminating,
    list_at,
    phase_of,
    section,
    text_at,
)
from simulator.object_store import Change, Key

TASK_SPEC: Final = "volcano.sh/task-spec"
PARTITION: Final = "volcano.sh/partition-id"
JOB_VERSION: Final = "volcano.sh/job-version"


class JobEvent(Struct, frozen=True):
    """An event of a job, or of one of its pods."""

    event: str
    """As named in policies: `PodFailed`, `Unknown` ..."""
    task: str = ""
    pod: Key | None = None
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    version: int | None = None
    """The version of the job that the pod was created for; events of older versions do not count."""
    action: str = ""
    """The action that a Command demands."""


def job_event_of(change: Change) -> JobEvent | None:
    """Return the event that a change of an owned object is for its job, or None."""
    before, after = change.before, change.after
    if change.key[0] == "PodGroup":
        is_unknown = after is not None and phase_of(after) == "Unknown"
        was_unknown = before is not None and phase_of(before) == "Unknown"
        return JobEvent("Unknown") if is_unknown and not was_unknown else None
    event = _event_of_pod(before, after)
    pod = after or before
    if not event or pod is None:
        return None
    annotations = section(pod, "metadata", "annotations")
    version = text_at(annotations, JOB_VERSION)
    return JobEvent(
        event=event,
        task=text_at(annotations, TASK_SPEC),
        pod=change.key,
        pod_uid=text_at(section(pod, "metadata"), "uid"),
        partition=text_at(annotations, PARTITION),
        exit_code=_exit_code(pod) if event == "PodFailed" else 0,
        version=int(version) if version.isdecimal() else 0,
    )


def _event_of_pod(before: Manifest | None, after: Manifest | None) -> str:
    """The event of a pod's change; empty if policies know none.

    The deletion of a finished pod is no eviction. `TaskCompleted` may follow from `PodSucceeded`.
    """
    was_over = before is not None and (is_terminal(before) or is_terminating(before))
    if after is None or is_terminating(after):
        return "" if was_over else "PodEvicted"
    was, phase = phase_of(before) if before is not None else "", phase_of(after)
    if phase == was:
        return ""
    known = {"Pending": "PodPending", "Running": "PodRunning", "Failed": "PodFailed"}
    return known.get(phase, "PodSucceeded" if phase == "Succeeded" else "")


def _exit_code(pod: Manifest) -> int:
    """The exit code of the first container that has one."""
    for status in list_at(section(pod, "status"), "containerStatuses"):
        code = section(status, "state", "terminated").get("exitCode")
        if isinstance(code, int):
            return code
    return 0
