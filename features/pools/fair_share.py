"""The decider `fair_share`: each job gets a part of the slots, by its weight and its demand (determined 2)."""

from typing import Final

import numpy as np
from msgspec import Struct, field

from features.pools.fair_share_offers import ShareBasis, ShareGroup, offers
from features.pools.outcome import (
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
from features.pools.pool_capacity import Nodes, Region, regions
from features.pools.tasks import Job, PoolTasks, Task
from features.pools.working_nodes import WorkingNodes


def fair_share_pass(nodes: WorkingNodes, tasks: PoolTasks) -> PassResult:
    """Return the decisions of one pass: a job below its offer starts tasks, a job above it releases some.

    Nodes that not all jobs may use (taints, selectors) are shared by those that may, before the others: see `_allot`.
    """
    result = PassResult()
    capacity = nodes.capacity.slots
    _start_aux(nodes, tasks, result)
    shares: list[_Share] = []
    for job in tasks.jobs.values():
        feasible = [
            one
            for one in job.queued
            if one.slots
            and not _is_over_cap(result, one)
            and is_feasible(nodes, result, one, capacity)
        ]
        # What is asked to exit because it is on nodes of another pool is in no share.
        running = [
            one
            for one in job.running
            if one.slots and not (one.is_elsewhere and one.is_preemptible)
        ]
        if feasible or running:
            shares.append(_Share(job, feasible, running))
    found = _regions(nodes, shares)
    for share in shares:
        share.place(nodes, found)
    _protect(shares, found)
    for share in shares:
        share.count()
    _allot(nodes, shares, found)
    usable, total = sum(one.slots for one in found), int(nodes.total_slots()[nodes.in_pool].sum())
    note = (
        ""
        if usable == total or not found
        else f"; waiting tasks could use {usable} of the {total} slots of the pool"
    )
    for share in sorted(shares, key=lambda one: (one.demand, one.age, one.job.key)):
        is_releasing = _release(nodes, share, result)
        held = sum(one.slots for one in share.job.running)
        left, started = _start(nodes, share, found, result, may_start=not is_releasing)
        for task in left:
            _over_share(result, task, share, held + started, note)
    return result


CLOSED: Final = -1
"""The region of nodes of no region: cordoned, not ready for long, of another pool, or open to no waiting task."""


class _Share(Struct):
    """The part of a job with slots in one pass. Amounts are slots; those by region are by its index, or `CLOSED`."""

    job: Job
    queued: list[Task]
    running: list[Task]
    rows: list[int] = field(default_factory=list)
    """Of each waiting task, the row of the nodes that it may use."""
    waiting: dict[int, list[int]] = field(default_factory=dict)
    """Row to the slots of each of its waiting tasks."""
    least: dict[int, int] = field(default_factory=dict)
    """Region to the slots of the smallest preemptible task there."""
    held: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, int] = field(default_factory=dict)
    """Of tasks that are protected."""
    protected: dict[str, None] = field(default_factory=dict)
    """Names of the running tasks that are not released: those that are not preemptible, as far as the job's share goes."""
    regions_of: dict[str, dict[int, int]] = field(default_factory=dict)
    """Name of a running task to what it holds in each region."""
    offers: dict[int, int] = field(default_factory=dict)
    demand: int = 0
    age: tuple[int | str, ...] = ()
    is_disabled: bool = False

    @property
    def offer(self) -> int:
        """Return the slots that the job may hold."""
        return sum(self.offers.values())

    def place(self, nodes: WorkingNodes, found: list[Region]) -> None:
        """Find what each running task holds in each region."""
        for task in self.running:
            self.regions_of[task.name] = nodes.slots_by_region(task, found)

    def protect(self, most: int) -> None:
        """Protect the tasks that are not preemptible, the oldest first, up to a number of slots; pods that belong to their
        nodes always."""
        held = 0
        for task in self.running:
            if task.is_preemptible:
                continue
            held += task.slots
            if held <= most or task.belongs_to_nodes:
                self.protected[task.name] = None

    def release_order(self, *, is_oldest_first: bool) -> list[Task]:
        """Return the tasks that may be released in the order in which they are: preemptible ones first, then those of the
        others that are beyond the share of the job, the newest first."""
        preemptible = [one for one in self.running if one.is_preemptible]
        others = [
            one for one in self.running if not one.is_preemptible and one.name not in self.protected
        ]
        return [*(preemptible if is_oldest_first else preemptible[::-1]), *others[::-1]]

    def count(self) -> None:
        """Count demand, age, and what is held in each region."""
        for task in self.running:
            for at, slots in self.regions_of[task.name].items():
                self.held[at] = self.held.get(at, 0) + slots
                if task.name in self.protected:
                    self.fixed[at] = self.fixed.get(at, 0) + slots
                elif task.slots < self.least.get(at, task.slots + 1):
                    self.least[at] = task.slots
        for row, task in zip(self.rows, self.queued, strict=True):
            self.waiting.setdefault(row, []).append(task.slots)
        demand = sum(one.slots for one in (*self.queued, *self.running))
        if self.job.max_slots is not None:
            demand = max(sum(self.fixed.values()), min(demand, self.job.max_slots))
        self.demand = demand
        oldest = min(one.age for one in (*self.queued, *self.running))
        self.age = oldest[0], oldest[2], self.job.name

    def parts(self, task: Task) -> dict[int, int]:
        """Return what a running task holds in each region."""
        return self.regions_of[task.name]

    def usable(self, region: Region) -> list[int]:
        """Return the slots of the waiting tasks that may use the nodes of a region."""
        return [one for row, found in self.waiting.items() if row in region.rows for one in found]


