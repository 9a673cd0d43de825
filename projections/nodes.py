"""Keep nodes, the resources used on them, and the table of columns that the scheduler scans.

    idle   = allocatable - occupied                 (negative if a card was lost under its pod)
    future = idle + releasing - nominated           free once terminating pods are gone
    free   = min(idle, future)                      can be assigned now

A node that is deleted or not yet seen is kept, absent, while pods are on it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from events.limits import RESOURCE_BYTES_MAX, name_problem, storable
from projections.deltas import PolicyChanged
from projections.device_families import DeviceFamilies
from projections.device_family import DeviceSources
from projections.device_report import (
    HEALTHY_REPORT,
    DeviceReport,
    ReportedHealth,
    reported_health,
)
from projections.devices import NodeDevices
from projections.hyper_tree import HyperTree
from projections.index import Index
from projections.objects import NodeObject, NodeSpec, NodeStatus, Quantities, Taint, nanoseconds_of
from projections.pod_class import Amounts, amount_of
from projections.quantity import QuantityError

if TYPE_CHECKING:
    from projections.cluster import Cluster

PODS_UNLIMITED = 1 << 31
"""Number of pods of a node that does not state one."""

SHORT_MAX = 1 << 60
"""Bound of negative amounts, so that columns fit in 64 bits."""

JOURNAL_MAX = 1 << 18
"""Number of recorded changes before the journal is cleared; readers then read the whole table again."""

Request = tuple[tuple[str, int], ...]
"""Resource name and amount."""


class NodeCondition(Struct, frozen=True):
    """A condition of a node that differs from that of a healthy one."""

    type: str
    status: str
    reason: str = ""


class NodeFacts(Struct, frozen=True):
    """What muster reads of a Node."""

    name: str
    uid: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Amounts
    cards: dict[str, str]
    """Resource name to the name of the card that it counts on this node."""
    card_totals: tuple[tuple[str, int], ...]
    """Resource name to the number of cards, healthy or not."""
    created_ns: int
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message of labels and quantities that cannot be used."""
    images: tuple[tuple[str, int], ...] = ()
    """Images on the node, by each of their names, and their size in bytes."""
    devices: dict[str, NodeDevices] = {}
    """Resource name to its devices, if a device family names them; sorted by resource."""
    capacity: Amounts = {}
    annotations: dict[str, str] = {}
    """Those that a device family reads."""
    converted: dict[str, tuple[str, int]] = {}
    """Resource name to the card that queues are charged for it, and to how much of the resource makes 1,000 of that
    card."""
    address: str = ""
    """Its InternalIP."""
    conditions: tuple[NodeCondition, ...] = ()
    """`Ready` if it is not True, and other conditions that are True."""
    health: ReportedHealth = HEALTHY_REPORT
    """Faults in the reports of its devices."""
    not_ready_since_ns: int | None = None
    """Time at which its condition `Ready` ceased to be True, as stated, in ns since the epoch; 0 if that is not stated.
    None if it is ready, or has no such condition."""

    @property
    def charged_cards(self) -> dict[str, str]:
        """Resource name to the name of the card that queues are charged for it."""
        if not self.converted:
            return self.cards
        return {**self.cards, **{one: card for one, (card, _) in self.converted.items()}}

    def with_report(
        self, families: DeviceFamilies, before: DeviceReport | None, after: DeviceReport | None
    ) -> "NodeFacts":
        """Return the facts of the same object after its device report has changed."""
        was, found = (families.discover(self._sources(one)) for one in (before, after))
        return structs.replace(
            self,
            cards=found.cards,
            card_totals=_card_totals(found.cards, self.capacity, self.allocatable),
            faults=(*(one for one in self.faults if one not in was.faults), *found.faults),
            devices=found.devices,
            converted=found.converted,
            health=reported_health(after),
        )

    def _sources(self, report: DeviceReport | None) -> DeviceSources:
        return DeviceSources(
            name=self.name,
            labels=self.labels,
            capacity=self.capacity,
            allocatable=self.allocatable,
            annotations=self.annotations,
            report=report,
        )

    def devices_of(self, family: str) -> list[NodeDevices]:
        """Return the devices of a family, by resource."""
        if not self.devices:
            return []
        return [one for one in self.devices.values() if one.family == family]


