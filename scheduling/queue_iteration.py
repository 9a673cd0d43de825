"""Iteration over the queues of an action: the order of queues, of equivalence classes in a queue, and the share of
work.

The first queue decides its first equivalence class and is pushed back onto the heap. A class whose head is
refused is finished for this cycle, and all its groups are refused for the same reason.

An action that has used half of its share of the cycle's work divides the other half evenly: between tenants, then
between the queues of a tenant, then between its namespaces in a queue; those that used least come first, of equals
the first in the order of queues. When its share is used up the action ends, and the remaining classes are left to the
next cycle, which divides the whole share in this way; tenants, queues, namespaces and classes without a turn since
then come first.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from events.decision import Decision
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from projections.pod_groups import PodGroup
from projections.policy.policy import EVICTING
from projections.scheduling_queue import EquivalenceGroup, Order
from projections.tenants import is_labelled
from scheduling.quota.queue_order import PlainQueueHeap, QueueHeap, order_queues
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable, refusal, standings
from scheduling.work_budget import DECISION, EQUIVALENCE_GROUP, PLACEMENT

DecideHead: TypeAlias = Callable[[Session, EquivalenceGroup], Iterator[Decision]]
"""Decides for the head of an equivalence class. The class is finished if no decision moves the head on."""


QUANTA: Final = 64
"""Number of parts into which the work of an action is divided between tenants, queues and namespaces."""


LOOK_AFTER: Final = 4
"""Number of classes that were not requeued any more before all remaining queues are looked through."""


class SafeQueueHeap:
    """The heap of queues. If the queue order raises, the queues take turns, those with the fewest turns first.

    An error in the queue order thus costs the fairness between queues in this cycle, and not the whole cycle.
    """

    def __init__(self, session: Session, action: str, names: Collection[str]) -> None:
        self._session = session
        self._action = action
        self._served = dict.fromkeys(names, 0)
        """Remaining queue to the number of its turns."""
        self._queue_heap: PlainQueueHeap | QueueHeap | None = None
        self.errors: list[Exception] = []
        """Errors that are not recorded yet."""
        try:
            self._queue_heap = order_queues(
                session.cluster, names, session.fair, session.queue_order
            )
        except Exception as error:  # any bug
            self._fail(error)

    def first(self) -> str | None:
        """Return the first queue; None if none is left."""
        if self._queue_heap is not None:
            try:
                return self._queue_heap.first()
            except Exception as error:
                self._fail(error)
        return min(self._served, key=lambda name: (self._served[name], name), default=None)

    def add(self, name: str) -> None:
        """Add a queue again."""
        self._served.setdefault(name, 0)
        if self._queue_heap is not None:
            try:
                self._queue_heap.add(name)
            except Exception as error:
                self._fail(error)

    def drop(self, name: str) -> None:
        """Remove a queue."""
        self._served.pop(name, None)
        if self._queue_heap is not None:
            self._queue_heap.drop(name)

    def requeue(self, name: str, *, is_finished: bool) -> None:
        """Push a queue back after its turn, unless it is finished."""
        self._served[name] += 1
        if self._queue_heap is not None:
            try:
                if is_finished:
                    self._queue_heap.finish(name)
                else:
                    self._queue_heap.requeue(name)
            except Exception as error:
                self._fail(error)

    def failures(self) -> Iterator[Decision]:
        """Yield the records of the errors."""
        errors, self.errors = self.errors, []
        for error in errors:
            yield from self._session.action_failed(self._action, error, is_abandoned=False)

    def _fail(self, error: Exception) -> None:
        self._queue_heap = None
        self._session.drop_fair_tree()
        self.errors.append(error)


class _WaitingHeap:
    """The remaining equivalence classes of one queue, ordered by their heads.

    If work was deferred, classes that were not visited since come first.
    """

    def __init__(self, groups: list[EquivalenceGroup], visited_before: Mapping[str, int]) -> None:
        self._visited_before = visited_before
        self._groups: dict[int, EquivalenceGroup] = {}
        self._heap: list[tuple[int, Order, int]] = []
        for equivalence_group in groups:
            self.add(equivalence_group)

    def first(self) -> EquivalenceGroup | None:
        """Return the class with the first head. Stale heap entries are corrected on the way."""
        heap, visited_before = self._heap, self._visited_before
        while heap:
            visited, order, key = heap[0]
            equivalence_group = self._groups.get(key)
            if equivalence_group is None or not equivalence_group.jobs:
                heapq.heappop(heap)
                self._groups.pop(key, None)
                continue
            now, head = equivalence_group.jobs[0]
            visited_now = visited_before.get(head.key, 0)
            if now == order and visited_now == visited:
                return equivalence_group
            heapq.heapreplace(heap, (visited_now, now, key))
        return None

    def add(self, equivalence_group: EquivalenceGroup) -> None:
        """Add a class. If it is present already its position is corrected."""
        self._groups[id(equivalence_group)] = equivalence_group
        order, head = equivalence_group.jobs[0]
        place = self._visited_before.get(head.key, 0), order, id(equivalence_group)
        heapq.heappush(self._heap, place)

    def drop(self, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        self._groups.pop(id(equivalence_group), None)

    def has_any(self, candidates: Collection[int]) -> bool:
        """Return True if any of these classes, by identity, is left."""
        return any(one.jobs and key in candidates for key, one in self._groups.items())

    @property
    def groups(self) -> list[EquivalenceGroup]:
        """Return all classes."""
        return [
            equivalence_group
            for equivalence_group in self._groups.values()
            if equivalence_group.jobs
        ]


Spent: TypeAlias = tuple[int, int]
"""(quanta used in this cycle, cycle of the last turn before)"""


class _WorkShares:
    """Work used by those who share it, by name, and their order for the next turns."""

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._spent: dict[str, int] = {}
        self._last_turn_cycle: dict[str, int] = {}
        """Name to the cycle of its last turn since work was deferred."""
        self._below: dict[str, _WorkShares] = {}
        """Name to the work of those who share its part."""

    def spend(self, path: Sequence[str], units: int) -> None:
        """Add work that was used by a path of names: a tenant, its queue and its namespace."""
        name = path[0]
        self._spent[name] = self._spent.get(name, 0) + units
        if len(path) > 1:
            self.below(name).spend(path[1:], units)

    def record_turn(self, path: Sequence[str], cycle: int) -> None:
        """Record the cycle of a turn before this cycle."""
        name = path[0]
        self._last_turn_cycle[name] = max(cycle, self._last_turn_cycle.get(name, 0))
        if len(path) > 1:
            self.below(name).record_turn(path[1:], cycle)

    def below(self, name: str) -> "_WorkShares":
        """Return the shares of those who share the part of a name."""
        found = self._below.get(name)
        if found is None:
            found = self._below[name] = _WorkShares(self._quantum)
        return found

    def of(self, name: str) -> Spent:
        """Return the sort key of a name; smaller comes first."""
        return self._spent.get(name, 0) // self._quantum, self._last_turn_cycle.get(name, 0)


Path: TypeAlias = tuple[str, str, str]
"""Tenant, queue and namespace"""


class _FairHeap:
    """The remaining equivalence classes by tenants, which share the work evenly; below, by the queues of a tenant and by
    the namespaces of a tenant in a queue. Of those who used equally much, the one that was added first comes first."""

    def __init__(
        self,
        shares: _WorkShares,
        path_of: Callable[[EquivalenceGroup], Path],
        visited_before: Mapping[str, int],
        level: int = 0,
    ) -> None:
        self._shares = shares
        self._path_of = path_of
        self._visited_before = visited_before
        self._level = level
        self._below: dict[str, _FairHeap | _WaitingHeap] = {}
        self._ranks: dict[str, int] = {}
        self._heap: list[tuple[Spent, int, str]] = []
        self._places: dict[int, str] = {}
        """Class, by identity, to the name below which it is."""

    def first(self) -> EquivalenceGroup | None:
        """Return the next class."""
        while self._heap:
            spent, rank, name = self._heap[0]
            equivalence_group = self._below[name].first()
            if equivalence_group is None:
                heapq.heappop(self._heap)
                del self._below[name]
            elif self._shares.of(name) != spent:
                heapq.heapreplace(self._heap, (self._shares.of(name), rank, name))
            elif self._path_of(equivalence_group)[self._level] != name:
                self.add(equivalence_group)
            else:
                return equivalence_group
        return None

    def add(self, equivalence_group: EquivalenceGroup) -> None:
        """Add a class. If it is present already its position is corrected."""
        path = self._path_of(equivalence_group)
        name = path[self._level]
        if self._places.get(id(equivalence_group), name) != name:
            self.drop(equivalence_group)
        self._places[id(equivalence_group)] = name
        below = self._below.get(name)
        if below is None:
            # A tenant without a label has only one namespace.
            last_level = 2 if is_labelled(path[0]) else 1
            below = self._below[name] = self._heap_below(name, is_last=self._level == last_level)
            rank = self._ranks.setdefault(name, len(self._ranks))
            heapq.heappush(self._heap, (self._shares.of(name), rank, name))
        below.add(equivalence_group)

    def _heap_below(self, name: str, *, is_last: bool) -> "_FairHeap | _WaitingHeap":
        if is_last:
            return _WaitingHeap([], self._visited_before)
        shares = self._shares.below(name)
        return _FairHeap(shares, self._path_of, self._visited_before, self._level + 1)

    def drop(self, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        name = self._places.pop(id(equivalence_group), None)
        below = None if name is None else self._below.get(name)
        if below is not None:
            below.drop(equivalence_group)

    @property
    def groups(self) -> list[EquivalenceGroup]:
        """Return all classes."""
        return [
            equivalence_group
            for below in self._below.values()
            for equivalence_group in below.groups
        ]


class _QueueIteration:
    """One action that decides its equivalence classes within its share of the cycle's work."""

    def __init__(
        self, session: Session, action: str, groups: dict[str, list[EquivalenceGroup]]
    ) -> None:
        self._session = session
        self._action = action
        carried = session.state.carried_work
        self._visited_before = carried.evaluated.get(action, {})
        """Pod group to the cycle in which its class was last visited since work was deferred."""
        self._waiting = {
            name: _WaitingHeap(of, self._visited_before) for name, of in groups.items()
        }
        self._shares = _WorkShares(max(1, session.work.allowance // QUANTA))
        self._used: dict[Path, int] = {}
        """The work of those who share it, as long as it is not shared out evenly."""
        self._paths: dict[tuple[str, str], Path] = {}
        """Queue and namespace to the path of their classes."""
        self._fair_heap: _FairHeap | None = None
        """What is left, once it is shared out evenly; instead of `_waiting`."""
        self._waits = 0
        """Number of classes that had a turn and were not requeued any more."""
        self._next_look = LOOK_AFTER
        self._queue_heap = SafeQueueHeap(session, action, self._waiting)
        self.visited: dict[str, None] = {}
        """Keys of the pod groups whose classes were visited."""
        if any(action in batch.actions for batch in carried.batches):
            self._start_fair_sharing()

    def next(self) -> EquivalenceGroup | None:
        """Return the next class; None if none is left."""
        while self._fair_heap is None and (name := self._queue_heap.first()) is not None:
            equivalence_group = self._waiting[name].first()
            if equivalence_group is not None:
                return equivalence_group
            self._queue_heap.drop(name)
        return None if self._fair_heap is None else self._fair_heap.first()

    @property
    def has_failed(self) -> bool:
        """Return whether the order of queues raised errors that are not recorded yet."""
        return bool(self._queue_heap.errors)

    def failures(self) -> Iterator[Decision]:
        """Yield the records of errors in the order of queues."""
        return self._queue_heap.failures()

    def drop_all_that_wait(self) -> None:
        """Drop the queues of which no class is requeued any more. Called for each such class, it looks now and then.

        Only where nothing is released before their turn: by an action that evicts, or with a nomination.
        """
        self._waits += 1
        if self._waits < self._next_look or self._action in EVICTING:
            return
        table = self._session.cluster.nodes
        if any(table.nodes[name].nominated_pods for name in table.leaving):
            return
        self._next_look = 4 * self._waits
        candidates = self._session.candidates(self._action)
        if self._fair_heap is None:
            for name, waiting in self._waiting.items():
                if not waiting.has_any(candidates):
                    self._queue_heap.drop(name)
            return
        left = self._fair_heap.groups
        queues = dict.fromkeys(one.queue for one in left if id(one) in candidates)
        for one in left:
            if one.queue not in queues:
                self._fair_heap.drop(one)

    def end_turn(self, queue: str, path: Path, units: int) -> None:
        """Add the work of a turn. After half of the action's share the rest is shared out evenly."""
        if self._fair_heap is not None:
            self._shares.spend(path, units)
        else:
            self._used[path] = self._used.get(path, 0) + units
            is_finished = self._waiting[queue].first() is None
            self._queue_heap.requeue(queue, is_finished=is_finished)
            if self._session.work.is_half_used:
                self._start_fair_sharing()

    def add(self, queue: str, equivalence_group: EquivalenceGroup) -> None:
        """Add a class."""
        heap = self._waiting[queue] if self._fair_heap is None else self._fair_heap
        heap.add(equivalence_group)

    def drop(self, queue: str, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        heap = self._waiting[queue] if self._fair_heap is None else self._fair_heap
        heap.drop(equivalence_group)

    def left(self) -> list[EquivalenceGroup]:
        """Return the classes that were not visited and whose answers may have changed."""
        heaps = self._waiting.values() if self._fair_heap is None else (self._fair_heap,)
        return [
            equivalence_group
            for heap in heaps
            for equivalence_group in heap.groups
            if self._session.could_change(equivalence_group)
        ]

    def path_of(self, equivalence_group: EquivalenceGroup) -> Path:
        """Return the tenant, the queue and the namespace of the head of a class."""
        return self._path(equivalence_group.jobs[0][1].key, equivalence_group.queue)

    def _path(self, key: str, queue: str) -> Path:
        namespace = key.partition("/")[0]
        found = self._paths.get((queue, namespace))
        if found is None:
            tenant = self._session.cluster.tenants.tenant_of(namespace)
            found = self._paths[queue, namespace] = (tenant, queue, namespace)
        return found

    def _start_fair_sharing(self) -> None:
        for path, units in self._used.items():
            self._shares.spend(path, units)
        for key, cycle in self._visited_before.items():
            group = self._session.cluster.groups.get(key)
            if group is not None:
                self._shares.record_turn(self._path(key, group.queue), cycle)
        fair_heap = _FairHeap(self._shares, self.path_of, self._visited_before)
        while (name := self._queue_heap.first()) is not None:
            while (equivalence_group := self._waiting[name].first()) is not None:
                self._waiting[name].drop(equivalence_group)
                fair_heap.add(equivalence_group)
            self._queue_heap.drop(name)
        self._fair_heap = fair_heap


def iterate_queues(
    session: Session,
    action: str,
    decide_head: DecideHead,
    takes: Callable[[EquivalenceGroup], bool] | None = None,
) -> Iterator[Decision]:
    """Decide the equivalence classes of an action, with `takes` only some, until none is left or its share of the work is
    used up."""
    work = session.work
    work.open_action()
    groups = session.groups_to_decide(action)
    if takes is not None:
        taken = {name: [one for one in of if takes(one)] for name, of in groups.items()}
        groups = {name: of for name, of in taken.items() if of}
    if not groups:
        return
    iteration = _QueueIteration(session, action, groups)
    while (equivalence_group := iteration.next()) is not None:
        name = equivalence_group.queue
        if iteration.has_failed:
            yield from iteration.failures()
        if not session.could_change(equivalence_group):
            # Another class took what this one was requeued for.
            iteration.drop(name, equivalence_group)
            iteration.drop_all_that_wait()
            continue
        if work.is_used_up and iteration.visited:
            session.record_cut_short(
                action, name, equivalence_group.head, iteration.left(), iteration.visited
            )
            break
        begun, path = work.done, iteration.path_of(equivalence_group)
        head = equivalence_group.head
        iteration.visited[head.key] = None
        work.add(EQUIVALENCE_GROUP)
        before = head.fingerprint
        trial_position = session.trial_position()
        has_failed = False
        try:
            for decision in decide_head(session, equivalence_group):
                pods = getattr(decision, "placements", ()) or getattr(decision, "evictions", ())
                work.add(DECISION + PLACEMENT * len(pods))
                yield decision
        except Exception as error:  # any bug
            has_failed = True
            head = session.cluster.groups.get(head.key, head)
            yield from session.group_failed(head, action, error, trial_position)
        # A decision may have replaced the group by a version of its own (`PodGroupIndex.own`).
        head = session.cluster.groups.get(head.key, head)
        if has_failed and not equivalence_group.is_head(head):
            pass  # The next group in the class is decided.
        elif head.fingerprint == before or has_failed:
            iteration.drop(name, equivalence_group)
        else:
            for other in session.cluster.scheduling_queue.of(head):
                if other.action == action and other.queue == name:
                    session.mark_changed(other)
                    iteration.add(name, other)
        iteration.end_turn(name, path, work.done - begun)
    yield from iteration.failures()


def refuse_equivalence_group(
    equivalence_group: EquivalenceGroup,
    reason: Unschedulable,
    for_group: Callable[[PodGroup, Unschedulable], Unschedulable] | None = None,
) -> Iterator[PodGroupUnschedulable]:
    """Refuse all groups in a class that are not refused for the same reason already.

    `for_group` rewrites a refusal found at the head of the class for another group.
    """
    head = equivalence_group.head
    to_refuse = equivalence_group.refused_otherwise(standings(reason))
    for group in to_refuse:
        reason_of_group = reason if for_group is None or group is head else for_group(group, reason)
        yield refusal(group, equivalence_group.action, reason_of_group)
