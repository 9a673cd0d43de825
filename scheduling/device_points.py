"""What the devices of nodes add to their scores, and which devices pods get, from the answers of all device families.

For each family the state of what is free is kept for every node, as a number; it is read again only for nodes in the
journal of changes. A fit is asked once for each state. So many nodes cost one lookup each when a fit is new, and a
node that did not change costs nothing.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.device_family import DeviceFamily, DeviceFit, DeviceRequest, NodeLabel
from projections.device_uses import uses_of
from projections.nodes import Node, NodeTable
from projections.plugin import Plugin
from projections.pod_class import PodClass
from scheduling.node_columns import Column, Mask, Slots

NONE: Final = -1
"""Number of the state of a node that has no devices of a family."""

SPARE_STATES: Final = 1024
"""States are numbered again when there are this many, and four for each node."""

Numbers = npt.NDArray[np.int64]


class DeviceStates:
    """What is free of the devices of one family on each node, as numbers of states."""

    def __init__(self, cluster: Cluster, family: DeviceFamily) -> None:
        self.family = family
        self.version = 0
        """Grows when the states are numbered again."""
        self._cluster = cluster
        self._table = cluster.nodes
        self._layout = -1
        self._changed = self._updated = 0
        self.numbered: list[Hashable] = []
        """The states by their numbers."""
        self._number_of: dict[Hashable, int] = {}
        self.is_anywhere = not family.names_devices
        """Whether any node had devices of the family when states were last asked for."""
        self._having: dict[int, None] = {}
        """Slots of the nodes that have devices of a family that names them: only they are read again when pods come and go."""
        self._now: Numbers = np.zeros(0, dtype=np.int64)
        self._empty: Numbers = np.zeros(0, dtype=np.int64)
        self._later: dict[int, int] = {}
        """Slot to the number of the state once terminating pods are gone, where that was asked."""

    def state(self, number: int) -> Hashable:
        """Return the state of a number."""
        return self.numbered[number]

    def __len__(self) -> int:
        """Return how many states have a number."""
        return len(self.numbered)

    def now(self) -> Numbers:
        """Return the states of the devices that are free now, slot by slot. Do not modify the result."""
        table = self._table
        if (
            self._layout != table.layout
            or self._updated != len(table.updated_slots)
            or (self._having and self._changed != len(table.changed_slots))
        ):
            self.refresh()
        return self._now

    def total(self, amount: Callable[[Hashable], int]) -> int:
        """Return the sum of an amount over the states of the devices that are free now."""
        there = self.now()
        counts = np.bincount(there[there != NONE])
        return sum(
            amount(self.state(number)) * int(counts[number])
            for number in np.flatnonzero(counts).tolist()
        )

    def when_empty(self) -> Numbers:
        """Return the states of all devices, free or not, slot by slot. Do not modify the result."""
        self.refresh()
        return self._empty

    def later(self, node: Node) -> int:
        """Return the state of the devices that are free on a node once terminating pods are gone."""
        self.refresh()
        if not self.family.names_devices:
            return int(self._now[node.slot])
        found = self._later.get(node.slot)
        if found is None:
            found = self._later[node.slot] = self._read(node, later=True)
        return found

    def refresh(self) -> None:
        """Read the nodes in the journal of changes again."""
        table = self._table
        changed, updated = len(table.changed_slots), len(table.updated_slots)
        if self._layout != table.layout or len(self.numbered) > SPARE_STATES + 4 * len(table.order):
            self._read_all()
        elif self._changed != changed or self._updated != updated:
            facts_changed = dict.fromkeys(table.updated_slots[self._updated :])
            for slot in facts_changed:
                self._find(slot)
                self._empty[slot] = self._read(table.order[slot], is_empty=True)
            if self.family.names_devices:
                slots = dict.fromkeys(table.changed_slots[self._changed :] if self._having else ())
                slots.update(facts_changed)
                for slot in slots:
                    if slot in self._having or slot in facts_changed:
                        self._now[slot] = self._read(table.order[slot])
                        self._later.pop(slot, None)
        self.is_anywhere = bool(self._having) or not self.family.names_devices
        self._changed, self._updated = changed, updated

    def _read_all(self) -> None:
        table, family = self._table, self.family
        self._layout, self.version = table.layout, self.version + 1
        self.numbered, self._number_of, self._later, self._having = [], {}, {}, {}
        count = len(table.order)
        if not family.names_devices:
            facts, numbers = [node.facts for node in table.order], self._number_of
            states = [None if one is None else family.available(one, ()) for one in facts]
            found = [
                NONE if one is None else numbers.setdefault(state, len(numbers))
                for one, state in zip(facts, states, strict=True)
            ]
            self.numbered = list(numbers)
            self._empty = self._now = np.array(found, dtype=np.int64)
            return
        self._empty = np.full(count, NONE, dtype=np.int64)
        for slot, node in enumerate(table.order):
            if node.facts is not None and node.facts.devices:
                self._find(slot)
        for slot in self._having:
            self._empty[slot] = self._read(table.order[slot], is_empty=True)
        self._now = self._empty.copy()
        for slot in self._having:
            self._now[slot] = self._read(table.order[slot])

    def _find(self, slot: int) -> None:
        """Determine whether the node in a slot has devices of the family, if it names them."""
        facts = self._table.order[slot].facts
        if self.family.names_devices and facts is not None and facts.devices_of(self.family.name):
            self._having[slot] = None
        else:
            self._having.pop(slot, None)

    def _read(self, node: Node, *, is_empty: bool = False, later: bool = False) -> int:
        facts, family = node.facts, self.family
        if facts is None or (family.names_devices and node.slot not in self._having):
            return NONE
        uses = [] if is_empty else uses_of(node, self._cluster.pods, family, later=later)
        if not uses and not is_empty:
            return int(self._empty[node.slot])
        return self._number(family.available(facts, uses))

    def _number(self, state: Hashable) -> int:
        number = self._number_of.get(state)
        if number is None:
            number = self._number_of[state] = len(self.numbered)
            self.numbered.append(state)
        return number


class DeviceScorer(Protocol):
    """The score of nodes for pods of one class, from what is free of their devices and of their other resources."""

    def of_slots(self, table: NodeTable, states: DeviceStates, slots: Sequence[int]) -> Column:
        """Return the scores of the nodes in these slots, on which the pod has room now: 0 or more, in thousandths of a
        point."""


class DeviceOrder(Plugin):
    """Hook: scores of nodes by what is free of the devices of one family."""

    FLAG = "enableNodeOrder"
    family: ClassVar[str]
    """Name of the device family."""

    @property
    def replaces_points(self) -> bool:
        """Return whether its scores take the place of the points that the family gives."""
        return False

    @abstractmethod
    def device_scorer(self, pod_class: PodClass) -> DeviceScorer | None:
        """Return what scores nodes for pods of a class; None if nothing does."""


class FitPoints:
    """The answers of one fit, by state."""

    def __init__(self, states: DeviceStates, fit: DeviceFit) -> None:
        self.states, self.fit = states, fit
        self.elsewhere = fit.elsewhere
        """Points of nodes without devices of the family."""
        self._version = -1
        self._points: list[int] = []
        """Points of each state; the last are those of nodes without devices of the family, as `NONE` is the last index."""
        self._picks: dict[int, tuple[str, ...]] = {}

    def points(self) -> list[int]:
        """Return the points by the numbers of all states. Do not modify the result."""
        states, known = self.states, self._points
        if self._version != states.version:
            known = self._points = [self.elsewhere]
            self._version, self._picks = states.version, {}
        if len(known) <= len(states.numbered):
            known[-1:] = [self.fit.points(one) for one in states.numbered[len(known) - 1 :]]
            known.append(self.elsewhere)
        return known

    def of(self, number: int) -> int:
        """Return the points of a state, or those of nodes without devices of the family."""
        return self.points()[number]

    def pick(self, number: int) -> tuple[str, ...]:
        """Return the devices of a state that the pod gets, by name; () if it cannot get the ones that it needs, or if the
        node has none."""
        if number == NONE or self.points()[number] < 0:
            return ()
        found = self._picks.get(number)
        if found is None:
            found = self._picks[number] = self.fit.pick(self.states.state(number))
        return found

    def column(self, numbers: Numbers) -> Numbers:
        """Return the points of each node, slot by slot."""
        return np.array(self.points(), dtype=np.int64)[numbers]


class DevicePoints:
    """What the devices of nodes add to the scores for pods of one class and job that may be charged certain cards.

    Each answer is -1 for a node on which the pod cannot get the devices that it needs.
    """

    def __init__(self, fits: tuple[FitPoints, ...]) -> None:
        self._fits = fits
        """Answers of the families to which the devices of nodes matter."""
        self._naming = tuple([one for one in fits if one.states.family.names_devices])

    @property
    def names_devices(self) -> bool:
        """Return True if such pods get devices with names."""
        return bool(self._naming)

    @property
    def key(self) -> Hashable:
        """Return what is equal if all answers are: the same fits are the same objects."""
        return self._fits

    def of_few(self, slots: Sequence[int]) -> list[int]:
        """Return the points of the devices that are free now on the nodes in a few slots."""
        total = [0] * len(slots)
        for one in self._fits:
            numbers = one.states.now()
            if not (one.states.is_anywhere or one.elsewhere):
                continue
            points = one.points()
            for index, slot in enumerate(slots):
                found = points[numbers[slot]]
                total[index] = -1 if found < 0 or total[index] < 0 else total[index] + found
        return total

    def of_slots(self, slots: Slots) -> Numbers:
        """Return the same of the nodes in many slots."""
        total: Numbers | None = None
        for one in self._fits:
            numbers = one.states.now()
            if not (one.states.is_anywhere or one.elsewhere):
                continue
            points = one.column(numbers[slots])
            if total is not None:
                points = np.where((total >= 0) & (points >= 0), total + points, -1)
            total = points
        return np.zeros(len(slots), dtype=np.int64) if total is None else total

    def parts_of(self, node: Node) -> dict[str, int]:
        """Return the points of the devices that are free now, by family."""
        return {
            one.states.family.name: one.of(int(one.states.now()[node.slot])) for one in self._fits
        }

    def later(self, node: Node) -> int:
        """Return the points of the devices that are free once terminating pods are gone."""
        total = 0
        for one in self._fits:
            points = one.of(one.states.later(node))
            if points < 0:
                return -1
            total += points
        return total

    def when_empty(self, node: Node) -> int:
        """Return the points of all devices, free or not."""
        total = 0
        for one in self._fits:
            points = one.of(int(one.states.when_empty()[node.slot]))
            if points < 0:
                return -1
            total += points
        return total

    def pick(self, node: Node, *, later: bool = False) -> tuple[str, ...]:
        """Return the devices that the pod gets on a node, now or once terminating pods are gone, by name; () if they
        have none, or if it cannot get the ones that it needs."""
        picked: list[str] = []
        for one in self._naming:
            number = one.states.later(node) if later else int(one.states.now()[node.slot])
            if not (one.states.is_anywhere or one.elsewhere):
                continue
            if one.points()[number] < 0:
                return ()
            picked += one.pick(number)
        return tuple(picked)

    def of_all(self, *, when_empty: bool = False) -> Numbers | None:
        """Return the points of all nodes, slot by slot; None if no family limits or scores them."""
        total: Numbers | None = None
        for one in self._fits:
            points = _column(one, when_empty=when_empty)
            if total is not None:
                points = np.where((total >= 0) & (points >= 0), total + points, -1)
            total = points
        return total

    def counted(self) -> Mask | None:
        """Return the nodes that have the devices that are counted and not named: that changes with the objects of nodes only.
        None if all have them."""
        found: Mask | None = None
        for one in self._fits:
            if not one.states.family.names_devices:
                there = _column(one, when_empty=True) >= 0
                found = there if found is None else found & there
        return found

    def excluded(self, *, when_empty: bool) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """Return the reason of each family and the nodes that it excludes: because they do not have the devices, or
        because those are not free now."""
        fits = self._fits if when_empty else self._naming
        return [(one.fit.reason, _column(one, when_empty=when_empty) < 0) for one in fits]

    def needed_labels(self) -> list[tuple[NodeLabel, npt.NDArray[np.bool_]]]:
        """Return the labels that nodes need to serve the pod, each with the nodes whose devices would serve it."""
        return [
            (label, _column(one, when_empty=True) >= 0)
            for one in self._fits
            if (label := one.fit.node_label) is not None
        ]

    def obstacle(self, node: Node) -> str:
        """Return why the node does not serve the pod now; "" if it does."""
        for one in self._fits:
            number = int(one.states.now()[node.slot])
            if one.of(number) >= 0:
                continue
            if number == NONE:
                return f"node has no devices of the family {one.states.family.name}"
            return one.fit.obstacle(one.states.state(number))
        return ""


def _column(one: FitPoints, *, when_empty: bool) -> Numbers:
    return one.column(one.states.when_empty() if when_empty else one.states.now())


class DeviceAnswers:
    """The answers of all device families about the nodes of one cluster: states by family, points by fit."""

    def __init__(self, cluster: Cluster) -> None:
        self.states = {one.name: DeviceStates(cluster, one) for one in cluster.device_families}
        self._points: dict[tuple[str, DeviceFit], FitPoints] = {}
        self._concerned: dict[tuple[object, ...], tuple[DeviceStates, ...]] = {}
        """Names of resources, and options, to the states of the families that such pods may need devices of."""

    def of(self, request: DeviceRequest) -> DevicePoints:
        """Return what the devices of nodes add to the scores for a pod."""
        found = [(one, one.family.fit(request)) for one in self._concerned_by(request)]
        return DevicePoints(
            tuple([self._of_fit(one, fit) for one, fit in found if fit is not None])
        )

    def forget_fits(self) -> None:
        """Drop the points of all fits; the states of nodes remain."""
        self._points, self._concerned = {}, {}

    def _concerned_by(self, request: DeviceRequest) -> tuple[DeviceStates, ...]:
        options = request.options
        key = (*[name for name, _ in request.pod_class.request], "", *options)
        found = self._concerned.get(key)
        if found is None:
            resources = request.pod_class.amounts
            found = self._concerned[key] = tuple(
                [one for one in self.states.values() if one.family.concerns_pod(resources, options)]
            )
        return found

    def _of_fit(self, states: DeviceStates, fit: DeviceFit) -> FitPoints:
        key = (states.family.name, fit)
        found = self._points.get(key)
        if found is None:
            found = self._points[key] = FitPoints(states, fit)
        return found
