"""The state of a queue: quota, use, demand, and its waiting pod groups with their places.

The numbers are those of the view `queue_quota`, row for row; the others are computed with the functions that decide.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from projections.cluster import Cluster
from projections.queues import Queue
from projections.views.catalogue import QUEUE_QUOTA
from projections.views.now import queue_rows
from projections.views.rows import Cell
from scheduling.quota import quota_check

ACTIONS: Final = ("enqueue", "allocate", "backfill")


class Resource(Struct, frozen=True):
    """A resource or card of a queue. All but the last three are columns of the view `queue_quota`."""

    resource: str
    capability: int | None
    """The capability of its object; None for no limit."""
    guarantee: int
    deserved: int
    allocated: int
    inqueue: int
    request: int
    elastic: int
    waiting: int
    """The demand of waiting pods: `request` without `allocated`."""
    nominated: int
    """What is nominated for its waiting pods; it counts as used."""
    limit: int | None
    """What it may use now, by the quota plugin in force; None for no limit."""


class InLine(Struct, frozen=True):
    """A waiting pod group, and its place."""

    place: int
    action: str
    """The action that it waits for: `enqueue` to be admitted, `allocate` and `backfill` to get nodes."""
    pod_group: str
    priority: int
    waiting: int
    """Waiting pods; 0 if none is created yet."""
    since_ns: int
    """When the group was created."""
    code: str
    limit: str
    message: str
    """Why it waits, as recorded; empty if no cycle has decided yet."""
    position: int
    """The position of that record."""


FOREIGN: Final = "Foreign"


class Holder(Struct, frozen=True):
    """A pod group that is charged to the queue."""

    pod_group: str
    phase: str
    allocated: dict[str, int]


class QueueAnswer(Struct, frozen=True):
    """A queue."""

    queue: str
    is_open: bool
    """Whether the state of its object is Open; without an object, whether it accepts pod groups."""
    state: str
    """The state of its object; Open if that has none, "" without an object."""
    message: str
    """Why it accepts no pod groups, if so."""
    has_object: bool
    priority: int
    weight: int
    parent: str
    pod_groups: dict[str, int]
    """Phase to number of pod groups; those of other schedulers under FOREIGN."""
    faults: tuple[str, ...]
    resources: tuple[Resource, ...]
    line: tuple[InLine, ...]
    """Waiting pod groups, by action, in the order in which they are served."""
    holders: tuple[Holder, ...]
    """Charged pod groups, by name."""


def queue_answers(cluster: Cluster) -> list[QueueAnswer]:
    """Return all queues, by name."""
    return [queue_answer(cluster, cluster.queues[name]) for name in sorted(cluster.queues)]


def queue_answer(cluster: Cluster, queue: Queue) -> QueueAnswer:
    """Return one queue."""
    found = queue.facts
    others = cluster.config_errors.current.get(f"Queue//{queue.name}", ())
    short = quota_check.why_queue_closed(cluster, queue)
    groups = [cluster.groups[key] for key in queue.groups]
    phases: dict[str, int] = {}
    for group in groups:
        phase = FOREIGN if group.is_foreign else group.decided.phase
        phases[phase] = phases.get(phase, 0) + 1
    return QueueAnswer(
        queue=queue.name,
        is_open=short is None if found is None else found.is_open,
        state="" if found is None else found.state,
        message="" if short is None else short.message,
        has_object=found is not None,
        priority=0 if found is None else found.priority,
        weight=1 if found is None else found.weight,
        parent="" if found is None else found.parent,
        pod_groups=dict(sorted(phases.items())),
        faults=tuple(message for _, message in (*queue.faults, *others)),
        resources=tuple(_resources(cluster, queue)),
        line=tuple(one for action in ACTIONS for one in _line(cluster, queue, action)),
        holders=tuple(
            Holder(group.key, group.decided.phase, dict(sorted(group.allocated.items())))
            for group in sorted(groups, key=lambda one: one.key)
            if group.allocated
        ),
    )


def _resources(cluster: Cluster, queue: Queue) -> Iterator[Resource]:
    nominated = queue.total("nominated")
    for row in queue_rows(cluster, queue.name):
        columns: dict[str, Cell] = dict(zip(QUEUE_QUOTA.column_names, row, strict=True))
        name = str(columns["resource"])
        allocated, request = _number(columns["allocated"]), _number(columns["request"])
        stated = columns["capability"]
        yield Resource(
            resource=name,
            capability=None if stated is None else _number(stated),
            guarantee=_number(columns["guarantee"]),
            deserved=_number(columns["deserved"]),
            allocated=allocated,
            inqueue=_number(columns["inqueue"]),
            request=request,
            elastic=_number(columns["elastic"]),
            waiting=request - allocated,
            nominated=nominated.get(name, 0),
            limit=quota_check.limit_of(cluster, queue, name),
        )


def _number(cell: Cell) -> int:
    assert isinstance(cell, int)
    return cell


def _line(cluster: Cluster, queue: Queue, action: str) -> Iterator[InLine]:
    for place, group in enumerate(cluster.scheduling_queue.in_order(queue.name, action), 1):
        refusal = group.decided.refusals.get(action)
        yield InLine(
            place=place,
            action=action,
            pod_group=group.key,
            priority=group.priority,
            waiting=len(group.pending),
            since_ns=group.observed.created_ns,
            code="" if refusal is None else refusal.code,
            limit="" if refusal is None else refusal.limit,
            message="" if refusal is None else refusal.message,
            position=0 if refusal is None else refusal.position,
        )
