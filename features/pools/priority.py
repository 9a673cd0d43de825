"""The decider `priority`: the most important task first, with preemption and backfill (determined 3).

Tasks with slots and tasks without are two classes: neither waits for the other, and neither preempts the other. What
victims of an earlier pass still hold counts as free for the task for which they were asked to exit, and for no other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from events.duration import format_duration
from features.pools.facts import PoolFacts, Release
from features.pools.outcome import (
    BEHIND_HIGHER_PRIORITY,
    INFEASIBLE,
    VICTIMS_NOT_PREEMPTIBLE,
    WAITING_FOR_PREEMPTION,
    PassResult,
    Released,
    Start,
    at_cap,
    is_feasible,
    no_placement,
    slots_text,
)
from features.pools.pool_capacity import Column
from features.pools.tasks import PoolTasks, Position, Task, task_order
from features.pools.working_nodes import ZERO_SLOT_LIMIT, Reserved, WorkingNodes
from projections.policy.pools import Pool

REMOVALS_MAX: Final = 20_000
"""Running tasks that are removed on trial in one pass; tasks that come after that are not helped in this pass."""


def priority_pass(
    nodes: WorkingNodes, tasks: PoolTasks, facts: PoolFacts, now_ns: int
) -> PassResult:
    """Return the decisions of one pass."""
    result = PassResult()
    for has_slots in (True, False):
        _ClassPass(nodes, tasks, facts, now_ns, result, has_slots=has_slots).run()
    return result


class _ClassPass:
    """The pass of one class of tasks."""

    def __init__(
        self,
        nodes: WorkingNodes,
        tasks: PoolTasks,
        facts: PoolFacts,
        now_ns: int,
        result: PassResult,
        *,
        has_slots: bool,
    ) -> None:
        self.nodes, self.pool, self.result = nodes, nodes.pool, result
        self.facts, self.now_ns = facts, now_ns
        self.queued = sorted(tasks.queued(has_slots=has_slots), key=task_order)
        self.running = sorted(tasks.running(has_slots=has_slots), key=task_order, reverse=True)
        """Least important first, and the newest first of equals: the order of victims."""
        self.capacity = nodes.capacity.slots if has_slots else 0
        self.promised: dict[str, Reserved] = {}
        """Name of a task to what is reserved for it, because pods were asked to exit in its favour."""
        self.asked_rank: int | None = None
        """Rank of the most important task in whose favour tasks are asked to exit."""
        self.first_failed: Task | None = None
        self.reserving: Task | None = None
        """The first task that failed, if it has waited for so long that nodes are reserved for it."""
        self.failed: set[object] = set()
        """Likenesses of tasks that have no placement; `_kind` tells apart those that may not use reserved nodes."""
        self.held_back: dict[object, bool] = {}
        """Likeness of tasks that have no placement to whether they have room on reserved nodes."""
        self.unhelped: set[object] = set()
        """Likenesses of tasks for which no victims were found."""
        self.removals = 0
        self.no_room_later: dict[object, int] = {}
        """Likeness of a task to the version of the nodes at which it had no room, even with those that are leaving gone."""
        self.victims = _Candidates(self.pool, [one for one in self.running if self._may_exit(one)])
        self.held_running = sum(one.slots for one in self.running)
        self.started: tuple[int, int, list[Position], list[int]] | None = None
        """Number and slots of the tasks that start, and of those of this level that may exit the positions, and the slots
        that those from each on have."""
        self.asked_for: dict[str, list[Release]] = {}
        """Pod group to what was asked in its favour."""
        for one in facts.releases.values():
            self.asked_for.setdefault(one.in_favour_of, []).append(one)
        self.held = {key: sum(one.slots for one in job.running) for key, job in tasks.jobs.items()}

    def run(self) -> None:
        """Decide level by level, the most important first."""
        self._promise()
        for rank, level in groupby(self.queued, key=lambda one: one.job.rank):
            self._decide_level(rank, list(level))

    # What earlier passes asked for

    def _promise(self) -> None:
        """Reserve, for each task in whose favour others were asked to exit, its nodes as they will be."""
        causes: dict[str, list[Task]] = {}
        for task in self.running:
            for pod in task.pods:
                release = self.facts.releases.get(pod.facts.uid)
                if release is not None and release.in_favour_of:
                    causes.setdefault(release.in_favour_of, []).append(task)
                    break
        leaving: dict[str, int] = {}
        for uid, release in self.facts.releases.items():
            if release.in_favour_of:
                slots = self.nodes.slots_of(self.nodes.cluster.pods[uid])
                leaving[release.in_favour_of] = leaving.get(release.in_favour_of, 0) + slots
        waiting = self._for_which_asked(leaving)
        for key, cause in {one.group.key: one for one in reversed(waiting)}.items():
            if victims := causes.get(key):
                self.nodes.remove(victims, cause)
        names = {task.name for task in waiting}
        for task in self.queued:
            if not names:
                break
            is_asked_for = task.name in names
            names.discard(task.name)
            reserved = self._placed_now(task)
            if reserved is None and is_asked_for and not self._is_over_cap(task):
                reserved = self._place(task, later=True)
            if reserved is not None:
                self._count(task)
                self.promised[task.name] = reserved
                if reserved.is_later and self.asked_rank is None:
                    self.asked_rank = task.job.rank

    def _placed_now(self, task: Task) -> Reserved | None:
        """Place a task on trial where there is room now, if it may start: those that are ahead of a task which waits for
        pods to exit have the first choice of that room."""
        kind = self._kind(task)
        if kind in self.failed or self._is_over_cap(task):
            return None
        if not is_feasible(self.nodes, self.result, task, self.capacity):
            return None
        reserved = self._place(task)
        if reserved is None:
            self.failed.add(kind)
            self.nodes.share_reason(task)
            self._reserve(task)
        return reserved

    def _for_which_asked(self, leaving: Mapping[str, int]) -> list[Task]:
        """Return the queued tasks for which slots are about to be free: of each pod group the first ones, as many as need
        these slots."""
        left = dict(leaving)
        found: list[Task] = []
        for task in self.queued:
            slots = left.get(task.group.key)
            if slots is None or (slots <= 0 and task.slots):
                continue
            left[task.group.key] = slots - task.slots
            found.append(task)
        return found

    # Levels

    def _decide_level(self, rank: int, level: list[Task]) -> None:
        placed: list[Reserved] = []
        failed: list[Task] = []
        is_late = self.first_failed is not None
        for task in level:
            promised = self.promised.get(task.name)
            if promised is None and self._is_over_cap(task):
                continue
            if promised is not None:
                if promised.is_later:
                    self._fail(task)
                    self._wait_for_victims(task)
                else:
                    placed.append(promised)
                continue
            if not is_feasible(self.nodes, self.result, task, self.capacity):
                is_blocking = self.pool.preempts or self.pool.infeasible_blocks
                if is_blocking and self.result.waiting[task.name].code == INFEASIBLE:
                    self._fail(task)
                continue
            kind = self._kind(task)
            reserved = None if kind in self.failed else self._place(task)
            if reserved is not None:
                self._count(task)
                placed.append(reserved)
                continue
            self.failed.add(kind)
            if self._is_held_back(task, kind):
                self._wait_behind(task, "nodes that are reserved have room for it")
                continue
            no_placement(self.nodes, self.result, task)
            if task.reason is not None and task.reason.code != ZERO_SLOT_LIMIT:
                continue  # Its queue refuses it: it holds up no other queue, and victims would not help it.
            failed.append(task)
            self._fail(task)
        is_blocked = self.asked_rank is not None and self.asked_rank < rank
        for reserved in placed:
            self._start(reserved, is_late=is_late, is_blocked=is_blocked)
        if self.pool.preempts:
            for task in failed:
                self._preempt(task)

    def _fail(self, task: Task) -> None:
        if self.first_failed is None:
            self.first_failed = task
        self._reserve(task)

    # Reservations (determined 3.8)

    def _reserve(self, task: Task) -> None:
        """Reserve nodes for a task that failed, if it is the first one and has waited for long."""
        after_ns = self.pool.reserve_after_ns
        if self.reserving is None and after_ns and self.now_ns - task.asked_ns >= after_ns:
            first = self.first_failed
            if first is None or first is task:
                self.reserving = task
                self.nodes.reserve(task)

    def _may_use_reserved(self, task: Task) -> bool:
        """Return whether a task may use reserved nodes: it can be asked to exit again, or they are reserved for it."""
        if self.reserving is None or task is self.reserving:
            return True
        return task.is_preemptible and self.pool.preempts

    def _kind(self, task: Task) -> object:
        """Return a key that is equal for tasks of which all or none have a placement."""
        return task.likeness, self._may_use_reserved(task)

    def _place(self, task: Task, *, later: bool = False) -> Reserved | None:
        """Place a task on trial, on nodes that it may use."""
        if self._may_use_reserved(task):
            return self.nodes.place(task, later=later)
        return self.nodes.place_outside_reservation(task, later=later)

    def _is_held_back(self, task: Task, kind: object) -> bool:
        """Return whether a task that has no placement has room on reserved nodes."""
        if self._may_use_reserved(task):
            return False
        if kind not in self.held_back:
            reserved = self.nodes.place(task)
            self.held_back[kind] = reserved is not None
            if reserved is not None:
                self.nodes.undo(reserved)
        return self.held_back[kind]

    def _is_over_cap(self, task: Task) -> bool:
        most = task.job.max_slots
        held = self.held[task.job.key]
        if most is None or held + task.slots <= most:
            return False
        at_cap(self.result, task, held)
        return True

    def _count(self, task: Task) -> None:
        self.held[task.job.key] += task.slots

    def _start(self, reserved: Reserved, *, is_late: bool, is_blocked: bool) -> None:
        """Start a placed task, unless a more important one is in the way."""
        task = reserved.task
        is_backfill = is_late and self.pool.preempts and task.is_preemptible
        if is_blocked or (is_late and not is_backfill):
            is_pinned = is_late and self.pool.preempts and not is_blocked
            text = ", and it could not be preempted for that one" if is_pinned else ""
            self._wait_behind(task, "nodes have room for it", text)
            return
        self.result.starts.append(Start(reserved, is_backfill))

    def _wait_behind(self, task: Task, room: str, why: str = "") -> None:
        ahead = self.first_failed
        name = (
            "a more important task"
            if ahead is None
            else f"{ahead.name} (priority {ahead.job.priority})"
        )
        self.result.wait(task, BEHIND_HIGHER_PRIORITY, f"{room}, but {name} waits{why}")

    # Preemption

    def _wait_for_victims(self, task: Task) -> None:
        victims = self.asked_for[task.group.key]
        names = ", ".join(sorted(one.pod for one in victims)[:5])
        left = format_duration(max(0, max(one.deadline_ns for one in victims) - self.now_ns))
        text = f"waits for pods that were asked to exit, at most {left}: {len(victims)} of them, {names}"
        self.result.wait(task, WAITING_FOR_PREEMPTION, text)

    def _preempt(self, task: Task) -> None:
        """Choose victims for a task that has no placement, or use what earlier victims made free.

        Those that were helped before it may have used up the cap of its job: it may not start then, and gets none.
        """
        if self._is_over_cap(task):
            return
        kind = self._kind(task)
        if self.result.releases or self.asked_rank is not None:
            reserved = self._place_later(task, kind)
            if reserved is not None:
                self._count(task)
                self._ask(task)
                text = "waits until tasks have exited that were asked to in favour of others"
                self.result.wait(task, WAITING_FOR_PREEMPTION, text)
                return
        if kind in self.unhelped or self.removals >= REMOVALS_MAX:
            self._explain_unhelped(task)
            return
        victims = self._victims(task)
        if not victims:
            self.unhelped.add(kind)
            self._explain_unhelped(task)
            return
        self._count(task)
        self._ask(task)
        names = ", ".join(one.name for one in victims[:5])
        text = f"waits for less important tasks that are asked to exit: {len(victims)} of them, {names}"
        self.result.wait(task, WAITING_FOR_PREEMPTION, text)
        self.victims.drop(victims)
        for victim in victims:
            text = (
                f"{task.name} (priority {task.job.priority}) needs {slots_text(task.slots)}; this task has priority"
                f" {victim.job.priority}"
            )
            self.result.releases.append(Released(victim, "PREEMPTED", text, task))

    def _ask(self, task: Task) -> None:
        rank = task.job.rank
        if self.asked_rank is None or rank < self.asked_rank:
            self.asked_rank = rank

    def _explain_unhelped(self, task: Task) -> None:
        if task.reason is not None or not task.slots:
            return
        before = self.victims.before(task)
        held = self.held_running - self.victims.slots_of_first(before) + self._held_by_started(task)
        if self.capacity - held < task.slots:
            text = (
                f"it needs {slots_text(task.slots)}; {held} of {self.capacity} are held by tasks that cannot be"
                f" preempted or are as important"
            )
            self.result.wait(task, VICTIMS_NOT_PREEMPTIBLE, text)

    def _held_by_started(self, task: Task) -> int:
        """Return the slots of tasks that start in this pass and could not be asked to exit in favour of a task. Less
        important ones than the level of the task have not started yet."""
        starts = self.result.starts
        if self.started is None or self.started[0] != len(starts):
            held, found = 0, list[tuple[Position, int]]()
            for one in (start.reserved.task for start in starts):
                held += one.slots
                if one.job.rank == task.job.rank and self._may_exit(one):
                    found.append((one.job.position, one.slots))
            found.sort()
            sums = [0]
            for _, slots in reversed(found):
                sums.append(sums[-1] + slots)
            self.started = len(starts), held, [position for position, _ in found], sums[::-1]
        _, held, positions, after = self.started
        if not self.pool.preempts_same_level:
            return held
        return held - after[bisect_right(positions, task.job.position)]

    def _place_later(self, task: Task, kind: object) -> Reserved | None:
        """Place a task, with the pods that are leaving gone, unless there was no room for its like and nothing changed."""
        version = self.nodes.trial.version
        if self.no_room_later.get(kind) == version:
            return None
        reserved = self._place(task, later=True)
        if reserved is None:
            self.no_room_later[kind] = version
        return reserved

    def _victims(self, task: Task) -> list[Task]:
        """Return running tasks that make room for a task, which is then placed on trial; none if all of them do not."""
        free = self.nodes.free_slots(later=True)
        count = self.victims.before(task)
        if not self._could_be_helped(task, free, count):
            return []
        if task.slots and len(task.pods) == 1 and self.pool.prunes_victims:
            return self._victims_on_one_node(task, free, count)
        taken: list[Task] = []
        reserved: Reserved | None = None
        freed = int(free[self.nodes.in_pool].sum())
        before, least = self.nodes.trial.mark(), self.nodes.least_useful(task)
        self.nodes.remove((), task)
        for one in self.victims.first(count):
            self.removals += 1
            self.nodes.evict(one)
            taken.append(one)
            freed += one.slots
            if freed < task.slots or self._cannot_fit(least, one):
                continue
            reserved = self._place(task, later=True)
            if reserved is not None:
                break
        if reserved is None:
            self.nodes.trial.restore(before)
            return []
        return self._pruned(task, taken, reserved) if self.pool.prunes_victims else taken

    def _victims_on_one_node(self, task: Task, free: Column, count: int) -> list[Task]:
        """Return the victims for a task of one pod: all candidates up to the first with which it has a node are removed, and
        those that are not needed put back. Candidates on nodes that have too few slots even then need not be tried."""
        for taken in self.victims.until_free(self.nodes, count, free, task.slots):
            self.removals += len(taken)
            before = self.nodes.trial.mark()
            self.nodes.remove(taken, task)
            reserved = self._place(task, later=True)
            if reserved is not None:
                return self._pruned(task, taken, reserved)
            self.nodes.trial.restore(before)
            if self.removals >= REMOVALS_MAX:
                break
        return []

    def _could_be_helped(self, task: Task, free: Column, count: int) -> bool:
        """Return whether the slots would be enough if the first candidates were gone: on one node for a task of one pod."""
        if not task.slots or not self.victims.has_any(count):
            return self.victims.has_any(count)
        if len(task.pods) > 1:
            total = int(free[self.nodes.in_pool].sum())
            return total + self.victims.slots_of_first(count) >= task.slots
        on_node = np.where(self.nodes.in_pool, free, 0)
        self.victims.add_slots(self.nodes, count, on_node)
        return bool(on_node.max(initial=0) >= task.slots)

    def _cannot_fit(self, least: Column | None, freed: Task) -> bool:
        """Return whether no node of a removed task has as many free slots as a node needs (`least_useful`)."""
        if least is None:
            return False
        slots = self.nodes.free_slots(later=True)
        table = self.nodes.table.nodes
        found = [table[pod.node].slot for pod in freed.pods]
        return all(slots[slot] < least[slot] for slot in found if slot >= 0)

    def _pruned(self, task: Task, taken: list[Task], reserved: Reserved) -> list[Task]:
        """Return the victims without those that are not needed: the most important and oldest are put back first."""
        self.nodes.undo(reserved)
        least = self.nodes.least_useful(task)
        useless = {one.name for one in taken if self._cannot_fit(least, one)}
        for one in taken:
            if one.name in useless:
                self.nodes.spare(one)
        without = self._place(task, later=True)
        assert without is not None, "what the others made free is no part of its nodes"
        reserved = without
        kept = [one for one in taken if one.name not in useless]
        for one in sorted(kept, key=task_order):
            self.nodes.undo(reserved)
            before = self.nodes.trial.mark()
            self.nodes.spare(one)
            again = self._place(task, later=True)
            if again is not None:
                kept.remove(one)
                reserved = again
                continue
            self.nodes.trial.restore(before)
            found = self._place(task, later=True)
            assert found is not None, "the victims made room for it before"
            reserved = found
        return kept

    def _may_exit(self, one: Task) -> bool:
        """Return whether a task may be asked to exit in favour of a more important one."""
        if one.is_releasing or one.is_elsewhere or not one.is_preemptible:
            return False
        least = self.pool.min_run_ns
        return not (least and self._runs_since(one) > self.now_ns - least)

    def _runs_since(self, task: Task) -> int:
        started: Mapping[str, int] = self.facts.started
        return max((started.get(pod.facts.uid, 0) for pod in task.pods), default=0)


class _Candidates:
    """Running tasks that may be asked to exit, least important first. Those that may exit in favour of a task are the first
    ones, whichever the task is."""

    def __init__(self, pool: Pool, tasks: Sequence[Task]) -> None:
        self.pool, self.tasks = pool, tasks
        self._keys = [(-one.job.rank, -one.job.position) for one in tasks]
        self._slots = np.array([one.slots for one in tasks], dtype=np.int64)
        self._is_left = np.ones(len(tasks), dtype=np.bool_)
        self._places = {one.name: place for place, one in enumerate(tasks)}
        self._sums: tuple[Column, Column] | None = None
        self._pods: tuple[Column, Column, Column] | None = None

    def before(self, task: Task) -> int:
        """Return how many of the first ones may exit in favour of a task."""
        job = task.job
        if self.pool.preempts_same_level:
            return bisect_left(self._keys, (-job.rank, -job.position))
        return bisect_left(self._keys, -job.rank, key=_rank_of)

    def first(self, count: int) -> Iterator[Task]:
        """Yield those of the first ones that are not dropped."""
        for place in np.flatnonzero(self._is_left[:count]).tolist():
            yield self.tasks[place]

    def drop(self, tasks: Iterable[Task]) -> None:
        """Remove tasks: they are asked to exit."""
        for one in tasks:
            self._is_left[self._places[one.name]] = False
        self._sums = None

    def has_any(self, count: int) -> bool:
        """Return whether one of the first ones is left."""
        return bool(self._counted()[0][count])

    def slots_of_first(self, count: int) -> int:
        """Return the slots of those of the first ones that are left."""
        return int(self._counted()[1][count])

    def add_slots(self, nodes: WorkingNodes, count: int, on_node: Column) -> None:
        """Add the slots of those of the first ones that are left to those of their nodes."""
        places, slots, amounts = self._pods_on(nodes)
        end = int(np.searchsorted(places, count))
        np.add.at(on_node, slots[:end], amounts[:end] * self._is_left[places[:end]])

    def until_free(
        self, nodes: WorkingNodes, count: int, free: Column, need: int
    ) -> Iterator[list[Task]]:
        """Yield, for each of the first ones with which one of its nodes has so many slots free if all up to it are gone, the ones up
        to it on its nodes. `free` is what is free with all of them there."""
        places, slots, amounts = self._pods_on(nodes)
        end = int(np.searchsorted(places, count))
        left = np.flatnonzero(self._is_left[places[:end]])
        places, slots, amounts = places[left], slots[left], amounts[left]
        by_node = np.argsort(slots, kind="stable")
        sums = np.cumsum(amounts[by_node])
        first = np.searchsorted(slots[by_node], slots)
        freed = np.empty_like(sums)
        freed[by_node] = sums
        before = sums[first] - amounts[by_node][first]
        for place in np.unique(places[free[slots] + freed - before >= need]).tolist():
            there = dict.fromkeys(slots[places == place].tolist())
            up_to = places[(places <= place) & np.isin(slots, list(there))]
            yield [self.tasks[one] for one in np.unique(up_to).tolist()]

    def _pods_on(self, nodes: WorkingNodes) -> tuple[Column, Column, Column]:
        """Return the place of the task, the slot of the node, and the slots of each pod on a node."""
        if self._pods is None:
            table = nodes.table.nodes
            found = [
                (place, table[pod.node].slot, nodes.slots_of(pod))
                for place, one in enumerate(self.tasks)
                for pod in one.pods
                if table[pod.node].slot >= 0
            ]
            columns = np.array(found, dtype=np.int64).reshape(-1, 3)
            self._pods = columns[:, 0], columns[:, 1], columns[:, 2]
        return self._pods

    def _counted(self) -> tuple[Column, Column]:
        """Return how many of the first 0, 1, ... are left, and their slots."""
        if self._sums is None:
            left = self._is_left.astype(np.int64)
            start = np.zeros(1, dtype=np.int64)
            self._sums = (
                np.concatenate([start, np.cumsum(left)]),
                np.concatenate([start, np.cumsum(left * self._slots)]),
            )
        return self._sums


def _rank_of(key: tuple[int, Position]) -> int:
    return key[0]