def _regions(nodes: WorkingNodes, shares: list[_Share]) -> list[Region]:
    """Return the regions of the nodes that waiting tasks may use."""
    row_of: dict[bytes, int] = {}
    rows: list[Nodes] = []
    for share in shares:
        known: dict[object, int] = {}
        for task in share.queued:
            kind = task.likeness
            if kind not in known:
                row = nodes.nodes_for(task)
                known[kind] = row_of.setdefault(row.tobytes(), len(rows))
                if known[kind] == len(rows):
                    rows.append(row)
            share.rows.append(known[kind])
    return regions(nodes.capacity, rows)


def _protect(shares: list[_Share], found: list[Region]) -> None:
    """Protect what is not preemptible, of each job up to its share of the slots by its weight alone: a job that says that it
    is not preemptible keeps no more of a pool than it would get."""
    if all(one.is_preemptible for share in shares for one in share.running):
        return
    closed = sum(
        slots
        for share in shares
        for parts in share.regions_of.values()
        for at, slots in parts.items()
        if at == CLOSED
    )
    groups = [
        ShareGroup(
            key=share.job.key,
            weight_numerator=share.job.weight[0],
            weight_denominator=share.job.weight[1],
            demand=sum(one.slots for one in (*share.queued, *share.running)),
            fixed=0,
            age=(share.job.submitted_ns, share.job.name),
            smallest_queued=0,
        )
        for share in shares
    ]
    is_waiting = any(share.queued for share in shares)
    answer = offers(sum(one.slots for one in found) + closed, groups, "equal")
    for share in shares:
        held = sum(one.slots for one in share.running)
        share.protect(answer[share.job.key].slots if is_waiting else held)


def _allot(nodes: WorkingNodes, shares: list[_Share], found: list[Region]) -> None:
    """Offer slots to the jobs, region after region, those first that the fewest may use.

    What a job is offered in one region is charged to its share in the next ones, as slots are that cannot be preempted. So
    nodes that only one job may use change what that job takes of the others, and not what these have to share. On nodes
    that no waiting task may use, each job is offered what it holds there. If all may use all nodes, this is one sharing.
    """
    basis: ShareBasis = "demand" if nodes.pool.share_basis == "demand" else "equal"
    for share in shares:
        share.offers[CLOSED] = _demand(share, CLOSED, 0)
    for at, region in enumerate(found):
        groups: list[ShareGroup] = []
        for share in shares:
            usable = share.usable(region)
            held = share.held.get(at, 0)
            if not usable and not held:
                continue
            granted = share.offer
            before = sum(max(0, share.offers[one] - share.held.get(one, 0)) for one in share.offers)
            waiting = sum(one.slots for one in share.queued) - before
            demand = _demand(share, at, min(waiting, sum(usable)))
            fixed = granted + share.fixed.get(at, 0)
            fitting = [one for one in usable if one <= region.slots]
            # A job that can keep a running task is not disabled, or it would release it and start it again for ever.
            smallest = min(min(fitting), share.least.get(at, fitting[0])) if fitting else 0
            groups.append(
                ShareGroup(
                    key=share.job.key,
                    weight_numerator=share.job.weight[0],
                    weight_denominator=share.job.weight[1],
                    demand=granted + demand,
                    fixed=fixed,
                    age=share.age,
                    smallest_queued=smallest,
                )
            )
        members = {one.key for one in groups}
        charged = sum(one.offer for one in shares if one.job.key in members)
        answer = offers(region.slots + charged, groups, basis)
        for share in shares:
            if share.job.key in answer:
                offer = answer[share.job.key]
                share.offers[at] = offer.slots - share.offer
                share.is_disabled |= offer.is_disabled


