"""The nodes of a pool during one pass: tasks are placed and victims removed on trial, and all of it is undone at the end.

A placement is sought by the fitting rules of the pool (determined 4): one node, or several idle nodes that are used whole.
"""

from collections.abc import Iterable, Mapping
from hashlib import md5
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from features.pools.index import MILLI, PoolIndex, is_slot, slots_of
from features.pools.pool_capacity import Column, Nodes, PoolCapacity, Region
from features.pools.tasks import PodSlots, PoolTasks, Task
from projections.device_family import JobShape
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pod_terms import Labels
from projections.pods import RELEASING, Pod
from projections.policy.pools import CPU, Pool
from scheduling.device_request import invalid_device_request
from scheduling.gang_attempt import cards_to_charge, precheck
from scheduling.gang_placement import is_placed_node_by_node, place_gang, placement_problem
from scheduling.node_predicates import ADMITTED
from scheduling.node_ranking import NodeRanking
from scheduling.session import Session
from scheduling.trial import NO_NETWORK, Mark, Placed, Trial
from scheduling.unschedulable import Unschedulable, node_reasons, room_when_empty

UNLIKE_MAX: Final = 256
"""Unlike tasks of one namespace without a placement, after which no others of it are tried in a pass."""
SINGLE_NODES_MAX: Final = 16
"""Nodes on which a gang is tried as a whole, best first."""
ZERO_SLOT_LIMIT: Final = "ZERO_SLOT_LIMIT"
SCALE: Final = 1 << 32


class Reserved(Struct):
    """The trial placement of a task."""

    task: Task
    before: Mark
    placed: list[Placed]
    is_later: bool
    """Whether it waits for pods that are leaving."""
    network: Mapping[str, Labels] = NO_NETWORK
    """UID of a pod to the annotations that say where in the network it is."""


