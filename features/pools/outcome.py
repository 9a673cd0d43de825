"""What a pass of a pool decides: tasks to start, tasks to release, and why the others wait."""

from typing import Final

from msgspec import Struct, field

from features.pools.tasks import Task
from features.pools.working_nodes import UNLIKE_MAX, Reserved, WorkingNodes
from scheduling.unschedulable import Unschedulable

WAITING_FOR_SLOTS: Final = "WAITING_FOR_SLOTS"
BEHIND_HIGHER_PRIORITY: Final = "BEHIND_HIGHER_PRIORITY"
WAITING_FOR_PREEMPTION: Final = "WAITING_FOR_PREEMPTION"
VICTIMS_NOT_PREEMPTIBLE: Final = "VICTIMS_NOT_PREEMPTIBLE"
OVER_FAIR_SHARE: Final = "OVER_FAIR_SHARE"
SHARE_TOO_SMALL: Final = "SHARE_TOO_SMALL"
MAX_SLOTS_REACHED: Final = "MAX_SLOTS_REACHED"
FRAGMENTED: Final = "FRAGMENTED"
INFEASIBLE: Final = "INFEASIBLE"
POOL_CHANGED: Final = "POOL_CHANGED"
"""Codes of determined 6.2, and of the release of tasks on nodes of another pool."""


class Start(Struct, frozen=True):
    """A task that starts."""

    reserved: Reserved
    is_backfill: bool = False


class Released(Struct, frozen=True):
    """A task that is asked to exit."""

    task: Task
    code: str
    message: str
    cause: Task | None = None
    """The task for which it is asked, if it is for one."""


class PassResult(Struct):
    """The decisions of one pass. `waiting` has the reason of each queued task that does not start."""

    starts: list[Start] = field(default_factory=list)
    releases: list[Released] = field(default_factory=list)
    waiting: dict[str, Unschedulable] = field(default_factory=dict)
    """By name of the task."""

    def wait(self, task: Task, code: str, message: str) -> None:
        """Record why a task waits."""
        self.waiting[task.name] = Unschedulable(code, "", message, task.pods[0].key)


def is_feasible(nodes: WorkingNodes, result: PassResult, task: Task, capacity: int) -> bool:
    """Return whether a task could ever be placed in the pool; record why not.

    A task is not tried if too many unlike ones of its namespace have no placement: they would hold up all others.
    """
    if nodes.is_over_budget(task):
        namespace = task.group.key.partition("/")[0]
        text = (
            f"not tried: {UNLIKE_MAX} unlike tasks of namespace {namespace} have no nodes already"
        )
        result.wait(task, WAITING_FOR_SLOTS, text)
        return False
    problem = nodes.problem(task)
    if problem is not None:
        result.waiting[task.name] = problem
        return False
    if task.slots > capacity:
        total = int(nodes.total_slots()[nodes.in_pool].sum())
        usable = (
            f"{capacity}"
            if capacity == total
            else f"{capacity} that its jobs could use, of {total}"
        )
        text = f"it needs {slots_text(task.slots)}, and pool {nodes.pool.name} has {usable}"
    elif not nodes.fits_when_empty(task):
        text = (
            f"no nodes of pool {nodes.pool.name} could hold {_shape(task)} even if no task of the pool were running"
            f"{_hint(nodes, task)}"
        )
    else:
        return True
    nodes.count_failed(task)
    result.wait(task, INFEASIBLE, text)
    return False


def no_placement(nodes: WorkingNodes, result: PassResult, task: Task) -> None:
    """Record why a task, which could be placed in an idle pool, has no nodes now."""
    nodes.count_failed(task)
    nodes.share_reason(task)
    if task.reason is not None:
        result.waiting[task.name] = task.reason
        return
    total, largest = nodes.free_sums()
    text = f"it needs {_shape(task)}; {slots_text(total)} free in pool {nodes.pool.name}, {largest} on one node"
    if len(task.pods) == 1 and largest >= task.slots and (lacking := nodes.lacking(task)):
        text = f"{text}; {lacking}" if task.slots else lacking
    code = FRAGMENTED if total >= task.slots > 0 else WAITING_FOR_SLOTS
    result.wait(task, code, text)


def at_cap(result: PassResult, task: Task, held: int) -> None:
    """Record that the job of a task may hold no more slots. `held` counts those of tasks that are about to start."""
    running = sum(one.slots for one in task.job.running)
    more = f", {held - running} more are for tasks that start before it" if held > running else ""
    text = f"job {task.job.key} holds {running} of its {task.job.max_slots} slots{more}, and the task needs {task.slots}"
    result.wait(task, MAX_SLOTS_REACHED, text)


def slots_text(slots: int) -> str:
    """Return a number of slots as text."""
    return "1 slot" if slots == 1 else f"{slots} slots"


def _shape(task: Task) -> str:
    if len(task.pods) == 1:
        return slots_text(task.slots)
    return f"{len(task.pods)} pods with {slots_text(task.slots)}"


def _hint(nodes: WorkingNodes, task: Task) -> str:
    if len(task.pods) == 1 or not nodes.pool.uses_whole_nodes:
        return ""
    sizes = sorted({int(one) for one in nodes.total_slots()[nodes.in_pool] if one})
    listed = ", ".join(str(one) for one in sizes) or "none"
    return f": a task on several nodes needs a multiple of the slots of one node size ({listed})"
