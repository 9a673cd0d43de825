"""The decider `fair_share`: each job gets a part of the slots, by its weight and its demand (determined 2)."""

from scheduling.pools.fair_share_offers import Offer, ShareGroup, offers
from scheduling.pools.outcome import (
    MAX_SLOTS_REACHED,
    OVER_FAIR_SHARE,
    SHARE_TOO_SMALL,
    PassResult,
    Released,
    Start,
    at_cap,
    is_feasible,
    no_placement,
    slots_text,
)
from scheduling.pools.tasks import Job, PoolTasks, Task, likeness
from scheduling.pools.working_nodes import WorkingNodes


def fair_share_pass(nodes: WorkingNodes, tasks: PoolTasks) -> PassResult:
    """Return the decisions of one pass: a job below its offer starts tasks, a job above it releases some."""
    result = PassResult()
    _start_aux(nodes, tasks, result)
    capacity = nodes.capacity
    queued: dict[str, list[Task]] = {}
    groups: list[ShareGroup] = []
    for job in tasks.jobs.values():
        feasible = [
            one
            for one in job.queued
            if one.slots
            and not _is_over_cap(result, one)
            and is_feasible(nodes, result, one, capacity)
        ]
        running = [one for one in job.running if one.slots]
        if not feasible and not running:
            continue
        queued[job.key] = feasible
        groups.append(_group(job, feasible, running))
    by_demand = nodes.pool.share_basis == "demand"
    found = offers(capacity, groups, "demand" if by_demand else "equal")
    order = sorted(groups, key=lambda one: (one.demand, one.age, one.key))
    for group in order:
        job, offer = tasks.jobs[group.key], found[group.key]
        held = sum(one.slots for one in job.running)
        if held > offer.slots:
            _release(nodes, job, offer, held, result)
        left, started = _start(nodes, queued[group.key], offer.slots - held, result)
        for task in left:
            _over_share(result, task, offer, held + started, group.demand)
    return result


def _is_over_cap(result: PassResult, task: Task) -> bool:
    """Return whether a task alone needs more slots than its job may hold; it counts for no demand then."""
    most = task.job.max_slots
    if most is None or task.slots <= most:
        return False
    at_cap(result, task, sum(one.slots for one in task.job.running))
    return True


def _start_aux(nodes: WorkingNodes, tasks: PoolTasks, result: PassResult) -> None:
    """Start tasks without slots, first in, first out."""
    for task in sorted(tasks.queued(has_slots=False), key=lambda one: one.age):
        if not is_feasible(nodes, result, task, 0):
            continue
        reserved = nodes.place(task)
        if reserved is None:
            no_placement(nodes, result, task)
        else:
            result.starts.append(Start(reserved))


def _group(job: Job, queued: list[Task], running: list[Task]) -> ShareGroup:
    held = sum(one.slots for one in running)
    fixed = sum(one.slots for one in running if not one.is_preemptible)
    demand = held + sum(one.slots for one in queued)
    if job.max_slots is not None:
        demand = max(fixed, min(demand, job.max_slots))
    oldest = min(one.age for one in (*queued, *running))
    kept = [one for one in running if one.is_preemptible]
    return ShareGroup(
        key=job.key,
        weight_numerator=job.weight[0],
        weight_denominator=job.weight[1],
        demand=demand,
        fixed=fixed,
        age=(oldest[0], oldest[2], job.name),
        # A job that can keep a running task is not disabled, or it would release it and start it again for ever.
        smallest_queued=min((one.slots for one in (*queued, *kept)), default=0) if queued else 0,
    )


def _release(nodes: WorkingNodes, job: Job, offer: Offer, held: int, result: PassResult) -> None:
    """Release tasks until the job holds no more than its offer. Those that are asked already count first."""
    running = [one for one in job.running if one.slots]
    if not nodes.pool.takes_oldest_first:
        running.reverse()
    left = held - sum(one.slots for one in running if one.is_releasing)
    for task in running:
        if left <= offer.slots:
            return
        if task.is_releasing or not task.is_preemptible:
            continue
        left -= task.slots
        text = f"job {job.key} holds {slots_text(held)}, and its fair share is {offer.slots}"
        result.releases.append(Released(task, OVER_FAIR_SHARE, text))


def _start(
    nodes: WorkingNodes, queued: list[Task], budget: int, result: PassResult
) -> tuple[list[Task], int]:
    """Start tasks within a number of slots, the oldest first; return those that need more, and the slots of those that
    start."""
    over: list[Task] = []
    before = budget
    failed: set[object] = set()
    for task in queued:
        if task.slots > budget:
            over.append(task)
            continue
        kind = likeness(task)
        reserved = None if kind in failed else nodes.place(task)
        if reserved is None:
            failed.add(kind)
            no_placement(nodes, result, task)
            continue
        result.starts.append(Start(reserved))
        budget -= task.slots
    return over, before - budget


def _over_share(result: PassResult, task: Task, offer: Offer, held: int, demand: int) -> None:
    job = task.job
    most = job.max_slots
    if most is not None and held + task.slots > most and offer.slots >= min(most, demand):
        text = f"job {job.key} holds {held} of its {most} slots, and the task needs {task.slots}"
        result.wait(task, MAX_SLOTS_REACHED, text)
        return
    numbers = f"fair share {offer.slots}, held {held}, demand {demand}; the task needs {slots_text(task.slots)}"
    code = SHARE_TOO_SMALL if offer.is_disabled or not held else OVER_FAIR_SHARE
    result.wait(task, code, f"job {job.key}: {numbers}")
