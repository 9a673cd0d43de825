"""What can happen to a Volcano Job that its policies may answer (volcano A.3)."""

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
    """Something that happened to a job, or to one of its pods."""

    event: str
    """As policies name it: `PodFailed`, `Unknown` ..."""
    task: str = ""
    pod: Key | None = None
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    version: int | None = None
    """Which version of the job the pod was made for; what befell older ones does not count."""
    action: str = ""
    """What a command demands."""


def job_event_of(change: Change) -> JobEvent | None:
    """What a change of an owned object means for a job."""
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
    """The event of a pod's change; empty where policies know none.

    A pod that was over and is deleted is not evicted. `TaskCompleted` may follow from `PodSucceeded`.
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
    """That of the first container that says one."""
    for status in list_at(section(pod, "status"), "containerStatuses"):
        code = section(status, "state", "terminated").get("exitCode")
        if isinstance(code, int):
            return code
    return 0
