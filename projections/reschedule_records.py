"""How often each job was restarted after faults, and why: what the ConfigMap `job-reschedule-reason` lists.

Bounded: the last records of a job, the first pods of a record, the jobs that were restarted last.
"""

from typing import Final

from msgspec import Struct

from events.decisions.reschedule import RescheduleDecided

RECORDS_MAX: Final = 10
"""Records kept of a job, the newest first (the vendor's)."""
TASKS_MAX: Final = 10
"""Pods named in a record (the vendor's)."""
JOBS_MAX: Final = 1000
"""Jobs of which records are kept, those that were restarted last."""


class TaskReason(Struct, frozen=True, array_like=True):
    """Why a pod is a reason for a restart."""

    fault: str
    pod: str
    node: str
    rank: int


class RescheduleRecord(Struct, frozen=True, array_like=True):
    """One restart of a job."""

    at_ns: int
    reasons: tuple[TaskReason, ...]


class JobRecords(Struct, frozen=True, array_like=True):
    """The restarts of a job."""

    job: str
    """UID of its workload."""
    total: int = 0
    records: tuple[RescheduleRecord, ...] = ()


def add_record(kept: dict[str, JobRecords], job: str, event: RescheduleDecided, at_ns: int) -> None:
    """Add the record of a decision to those of its job, which becomes the last one."""
    reasons = [
        TaskReason(one.fault, one.pod, one.node, one.rank) for one in event.members if one.fault
    ]
    record = RescheduleRecord(at_ns, tuple(reasons[:TASKS_MAX]))
    before = kept.pop(event.pod_group, None)
    if before is None or before.job != job:
        before = JobRecords(job)
    records = (record, *before.records)[:RECORDS_MAX]
    kept[event.pod_group] = JobRecords(job, before.total + 1, records)
    while len(kept) > JOBS_MAX:
        del kept[next(iter(kept))]