def _demand(share: _Share, region: int, waiting: int) -> int:
    """Return what a job asks for in a region beside its offers in others: at most what its demand leaves, and at least what
    cannot be preempted there."""
    later = sum(
        slots for at, slots in share.fixed.items() if at != region and at not in share.offers
    )
    left = share.demand - share.offer - later
    return max(share.fixed.get(region, 0), min(share.held.get(region, 0) + waiting, left))


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


def _release(nodes: WorkingNodes, share: _Share, result: PassResult) -> bool:
    """Release tasks until the job holds no more than its offer, in each region; return whether any is. Those that are asked
    already count first."""
    left = {at: held - share.offers.get(at, 0) for at, held in share.held.items()}
    if all(slots <= 0 for slots in left.values()):
        return False
    for task in share.running:
        if task.is_releasing:
            for at, slots in share.parts(task).items():
                left[at] -= slots
    is_releasing = False
    held = sum(one.slots for one in share.job.running)
    for task in share.release_order(is_oldest_first=nodes.pool.takes_oldest_first):
        if all(slots <= 0 for slots in left.values()):
            break
        parts = share.parts(task)
        if task.is_releasing or all(left[at] <= 0 for at in parts):
            continue
        for at, slots in parts.items():
            left[at] -= slots
        text = f"job {share.job.key} holds {slots_text(held)}, and its fair share is {share.offer}"
        if not task.is_preemptible:
            text += "; tasks that are not preemptible are kept within the share by weight alone"
        result.releases.append(Released(task, OVER_FAIR_SHARE, text))
        is_releasing = True
    return is_releasing


def _start(
    nodes: WorkingNodes,
    share: _Share,
    found: list[Region],
    result: PassResult,
    *,
    may_start: bool,
) -> tuple[list[Task], int]:
    """Start tasks within the offers of the regions, the oldest first; return those that need more, and the slots of those
    that start."""
    budgets = [
        max(0, share.offers.get(at, 0) - share.held.get(at, 0)) if may_start else 0
        for at in range(len(found))
    ]
    if not any(budgets):
        return share.queued, 0
    over: list[Task] = []
    started = 0
    failed: set[object] = set()
    places = {row: [at for at, one in enumerate(found) if row in one.rows] for row in share.waiting}
    for row, task in zip(share.rows, share.queued, strict=True):
        usable = places[row]
        if task.slots > sum(budgets[at] for at in usable):
            over.append(task)
            continue
        enough: list[tuple[int, ...]] = [(at,) for at in usable if budgets[at] >= task.slots]
        if not enough and len(task.pods) == 1:
            over.append(task)
            continue
        if len(task.pods) > 1 and len(usable) > 1:
            enough.append(tuple(usable))  # A gang may be on nodes of several regions.
        reserved = None
        for choice in enough:
            kind = task.likeness, choice
            if kind in failed:
                continue
            within: Nodes = np.logical_or.reduce([found[at].nodes for at in choice])
            reserved = nodes.place(task, within=within)
            if reserved is not None:
                break
            failed.add(kind)
        if reserved is None:
            no_placement(nodes, result, task)
            continue
        result.starts.append(Start(reserved))
        started += task.slots
        for placed in reserved.placed:
            for at in usable:
                if found[at].nodes[placed.node.slot]:
                    budgets[at] -= nodes.slots_of(placed.pod)
    return over, started


def _over_share(result: PassResult, task: Task, share: _Share, held: int, note: str) -> None:
    job, offer, demand = share.job, share.offer, share.demand
    most = job.max_slots
    if most is not None and held + task.slots > most and offer >= min(most, demand):
        text = f"job {job.key} holds {held} of its {most} slots, and the task needs {task.slots}"
        result.wait(task, MAX_SLOTS_REACHED, text)
        return
    numbers = (
        f"fair share {offer}, held {held}, demand {demand}; the task needs {slots_text(task.slots)}"
    )
    code = SHARE_TOO_SMALL if share.is_disabled or not held else OVER_FAIR_SHARE
    result.wait(task, code, f"job {job.key}: {numbers}{note}")