class WorkingNodes:
    """The nodes of a pass, with one trial for all that is placed and removed. Leaving it restores every node."""

    def __init__(self, session: Session, pool: Pool, tasks: PoolTasks) -> None:
        self.session, self.pool = session, pool
        self.cluster = session.cluster
        self.table = session.cluster.nodes
        self.trial = Trial(session.cluster)
        self._failed: dict[str, dict[object, None]] = {}
        """Namespace to the likenesses of its tasks that have no placement."""
        self._reasons: dict[object, Unschedulable | None] = {}
        """Likeness of tasks that have no placement to what refused the first of them, if that was not the free slots."""
        self._lacking: dict[object, str] = {}
        """Likeness of tasks of one pod to `lacking`."""
        self._aux_there: dict[str, tuple[int, int]] = {}
        self._empty: dict[object, bool] = {}
        self.slots_of = PodSlots(pool).of
        self._node_by_node: dict[str, bool] = {}
        """Key of a pod group to whether no strategy of the policy places it."""
        self._total: Column | None = None
        self._free: tuple[Column, Column] | None = None
        """Free slots of each node: now, and when the pods that are leaving are gone; right up to `_read`."""
        self._layout = self._read = 0
        """The layout of the node table, and the position in its journal of changed slots."""
        self._leaving: Nodes = np.zeros(0, dtype=np.bool_)
        """Nodes with pods that are leaving, as of `_free`."""
        self._free_sums: tuple[int, int, int] | None = None
        self._resources: tuple[int, list[tuple[str, int]]] | None = None
        """Number of columns of the node table, and `_slot_resources`."""
        nodes = self.cluster.indexes.of(PoolIndex).nodes
        self._reserved: Nodes | None = None
        """Nodes that are reserved for one task."""
        self._within: Nodes | None = None
        """The nodes on which a task is placed; None for all."""
        self.in_pool: Nodes = np.array(
            [nodes.get(node.name) == pool.name for node in self.table.order], dtype=np.bool_
        )
        self.capacity = PoolCapacity(self.cluster, pool, tasks, self.in_pool)
        self._regions: list[Region] = []
        self._region_of = np.full(len(self.table.order), -1, dtype=np.int64)
        """Index of the region of each node in `_regions`; -1 for none."""
        self._rooms: dict[object, Column] = {}
        """Class of pods and shape of their jobs to how many of them fit each node when no task is running."""
        self._hashes = np.array([_hash(node.name) for node in self.table.order], dtype=np.uint64)

    def __enter__(self) -> Self:
        """Begin."""
        self.trial.__enter__()
        return self

    def __exit__(self, *_raised: object) -> None:
        """Restore every node."""
        self.trial.__exit__()

    # Slots

    def total_slots(self) -> Column:
        """Return the slots of each node."""
        if self._total is None:
            self._total = self._slots(self.table.allocatable)
        return self._total

    def free_slots(self, *, later: bool = False) -> Column:
        """Return the free slots of each node: now, or when the pods that are leaving are gone. The next trial changes the
        array."""
        table = self.table
        if self._free is None or self._layout != table.layout:
            now = self._slots(table.free)
            then = now.copy()
            self._leaving = np.zeros(len(now), dtype=np.bool_)
            for name in table.leaving:
                node = table.nodes[name]
                if node.facts is not None:
                    then[node.slot] = self._later_slots(node)
                    self._leaving[node.slot] = True
            self._free = now, then
        elif self._read != len(table.changed_slots):
            self._count_again(*self._free, dict.fromkeys(table.changed_slots[self._read :]))
        self._layout, self._read = table.layout, len(table.changed_slots)
        return self._free[later]

    def _count_again(self, now: Column, then: Column, slots: Iterable[int]) -> None:
        """Count the free slots of nodes again."""
        columns = [(self.table.free[name], units) for name, units in self._slot_resources()]
        for slot in slots:
            node = self.table.order[slot]
            free = 0
            for column, units in columns:
                free += max(0, int(column[slot])) // units
            now[slot] = free
            is_leaving = node.name in self.table.leaving
            then[slot] = self._later_slots(node) if is_leaving else now[slot]
            self._leaving[slot] = is_leaving

    def free_sums(self) -> tuple[int, int]:
        """Return the free slots of the pool, and the most on one node."""
        version = self.trial.version
        if self._free_sums is None or self._free_sums[0] != version:
            free = self.free_slots()[self.in_pool]
            self._free_sums = version, int(free.sum()), int(free.max(initial=0))
        return self._free_sums[1:]

    def slots_by_region(self, task: Task, regions: list[Region]) -> dict[int, int]:
        """Return the slots of a running task by the index of the region of its nodes; -1 for nodes in none."""
        if self._regions is not regions:
            self._regions = regions
            self._region_of = np.full(len(self.table.order), -1, dtype=np.int64)
            for at, one in enumerate(regions):
                self._region_of[one.nodes] = at
        found: dict[int, int] = {}
        if len(task.pods) == 1:
            node = self.table.nodes.get(task.pods[0].node)
            at = -1 if node is None or node.slot < 0 else int(self._region_of[node.slot])
            return {at: task.slots}
        for pod in task.pods:
            node = self.table.nodes.get(pod.node)
            at = -1 if node is None or node.slot < 0 else int(self._region_of[node.slot])
            found[at] = found.get(at, 0) + self.slots_of(pod)
        return found

    def least_useful(self, task: Task) -> Column | None:
        """Return how many free slots a node needs at least to be a node of a task; None if any number can do."""
        if not task.slots:
            return None
        if len(task.pods) == 1:
            return np.full(len(self.table.order), task.slots, dtype=np.int64)
        sizes = {self.slots_of(pod) for pod in task.pods}
        is_planned = self.pool.uses_whole_nodes and len(sizes) == 1
        if not is_planned or not self._is_node_by_node(task.group):
            return None
        return np.maximum(np.minimum(self.total_slots(), task.slots), 1)

    def _slots(self, columns: dict[str, Column]) -> Column:
        total = np.zeros(len(self.table.order), dtype=np.int64)
        for name, units in self._slot_resources():
            total += np.maximum(columns[name], 0) // units
        return total

    def _later_slots(self, node: Node) -> int:
        total = 0
        for name, units in self._slot_resources():
            if name in node.free:
                total += max(0, node.future(name)) // units
        return total

    def _slot_resources(self) -> list[tuple[str, int]]:
        """Return the resources that count as slots, and how much of each is a slot."""
        if self._resources is None or self._resources[0] != len(self.table.free):
            found = [
                (name, MILLI if name == CPU else 1)
                for name in self.table.free
                if is_slot(self.pool, name)
            ]
            self._resources = len(self.table.free), found
        return self._resources[1]

    def aux_room(self, node: Node, *, later: bool = False) -> int:
        """Return how many more pods without slots a node takes: now, or when the pods that are leaving are gone."""
        known = self._aux_there.get(node.name)
        if known is None:
            known = self._aux_there[node.name] = self._count_aux_on(node)
        there = known[later] + self._without_slots(node.trial_pods)
        if later:
            there -= self._without_slots(node.trial_victims)
        return self.pool.aux_max - there

    def _without_slots(self, uids: Iterable[str]) -> int:
        pods = self.cluster.pods
        return sum(not self.slots_of(pods[uid]) for uid in uids)

    def _count_aux_on(self, node: Node) -> tuple[int, int]:
        """Return the pods without slots that State has on a node: all of them, and those that are not leaving."""
        found = [self.cluster.pods[uid] for uid in node.pods if uid in self.cluster.pods]
        aux = [pod for pod in found if pod.group_key and not self.slots_of(pod)]
        return len(aux), sum(pod.status != RELEASING for pod in aux)

    # Work

    def count_failed(self, task: Task) -> None:
        """Count a task without a placement among the unlike ones of its namespace."""
        namespace = task.group.key.partition("/")[0]
        self._failed.setdefault(namespace, {})[task.likeness] = None

    def is_over_budget(self, task: Task) -> bool:
        """Return whether a task is unlike all that were tried of its namespace, and too many of these have no placement."""
        failed = self._failed.get(task.group.key.partition("/")[0])
        return failed is not None and len(failed) >= UNLIKE_MAX and task.likeness not in failed

    def share_reason(self, task: Task) -> None:
        """Give a task without a placement the reason of the first one like it: those after it are not tried."""
        known = self._reasons.setdefault(task.likeness, task.reason)
        if task.reason is None and known is not None:
            task.reason = structs.replace(known, pod=task.pods[0].key)

    def lacking(self, task: Task) -> str:
        """Return what the nodes of the pool lack for a task of one pod, slots or not."""
        key = task.likeness
        if key not in self._lacking:
            pod, rankings = task.pods[0], self.session.rankings
            choice = cards_to_charge(self.session, task.group, pod, {})
            cards = None if isinstance(choice, Unschedulable) else choice.cards
            job = rankings.job_of(task.group)
            counts, _ = node_reasons(rankings, pod.pod_class, cards, job, self.in_pool)
            listed = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
            text = f"no node of pool {self.pool.name} takes it: {listed}" if listed else ""
            self._lacking[key] = text
        return self._lacking[key]

    # Trials

    def problem(self, task: Task) -> Unschedulable | None:
        """Return why the pod group of a task cannot be placed whatever is free, or None."""
        session, group = self.session, task.group
        return (
            precheck(session, group)
            or invalid_device_request(session, group)
            or placement_problem(session, group)
        )

    def place(
        self, task: Task, *, later: bool = False, within: Nodes | None = None
    ) -> Reserved | None:
        """Place a task on trial, on the nodes `within`; return None if it does not fit. `later` counts pods that are
        leaving as gone."""
        self._within = within
        try:
            found = self._place(task, later=later)
        finally:
            self._within = None
        if found is None or within is None:
            return found
        if all(within[one.node.slot] for one in found.placed):
            return found
        self.undo(found)  # Another placement strategy chose the nodes.
        return None

    def _place(self, task: Task, *, later: bool) -> Reserved | None:
        if not self._is_node_by_node(task.group):
            return None if later else self._place_by_strategy(task)
        pods = task.pods
        if len(pods) == 1:
            return self._place_pods(task, [(pods[0], None)], later=later)
        sizes = {self.slots_of(pod) for pod in pods} - {0}
        is_planned = self.pool.uses_whole_nodes and len(sizes) == 1
        if not is_planned and not task.job.is_single_node:
            return self._place_pods(task, [(pod, None) for pod in pods], later=later)
        found = self._on_one_node(task, later=later)
        if found is not None or task.job.is_single_node:
            return found
        return self._on_whole_nodes(task, sizes.pop(), later=later)

    def reserve(self, task: Task) -> None:
        """Reserve the nodes on which a task that has no placement lacks the fewest slots."""
        usable = self.in_pool.copy()
        for room in self._room_when_empty(task).values():
            usable &= room > 0
        free, total = self.free_slots(later=True), self.total_slots()
        if len(task.pods) == 1:
            usable &= total >= task.slots
            lacking = np.maximum(task.slots - free, 0)
        else:
            lacking = total - free
        self._reserved = np.zeros(len(total), dtype=np.bool_)
        slots = np.flatnonzero(usable)
        need = task.slots
        for slot in slots[np.argsort(lacking[slots], kind="stable")].tolist():
            self._reserved[slot] = True
            need -= int(total[slot])
            if need <= 0:
                break

    def place_outside_reservation(self, task: Task, *, later: bool = False) -> Reserved | None:
        """Place a task on trial on nodes that are not reserved."""
        assert self._reserved is not None
        return self.place(task, later=later, within=~self._reserved)

    def undo(self, reserved: Reserved) -> None:
        """Undo the latest placement."""
        self.trial.restore(reserved.before)

    def remove(self, victims: Iterable[Task], cause: Task) -> None:
        """Remove running tasks on trial, in favour of another one."""
        self.trial.unmark_nominated(cause.group)
        for task in victims:
            self.evict(task)

    def evict(self, task: Task) -> None:
        """Remove one more running task."""
        for pod in task.pods:
            self.trial.evict(pod)

    def spare(self, task: Task) -> None:
        """Put a removed task back, though others removed after it stay so."""
        for pod in task.pods:
            self.trial.spare(pod)

    def _place_pods(
        self, task: Task, pods: list[tuple[Pod, Node | None]], *, later: bool
    ) -> Reserved | None:
        """Place pods one after the other, each on the node that is given or on its best one."""
        before = self.trial.mark()
        self.trial.begin(task.group)
        for pod, chosen in pods:
            if not self._place_pod(task, pod, chosen, later=later):
                self.trial.restore(before)
                return None
        return Reserved(task, before, self.trial.placed_since(before), later)

    def _place_pod(self, task: Task, pod: Pod, chosen: Node | None, *, later: bool) -> bool:
        """Place a pod on the node that is given or on its best one; return whether it has one."""
        charged = self.trial.charged.get(task.group.queue, {})
        choice = cards_to_charge(self.session, task.group, pod, charged)
        if isinstance(choice, Unschedulable):
            task.reason = choice
            return False
        rankings = self.session.rankings
        self.session.work.add_pod(pod.pod_class)
        ranking = rankings.of(pod.pod_class, choice.cards, rankings.job_of(task.group))
        slots = self.slots_of(pod)
        feasible = self._feasible(ranking, slots, later=later)
        if chosen is not None:
            feasible &= self._only(chosen)
        node = self._best(task, pod, feasible, later=later)
        if node is not None:
            self.trial.place(pod, node, ranking.devices.pick(node, later=later), later=later)
        return node is not None

    def _only(self, node: Node) -> Nodes:
        one = np.zeros(len(self.table.order), dtype=np.bool_)
        one[node.slot] = True
        return one

    def _feasible(self, ranking: NodeRanking, need: int, *, later: bool) -> Nodes:
        """Return the nodes that a pod fits on which needs so many slots."""
        feasible: Nodes = ranking.scores() >= 0
        if self._within is not None:
            feasible &= self._within
        if not later:
            return feasible
        free = self.free_slots(later=True)
        chosen: Nodes = self._leaving & ~feasible & (free >= need)
        if self._within is not None:
            chosen &= self._within
        return feasible | ranking.with_room_later(chosen)

    def _best(self, task: Task, pod: Pod, feasible: Nodes, *, later: bool) -> Node | None:
        """Return the best feasible node by the score of determined 4.2."""
        slots = np.flatnonzero(feasible)
        if not len(slots):
            return None
        if self.slots_of(pod):
            points = self._slot_points(slots, later=later)
        else:
            slots = np.array(
                [slot for slot in slots if self.aux_room(self.table.order[slot], later=later) > 0],
                dtype=np.int64,
            )
            if not len(slots):
                text = (
                    f"every node that it fits on has {self.pool.aux_max} pods without slots, which is maxAuxContainers of"
                    f" pool {self.pool.name}"
                )
                task.reason = Unschedulable(ZERO_SLOT_LIMIT, "", text)
                return None
            points = self._aux_points(slots, later=later)
        best = slots[points == points.max()]
        if len(best) > 1:
            best = self._nearest(task, best)
        return self.table.order[int(best[0])]

    def _slot_points(self, slots: npt.NDArray[np.int64], *, later: bool) -> Column:
        """Return the score of nodes for a task with slots: 1 / (1 + free), or free / total, in whole numbers."""
        free = self.free_slots(later=later)[slots]
        if self.pool.fitting == "best":
            return SCALE // (1 + free)
        total = np.maximum(self.total_slots()[slots], 1)
        return np.asarray(free * SCALE // total, dtype=np.int64)

    def _aux_points(self, slots: npt.NDArray[np.int64], *, later: bool) -> Column:
        """Return the score of nodes for a task without slots."""
        free, total = self.free_slots(later=later), self.total_slots()
        points: list[int] = []
        for slot in slots:
            if free[slot] < total[slot]:
                points.append(int(self._slot_points(np.array([slot]), later=later)[0]))
                continue
            room = self.aux_room(self.table.order[slot], later=later)
            if self.pool.fitting == "best":
                points.append(SCALE // (1 + room))
            else:
                points.append(room * SCALE // max(1, self.pool.aux_max))
        return np.array(points, dtype=np.int64)

    def _nearest(self, task: Task, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return nodes of equal score in the order of determined 4.3: by hash, then by name."""
        distance = np.uint64(_hash(task.name)) - self._hashes[slots]
        return slots[np.argsort(distance, kind="stable")]

    def _on_one_node(self, task: Task, *, later: bool) -> Reserved | None:
        """Place all pods of a gang on one node, if one has enough."""
        inside = self.in_pool if self._within is None else self.in_pool & self._within
        free = np.where(inside, self.free_slots(later=later), -1)
        slots = np.flatnonzero(free >= max(task.slots, 0))
        if not len(slots):
            return None
        order = self._nearest(task, slots)
        points = self._slot_points(order, later=later)
        order = order[np.argsort(-points, kind="stable")]
        for slot in order[:SINGLE_NODES_MAX]:
            node = self.table.order[int(slot)]
            found = self._place_pods(task, [(pod, node) for pod in task.pods], later=later)
            if found is not None:
                return found
        return None

    def _on_whole_nodes(self, task: Task, size: int, *, later: bool) -> Reserved | None:
        """Place a gang on idle nodes, each used whole: of the largest size of which a multiple is needed."""
        total = self.total_slots()
        idle = self.in_pool & (total > 0) & (self.free_slots(later=later) == total)
        for pod_class in {pod.pod_class.index: pod.pod_class for pod in task.pods}.values():
            need = slots_of(self.pool, pod_class)
            if need:
                ranking = self._ranking(task, pod_class)
                idle &= self._feasible(ranking, need, later=later)
        plan = whole_nodes(total, idle, task.slots, size, mixes_sizes=self.pool.mixes_sizes)
        if plan is None:
            return None
        working = [pod for pod in task.pods if self.slots_of(pod)]
        others = [pod for pod in task.pods if not self.slots_of(pod)]
        placed: list[tuple[Pod, Node | None]] = []
        left = iter(working)
        for width, count in plan:
            candidates = self._nearest(task, np.flatnonzero(idle & (total == width)))
            for slot in candidates[:count]:
                node = self.table.order[int(slot)]
                placed += [(next(left), node) for _ in range(width // size)]
        return self._place_pods(task, [*placed, *((pod, None) for pod in others)], later=later)

    def _ranking(self, task: Task, pod_class: object) -> NodeRanking:
        pod = next(one for one in task.pods if one.pod_class is pod_class)
        choice = cards_to_charge(self.session, task.group, pod, {})
        cards = None if isinstance(choice, Unschedulable) else choice.cards
        rankings = self.session.rankings
        return rankings.of(pod.pod_class, cards, rankings.job_of(task.group))

    def _place_by_strategy(self, task: Task) -> Reserved | None:
        """Place a gang by another placement strategy of the policy: HyperNodes, leaf switches, SuperPoDs."""
        attempt = place_gang(self.session, task.group)
        if not attempt.is_ready:
            task.reason = attempt.refusal
            return None
        before = self.trial.mark()
        self.trial.begin(task.group)
        for one in attempt.trial.now:
            self.trial.place(one.pod, one.node, one.devices)
        placed = self.trial.placed_since(before)
        return Reserved(task, before, placed, is_later=False, network=attempt.network)

    # Feasibility

    def _is_node_by_node(self, group: PodGroup) -> bool:
        known = self._node_by_node.get(group.key)
        if known is None:
            known = self._node_by_node[group.key] = is_placed_node_by_node(self.session, group)
        return known

    def fits_when_empty(self, task: Task) -> bool:
        """Return whether a task could be placed if no task were running (determined 2.3)."""
        classes = {pod.pod_class.index: pod.pod_class for pod in task.pods}
        counts = {
            index: sum(pod.pod_class.index == index for pod in task.pods) for index in classes
        }
        is_one_by_one = not self._is_node_by_node(task.group)
        key = (
            tuple(sorted(counts.items())),
            task.job.is_single_node,
            is_one_by_one,
            task.group.queue,
        )
        if key not in self._empty:
            self._empty[key] = self._fits_when_empty(task, counts, is_one_by_one=is_one_by_one)
        return self._empty[key]

    def _room_when_empty(self, task: Task) -> dict[int, Column]:
        """Return how many pods of each class of a task fit each node of the pool when no task of the pool is running."""
        job = self.session.rankings.job_of(task.group)
        room_of: dict[int, Column] = {}
        for pod in task.pods:
            index = pod.pod_class.index
            if index in room_of:
                continue
            room_of[index] = self._room_of(pod, job)
        return room_of

    def nodes_for(self, task: Task) -> Nodes:
        """Return the nodes that pods of a task with slots could use when no task of the pool is running."""
        rooms = self._room_when_empty(task)
        working = [rooms[pod.pod_class.index] > 0 for pod in task.pods if self.slots_of(pod)]
        found: Nodes = np.logical_or.reduce(working)
        return found

    def _room_of(self, pod: Pod, job: JobShape) -> Column:
        rankings, pod_class = self.session.rankings, pod.pod_class
        key = pod_class.index, job
        if key not in self._rooms:
            cards = self.cluster.plugins.quota.named_cards(self.cluster, pod_class)
            rankings.of(pod_class, cards, job).scores()  # Refresh the verdicts on nodes.
            room = room_when_empty(rankings, pod_class, cards, job)
            for name, amount in pod_class.request:
                if name in self.table.allocatable:
                    room = np.minimum(room, self.capacity.usable(name) // amount)
            admitted = rankings.predicates(pod_class).verdicts == ADMITTED
            usable = admitted & self.in_pool & self.capacity.is_ready
            self._rooms[key] = np.where(usable, np.maximum(room, 0), 0)
        return self._rooms[key]

    def _fits_when_empty(self, task: Task, counts: dict[int, int], *, is_one_by_one: bool) -> bool:
        total = self.total_slots()
        usable = self.capacity.usable_slots()
        room_of = self._room_when_empty(task)
        if any(int(room_of[index].sum()) < count for index, count in counts.items()):
            return False
        if len(task.pods) == 1:
            return True
        fits_whole = np.ones(len(total), dtype=np.bool_)
        for index, count in counts.items():
            fits_whole &= room_of[index] >= count
        if bool((fits_whole & (usable >= task.slots)).any()):
            return True
        if task.job.is_single_node:
            return False
        sizes = {self.slots_of(pod) for pod in task.pods} - {0}
        if is_one_by_one or not self.pool.uses_whole_nodes or len(sizes) != 1:
            return True
        (size,) = sizes
        open_nodes = self.in_pool & (total > 0) & (usable == total)
        for pod in task.pods:
            if self.slots_of(pod):
                open_nodes &= room_of[pod.pod_class.index] > 0
        plan = whole_nodes(total, open_nodes, task.slots, size, mixes_sizes=self.pool.mixes_sizes)
        return plan is not None


def whole_nodes(
    total: Column, usable: Nodes, need: int, size: int, *, mixes_sizes: bool
) -> list[tuple[int, int]] | None:
    """Return slots of a node and number of such nodes for a task that uses whole nodes (determined 4.1); None if there are
    not enough. `size` is the slots of one pod."""
    widths, counts = np.unique(total[usable], return_counts=True)
    there = [
        (int(width), int(count))
        for width, count in zip(widths[::-1], counts[::-1], strict=True)
        if width and width % size == 0
    ]
    for width, count in there:
        if count * width >= need and need % width == 0:
            return [(width, need // width)]
    if not mixes_sizes:
        return None
    plan: list[tuple[int, int]] = []
    for width, count in there:
        taken = min(count, need // width)
        if taken:
            plan.append((width, taken))
            need -= taken * width
    return plan if need == 0 else None


def _hash(text: str) -> int:
    """Return the first eight bytes of the MD5 of a text as a little-endian number (determined 4.3)."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:8], "little")
