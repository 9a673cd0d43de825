"""Iteration over the queues of an action: the order of queues, of equivalence classes in a queue, and the share of
work.

The first queue decides its first equivalence class and is pushed back onto the heap. A class whose head is
refused is finished for this cycle, and all its groups are refused for the same reason.

An action that has used half of its share of the cycle's work divides the other half evenly, first between queues
and then between the namespaces of a queue; those that used least come first. When its share is used up the action
ends, and the remaining classes are left to the next cycle, which divides the whole share in this way; queues,
namespaces and classes without a turn since then come first.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeAlias

from events.decision import Decision
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from projections.pod_groups import PodGroup
from projections.policy import EVICTING
from projections.scheduling_queue import EquivalenceGroup, Order
from scheduling.quota.queue_order import QueueHeap
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable, refusal, standings
from scheduling.work_budget import DECISION, EQUIVALENCE_GROUP, PLACEMENT

DecideHead: TypeAlias = Callable[[Session, EquivalenceGroup], Iterator[Decision]]
"""Decides for the head of an equivalence class. The class is finished if no decision moves the head on."""


QUANTA: Final = 64
"""Number of parts into which the work of an action is divided between queues, and between namespaces."""


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
        self._queue_heap: QueueHeap | None = None
        self._errors: list[Exception] = []
        try:
            self._queue_heap = QueueHeap(session.cluster, names, session.fair, session.queue_order)
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
        errors, self._errors = self._errors, []
        for error in errors:
            yield from self._session.action_failed(self._action, error, is_abandoned=False)

    def _fail(self, error: Exception) -> None:
        self._queue_heap = None
        self._session.drop_fair_tree()
        self._errors.append(error)


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
        while self._heap:
            *place, key = self._heap[0]
            equivalence_group = self._groups.get(key)
            if equivalence_group is None or not equivalence_group.jobs:
                heapq.heappop(self._heap)
                self._groups.pop(key, None)
            elif list(self._place(equivalence_group)) != place:
                heapq.heapreplace(self._heap, (*self._place(equivalence_group), key))
            else:
                return equivalence_group
        return None

    def add(self, equivalence_group: EquivalenceGroup) -> None:
        """Add a class. If it is present already its position is corrected."""
        self._groups[id(equivalence_group)] = equivalence_group
        heapq.heappush(self._heap, (*self._place(equivalence_group), id(equivalence_group)))

    def drop(self, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        self._groups.pop(id(equivalence_group), None)

    def has_any(self, candidates: Collection[int]) -> bool:
        """Return True if any of these classes, by identity, is left."""
        return any(one.jobs and key in candidates for key, one in self._groups.items())

    def _place(self, equivalence_group: EquivalenceGroup) -> tuple[int, Order]:
        order, head = equivalence_group.jobs[0]
        return self._visited_before.get(head.key, 0), order

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
    """Work used by queues, or by the namespaces of one queue, and their order for the next turns."""

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._spent: dict[str, int] = {}
        self.last_turn_cycle: dict[str, int] = {}
        """Name to the cycle of its last turn since work was deferred."""

    def spend(self, name: str, units: int) -> None:
        """Add work that was used."""
        self._spent[name] = self._spent.get(name, 0) + units

    def of(self, name: str) -> Spent:
        """Return the sort key of a name; smaller comes first."""
        return self._spent.get(name, 0) // self._quantum, self.last_turn_cycle.get(name, 0)


class _FairHeap:
    """The remaining equivalence classes of one queue by the namespaces of their heads, which share its work evenly."""

    def __init__(
        self, waiting: _WaitingHeap, shares: _WorkShares, visited_before: Mapping[str, int]
    ) -> None:
        self._shares = shares
        self._visited_before = visited_before
        self._by_namespace: dict[str, _WaitingHeap] = {}
        self._heap: list[tuple[Spent, str]] = []
        for equivalence_group in waiting.groups:
            self.add(equivalence_group)

    def first(self) -> EquivalenceGroup | None:
        """Return the next class."""
        while self._heap:
            spent, name = self._heap[0]
            equivalence_group = self._by_namespace[name].first()
            if equivalence_group is None:
                heapq.heappop(self._heap)
                del self._by_namespace[name]
            elif self._shares.of(name) != spent:
                heapq.heapreplace(self._heap, (self._shares.of(name), name))
            elif _namespace(equivalence_group) != name:
                self._by_namespace[name].drop(equivalence_group)
                self.add(equivalence_group)
            else:
                return equivalence_group
        return None

    def add(self, equivalence_group: EquivalenceGroup) -> None:
        """Add a class. If it is present already its position is corrected."""
        name = _namespace(equivalence_group)
        waiting = self._by_namespace.get(name)
        if waiting is None:
            waiting = self._by_namespace[name] = _WaitingHeap([], self._visited_before)
            heapq.heappush(self._heap, (self._shares.of(name), name))
        waiting.add(equivalence_group)

    def drop(self, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        for waiting in self._by_namespace.values():
            waiting.drop(equivalence_group)

    def has_any(self, candidates: Collection[int]) -> bool:
        """Return True if any of these classes, by identity, is left."""
        return any(one.has_any(candidates) for one in self._by_namespace.values())

    @property
    def groups(self) -> list[EquivalenceGroup]:
        """Return all classes."""
        return [
            equivalence_group
            for waiting in self._by_namespace.values()
            for equivalence_group in waiting.groups
        ]


def _namespace(equivalence_group: EquivalenceGroup) -> str:
    return equivalence_group.head.key.partition("/")[0]


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
        self._waiting: dict[str, _WaitingHeap | _FairHeap] = {
            name: _WaitingHeap(of, self._visited_before) for name, of in groups.items()
        }
        self._is_fair = False
        quantum = max(1, session.work.allowance // QUANTA)
        self._quantum = quantum
        self._queues = _WorkShares(quantum)
        self._namespaces: dict[str, _WorkShares] = {}
        self._parked: dict[Spent, list[str]] = {}
        """Queues that used more than others and wait for them."""
        self._level: Spent = (0, 0)
        self._waits = 0
        """Number of classes that had a turn and were not requeued any more."""
        self._next_look = LOOK_AFTER
        self.queue_heap = SafeQueueHeap(session, action, self._waiting)
        self.visited: dict[str, None] = {}
        """Keys of the pod groups whose classes were visited."""
        if any(action in batch.actions for batch in carried.batches):
            self._start_fair_sharing()

    def next(self) -> tuple[str, EquivalenceGroup] | None:
        """Return the next queue and its next class; None if none is left."""
        while True:
            name = self.queue_heap.first()
            if name is None:
                if not self._parked:
                    return None
                self._level = min(self._parked)
                for one in self._parked.pop(self._level):
                    self.queue_heap.add(one)
                continue
            if self._is_fair and (level := self._queues.of(name)) > self._level:
                self.queue_heap.drop(name)
                self._parked.setdefault(level, []).append(name)
                continue
            equivalence_group = self._waiting[name].first()
            if equivalence_group is not None:
                return name, equivalence_group
            self.queue_heap.drop(name)

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
        for name, waiting in self._waiting.items():
            if not waiting.has_any(candidates):
                self.queue_heap.drop(name)

    def is_finished(self, name: str) -> bool:
        """Return True if a queue has no class left."""
        return self._waiting[name].first() is None

    def mark_visited(self, equivalence_group: EquivalenceGroup) -> None:
        """Record that a class is about to be decided."""
        self.visited[equivalence_group.head.key] = None

    def spend(self, queue: str, namespace: str, units: int) -> None:
        """Add work of a queue and a namespace. After half of the action's share all get even parts."""
        self._queues.spend(queue, units)
        shares = self._namespaces.get(queue)
        if shares is None:
            shares = self._namespaces[queue] = _WorkShares(self._quantum)
        shares.spend(namespace, units)
        if not self._is_fair and self._session.work.is_half_used:
            self._start_fair_sharing()

    def add(self, queue: str, equivalence_group: EquivalenceGroup) -> None:
        """Add a class."""
        self._waiting[queue].add(equivalence_group)

    def drop(self, queue: str, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class."""
        self._waiting[queue].drop(equivalence_group)

    def left(self) -> list[EquivalenceGroup]:
        """Return the classes that were not visited and whose answers may have changed."""
        groups = [
            equivalence_group
            for waiting in self._waiting.values()
            for equivalence_group in waiting.groups
        ]
        return [
            equivalence_group
            for equivalence_group in groups
            if self._session.could_change(equivalence_group)
        ]

    def _start_fair_sharing(self) -> None:
        self._is_fair = True
        for key, cycle in self._visited_before.items():
            group = self._session.cluster.groups.get(key)
            if group is None:
                continue
            namespaces = self._namespaces.setdefault(group.queue, _WorkShares(self._quantum))
            for shares, name in (
                (self._queues, group.queue),
                (namespaces, key.partition("/")[0]),
            ):
                shares.last_turn_cycle[name] = max(cycle, shares.last_turn_cycle.get(name, 0))
        for name, waiting in self._waiting.items():
            assert isinstance(waiting, _WaitingHeap)
            shares = self._namespaces.setdefault(name, _WorkShares(self._quantum))
            self._waiting[name] = _FairHeap(waiting, shares, self._visited_before)


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
    queue_heap = iteration.queue_heap
    while (found := iteration.next()) is not None:
        name, equivalence_group = found
        yield from queue_heap.failures()
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
        begun, namespace = work.done, equivalence_group.head.key.partition("/")[0]
        iteration.mark_visited(equivalence_group)
        work.add(EQUIVALENCE_GROUP)
        head = equivalence_group.head
        before = head.fingerprint
        overlay_position = session.overlay_position()
        has_failed = False
        try:
            yield from _with_work_counted(session, decide_head(session, equivalence_group))
        except Exception as error:  # any bug
            has_failed = True
            head = session.cluster.groups.get(head.key, head)
            yield from session.group_failed(head, action, error, overlay_position)
        # A decision may have replaced the group by a version of its own (`Cluster.own_group`).
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
        queue_heap.requeue(name, is_finished=iteration.is_finished(name))
        iteration.spend(name, namespace, work.done - begun)
    yield from queue_heap.failures()


def _with_work_counted(session: Session, decisions: Iterator[Decision]) -> Iterator[Decision]:
    """Yield the decisions and count each as work."""
    for decision in decisions:
        pods = getattr(decision, "placements", ()) or getattr(decision, "evictions", ())
        session.work.add(DECISION + PLACEMENT * len(pods))
        yield decision


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