def node_facts(
    obj: NodeObject,
    families: DeviceFamilies,
    problem: str = "",
    report: DeviceReport | None = None,
) -> NodeFacts:
    """Return what muster reads of a Node, and of the report of its devices. Quantities that cannot be read count as 0 and are named in `faults`.

    With a `problem` only the metadata could be read: the node has no allocatable resources.
    """
    spec, status = obj.spec or NodeSpec(), obj.status or NodeStatus()
    allocatable, unclear = _amounts(status.allocatable or {})
    allocatable.setdefault("pods", 0 if problem else PODS_UNLIMITED)
    labels = obj.metadata.labels or {}
    capacity, _ = _amounts(status.capacity or status.allocatable or {})
    annotations = families.node_annotations(obj.metadata.annotations or {})
    addresses = [one.address for one in status.addresses or () if one.type == "InternalIP"]
    found = families.discover(
        DeviceSources(
            name=obj.metadata.name,
            labels=labels,
            capacity=capacity,
            allocatable=allocatable,
            annotations=annotations,
            report=report,
        )
    )
    stated, allocatable = allocatable, {**allocatable, **({} if problem else found.amounts)}
    return NodeFacts(
        name=obj.metadata.name,
        uid=obj.metadata.uid or "",
        labels=labels,
        taints=tuple(spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        allocatable=allocatable,
        cards=found.cards,
        card_totals=_card_totals(found.cards, capacity, allocatable),
        created_ns=nanoseconds_of(obj.metadata.creationTimestamp),
        faults=(
            *([("InvalidNode", f"{problem}; it can give nothing")] if problem else []),
            *found.faults,
            *([("InvalidQuantity", unclear)] if unclear else []),
        ),
        images=tuple(
            listed_image(name, one.sizeBytes)
            for one in status.images or ()
            for name in one.names or ()
        ),
        devices=found.devices,
        converted=found.converted,
        capacity=stated if capacity == stated else capacity,
        annotations=annotations,
        address=next((one for one in addresses if not name_problem(one)), ""),
        conditions=_conditions(status),
        health=reported_health(report),
        not_ready_since_ns=_not_ready_since(status),
    )


def _not_ready_since(status: NodeStatus) -> int | None:
    """Return the time at which a node ceased to be ready, 0 if that is not stated; None if it is ready."""
    for one in status.conditions or ():
        if one.type == "Ready":
            return None if one.status == "True" else max(0, nanoseconds_of(one.lastTransitionTime))
    return None


def _conditions(status: NodeStatus) -> tuple[NodeCondition, ...]:
    """Return the conditions of a node that differ from those of a healthy one."""
    found: list[NodeCondition] = []
    for one in status.conditions or ():
        is_wrong = one.status != "True" if one.type == "Ready" else one.status == "True"
        if is_wrong:
            texts = (storable(text) for text in (one.type, one.status, one.reason or ""))
            found.append(NodeCondition(*texts))
    return tuple(found)


def _card_totals(
    cards: Iterable[str], capacity: Amounts, allocatable: Amounts
) -> tuple[tuple[str, int], ...]:
    return tuple([(one, capacity.get(one, allocatable.get(one, 0))) for one in cards])


@lru_cache(maxsize=1 << 16)
def listed_image(name: str, size: int) -> tuple[str, int]:
    """Return the image; equal images of all nodes share one tuple."""
    return name, size


def _amounts(quantities: Quantities) -> tuple[Amounts, str]:
    amounts: Amounts = {}
    problem = ""
    for name, quantity in quantities.items():
        if text := name_problem(name, RESOURCE_BYTES_MAX):
            problem = f"a resource name: {text}"
            continue
        try:
            amounts[name] = amount_of(name, quantity)
        except QuantityError as error:
            amounts[name], problem = 0, f"{name}: {error}"
    return amounts, problem


def card_layout_of(facts: NodeFacts) -> str:
    """Return a text that is equal for nodes for whose resources the same is charged; "" without cards."""
    if not facts.cards:
        return ""
    counted = [f"{resource} {card}" for resource, card in facts.cards.items()]
    converted = [f"{one} {card} {units}" for one, (card, units) in facts.converted.items()]
    return "\n".join([*counted, *converted])


class Node:
    """A node and the resources used on it. Only State changes it."""

    __slots__ = (
        "card_layout",
        "digest",
        "facts",
        "free",
        "name",
        "nominated",
        "nominated_pods",
        "occupied",
        "pods",
        "releasing",
        "slot",
        "trial_pods",
        "trial_victims",
    )  # fmt: skip

    COMPARED: ClassVar[tuple[str, ...]] = ("card_layout", "occupied", "releasing", "free")

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: NodeFacts | None = None
        self.digest = ""
        self.card_layout = ""
        """Text of the cards that the resources count: equal for nodes with equal cards."""
        self.slot = -1
        self.pods: dict[str, None] = {}
        """UIDs of the pods that occupy it."""
        self.nominated_pods: dict[str, tuple[str, ...]] = {}
        """UIDs of pods that are nominated to this node, with the devices that they hold."""
        self.trial_pods: dict[str, tuple[str, ...]] = {}
        """UIDs of pods that are placed on trial, with the devices picked for them; empty outside of a trial."""
        self.trial_victims: dict[str, None] = {}
        """UIDs of pods that are evicted on trial; empty outside of a trial."""
        self.occupied: Amounts = {}
        self.releasing: Amounts = {}
        self.nominated: Amounts = {}
        self.free: Amounts = {}

    def copy(self) -> "Node":
        """Return a copy. The facts of its object are shared."""
        twin = Node(self.name)
        twin.facts, twin.digest, twin.slot = self.facts, self.digest, self.slot
        twin.card_layout, twin.pods = self.card_layout, self.pods.copy()
        twin.nominated_pods = self.nominated_pods.copy()
        twin.trial_pods, twin.trial_victims = self.trial_pods.copy(), self.trial_victims.copy()
        twin.occupied, twin.releasing = self.occupied.copy(), self.releasing.copy()
        twin.nominated, twin.free = self.nominated.copy(), self.free.copy()
        return twin

    def rebuilt(self, cluster: "Cluster", /) -> "Node":
        """Sum up the requests of its pods again."""
        twin = Node(self.name)
        twin.facts, twin.nominated = self.facts, self.nominated
        twin.card_layout = "" if self.facts is None else card_layout_of(self.facts)
        for pod in (cluster.pods[uid] for uid in self.pods):
            for name, amount in pod.pod_class.request:
                twin.occupied[name] = twin.occupied.get(name, 0) + amount
                if pod.is_leaving:
                    twin.releasing[name] = twin.releasing.get(name, 0) + amount
        allocatable = {} if self.facts is None else self.facts.allocatable
        twin.update_free({**allocatable, **self.free}.items())
        return twin

    @property
    def is_present(self) -> bool:
        """Return whether the API server has the node."""
        return self.facts is not None

    def allocatable(self, name: str) -> int:
        """Return the allocatable amount of a resource."""
        return 0 if self.facts is None else self.facts.allocatable.get(name, 0)

    def future(self, name: str) -> int:
        """Return what will be free of a resource once terminating pods are gone and nominated pods are bound."""
        facts = self.facts
        allocatable = 0 if facts is None else facts.allocatable.get(name, 0)
        leaving = self.releasing.get(name, 0) - self.nominated.get(name, 0)
        return max(-SHORT_MAX, allocatable - self.occupied.get(name, 0) + leaving)

    def update_free(self, names: Iterable[tuple[str, int]]) -> None:
        """Compute again what is free of resources, each given with any amount."""
        allocatable = {} if self.facts is None else self.facts.allocatable
        occupied, nominated, releasing = self.occupied, self.nominated, self.releasing
        for name, _ in names:
            free = allocatable.get(name, 0) - occupied.get(name, 0)
            if nominated:
                free -= max(0, nominated.get(name, 0) - releasing.get(name, 0))
            self.free[name] = max(free, -SHORT_MAX)

    def update_all_free(self) -> None:
        """Compute again what is free of all resources."""
        self.free = {}
        if self.facts is not None:
            self.update_free({**self.facts.allocatable, **self.occupied}.items())

    def fits(self, request: Request) -> bool:
        """Return whether the request fits now."""
        free = self.free
        for name, amount in request:  # noqa: SIM110  # a generator here costs twice the time
            if amount > free.get(name, 0):
                return False
        return True

    def fits_later(self, request: Request) -> bool:
        """Return whether the request fits once terminating pods are gone."""
        return not self.lacking_later(request)

    def lacking_later(self, request: Request) -> Amounts:
        """Return what lacks for a request once terminating pods are gone and nominated pods are bound."""
        allocatable = {} if self.facts is None else self.facts.allocatable
        occupied, releasing, nominated = self.occupied, self.releasing, self.nominated
        lacking: Amounts = {}
        for name, amount in request:
            free = allocatable.get(name, 0) - occupied.get(name, 0)
            free += releasing.get(name, 0) - nominated.get(name, 0)
            if amount > free:
                lacking[name] = amount - free
        return lacking


class NodeBefore(Struct, frozen=True, gc=False):
    """What a shift of resources changes of a node and of the table, as it was before."""

    node: Node
    kind: str
    amounts: Amounts
    free: Amounts
    request: Request
    columns: int
    """Number of columns."""
    is_leaving: bool


class NodeTable(Index):
    """All present nodes, sorted by name, as columns.

    `free[name][slot]` mirrors `Node.free`. `changed_slots` lists slots whose free amounts changed, `updated_slots`
    those whose labels, taints or allocatable resources changed; each reader remembers its position in these lists.
    When nodes are added or removed, the table is laid out again and `layout` grows.
    """

    name = "node table"
    COMPARED: ClassVar[tuple[str, ...]] = ("order", "free", "allocatable", "leaving")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.order: list[Node] = []
        self.free: dict[str, npt.NDArray[np.int64]] = {}
        self.allocatable: dict[str, npt.NDArray[np.int64]] = {}
        self.changed_slots: list[int] = []
        self.updated_slots: list[int] = []
        self.layout = 0
        self.hyper_tree = HyperTree()
        """The tree of HyperNodes."""
        self.leaving: dict[str, None] = {}
        """Names of nodes with releasing or nominated resources."""
        self.gang_version = 0
        """Grows when a group of several pods holds more or less, or could lose more or fewer pods."""
        self._is_stale = True

    def rebuilt(self, _cluster: "Cluster", /) -> "NodeTable":
        """Fill the columns again from the nodes, unless nodes were added or removed since the last layout."""
        twin = NodeTable()
        twin.nodes = self.nodes
        twin.leaving = {
            name: None
            for name, node in self.nodes.items()
            if any(node.releasing.values()) or any(node.nominated.values())
        }
        twin.order, twin.free, twin.allocatable = self.order, self.free, self.allocatable
        if self.is_laid_out:
            twin.order = [node for _, node in sorted(self.nodes.items()) if node.is_present]
            twin.free, twin.allocatable = {}, {}
            for name in {name for node in twin.order for name in node.free}:
                twin._add_column(name)
        return twin

    def ensure_node(self, name: str) -> Node:
        """Return the node of this name; create it (absent) if it does not exist."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name)
        return node

    def put(self, facts: NodeFacts, digest: str) -> Node:
        """Add or update a node."""
        node = self.ensure_node(facts.name)
        came = node.facts is None
        if node.facts is None or node.facts.labels != facts.labels:
            self.hyper_tree.update_node(facts.name, facts.labels)
        node.facts, node.digest, node.card_layout = facts, digest, card_layout_of(facts)
        node.update_all_free()
        if came:
            self._is_stale = True
        elif not self._is_stale:
            self._remake(node)
        return node

    def drop(self, name: str) -> None:
        """Mark a node as absent; its pods, if any, remain."""
        node = self.nodes[name]
        node.facts, node.digest, node.card_layout, node.free, node.slot = None, "", "", {}, -1
        self._is_stale = True
        self.hyper_tree.update_node(name, None)
        self.forget(node)

    def forget(self, node: Node) -> None:
        """Delete an absent node without pods."""
        if node.facts is None and not node.pods and not any(node.nominated.values()):
            self.nodes.pop(node.name, None)
            self.leaving.pop(node.name, None)

    def shift(self, node: Node, kind: str, request: Request, sign: int) -> None:
        """Add `sign` times the request to `occupied`, `releasing` or `nominated` of the node."""
        amounts: Amounts = getattr(node, kind)
        for name, amount in request:
            amounts[name] = amounts.get(name, 0) + sign * amount
        if kind != "occupied":
            if any(node.releasing.values()) or any(node.nominated.values()):
                self.leaving[node.name] = None
            else:
                self.leaving.pop(node.name, None)
        if node.facts is None:
            return
        node.update_free(request)
        if self._is_stale:
            return
        slot = node.slot
        for name, _ in request:
            column = self.free.get(name)
            if column is None:
                self._add_column(name)
            else:
                column[slot] = node.free[name]
        self.changed_slots.append(slot)

    def set_aside(self, node: Node, kind: str, request: Request) -> NodeBefore:
        """Return what a shift of a request would change, for `put_back`; the node has copies of it from now on."""
        amounts: Amounts = getattr(node, kind)
        is_leaving = node.name in self.leaving
        before = NodeBefore(node, kind, amounts, node.free, request, len(self.free), is_leaving)
        setattr(node, kind, amounts.copy())
        node.free = node.free.copy()
        return before

    def put_back(self, before: NodeBefore) -> None:
        """Undo the latest shift, or as much of it as was done: restore every value, with the order of dicts except `leaving`. Only the
        journal of changed slots grows, because readers with caches have to read the node again."""
        node, slot, free = before.node, before.node.slot, before.free
        setattr(node, before.kind, before.amounts)
        node.free = free
        if before.is_leaving:
            self.leaving[node.name] = None
        else:
            self.leaving.pop(node.name, None)
        if len(self.free) > before.columns:
            for name in tuple(self.free)[before.columns :]:
                del self.free[name], self.allocatable[name]
        if node.facts is None or self._is_stale:
            return
        for name, _ in before.request:
            if name in self.free:
                self.free[name][slot] = free.get(name, 0)
        self.changed_slots.append(slot)

    def nominate(
        self, name: str, uid: str, request: Request, sign: int, devices: tuple[str, ...] = ()
    ) -> None:
        """Nominate a pod to a node, where it holds these devices, or (-1) remove the nomination."""
        node = self.ensure_node(name)
        if sign > 0:
            node.nominated_pods[uid] = devices
        else:
            node.nominated_pods.pop(uid, None)
        self.shift(node, "nominated", request, sign)
        self.forget(node)

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Make readers of the journal read all nodes again: under the old policy some changes were not recorded."""
        self._is_stale = True

    def outdate(self) -> None:
        """Fill the columns again when the next cycle begins: nodes have changed without them."""
        self._is_stale = True

    def invalidate(self, name: str) -> None:
        """Make readers of the journal read a node again."""
        node = self.nodes.get(name)
        if node is not None and node.facts is not None and not self._is_stale:
            self.changed_slots.append(node.slot)

    def update_predicates(self, name: str) -> None:
        """Make readers of the journal evaluate again which pods a node admits."""
        node = self.nodes.get(name)
        if node is not None and node.facts is not None and not self._is_stale:
            self.updated_slots.append(node.slot)

    @property
    def is_laid_out(self) -> bool:
        """Return whether the columns match the present nodes."""
        return not self._is_stale

    def lay_out(self) -> None:
        """Lay out the columns again if nodes were added or removed; otherwise only bound the journal."""
        if not self._is_stale:
            if len(self.changed_slots) + len(self.updated_slots) > JOURNAL_MAX:
                self.changed_slots, self.updated_slots = [], []
                self.layout += 1
            return
        self.order = [self.nodes[name] for name in sorted(self.nodes) if self.nodes[name].facts]
        for slot, node in enumerate(self.order):
            node.slot = slot
        self.free, self.allocatable = {}, {}
        for name in sorted({name for node in self.order for name in node.free}):
            self._add_column(name)
        self.changed_slots, self.updated_slots = [], []
        self.layout += 1
        self._is_stale = False

    def column(self, name: str) -> npt.NDArray[np.int64] | None:
        """Return the free amounts of a resource by slot; None if no node has it."""
        return self.free.get(name)

    def _add_column(self, name: str) -> None:
        self.free[name] = np.array([node.free.get(name, 0) for node in self.order], dtype=np.int64)
        self.allocatable[name] = np.array(
            [0 if one.facts is None else one.facts.allocatable.get(name, 0) for one in self.order],
            dtype=np.int64,
        )

    def _remake(self, node: Node) -> None:
        for name, free in node.free.items():
            if name in self.free:
                self.free[name][node.slot] = free
                self.allocatable[name][node.slot] = node.allocatable(name)
            else:
                self._add_column(name)
        for name in self.free.keys() - node.free.keys():
            self.free[name][node.slot] = self.allocatable[name][node.slot] = 0
        self.updated_slots.append(node.slot)
