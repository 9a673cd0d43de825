"""Equivalence classes by the events that could change their answers.

    event -> the classes whose heads wait for it

The index returns at least the classes that `scheduling/requeue.py` would requeue: where an event is looked up by less
than all that decides (a request may fit a node that lacks the pod's card), the caller checks each class. It is
updated from the journal of changed pod groups and can be built again from State at any time.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from events import requeue
from projections.cluster import Cluster
from projections.nodes import Node, Request
from projections.pod_groups import PodGroup
from projections.policy.policy import RECLAIMING, Policy
from projections.quota_charging import cards_of_charge
from projections.scheduling_queue import EquivalenceGroup
from projections.wakeup_events import ALL_PODS, ALL_RESOURCES, ALL_VOLUMES, WakeupEvents
from scheduling.preemptible_capacity import VictimIndex
from scheduling.quota.enqueue_check import ClusterQuota
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.requeue import FREED_MAX
from scheduling.victim_eligibility import eviction_limits

REQUESTS_MAX: Final = 16
"""If the pods of a group have more unlike requests than this, it is looked up with every node."""

COLUMNS_MAX: Final = 32
"""Number of resources by which requests are looked up; others are left to the caller."""

AMOUNT_MAX: Final = 1 << 60
"""Larger amounts are compared as this one."""

Key: TypeAlias = tuple[str, ...]
"""What is awaited, in the terms of the index: a kind, and a queue or a resource."""

Classes: TypeAlias = dict[int, EquivalenceGroup]
"""Equivalence classes by identity."""

ALWAYS: Final[Key] = ("always",)
"""Classes that are looked up whatever happens: not refused, or refused for a reason that no event names."""

FITS: Final = "fits"
FITS_EMPTY: Final = "fits when empty"
FITS_AFTER_EVICTION: Final = "fits after eviction"
FITS_AFTER_RECLAIM: Final = "fits after reclaim"


class RequestTable:
    """Unlike requests as rows of one table, and the classes that wait for a node with so much."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._rows: dict[Request, int] = {}
        self._classes: list[Classes] = []
        self._unused: list[int] = []
        self.amounts = np.full((8, 4), -AMOUNT_MAX, dtype=np.int64)

    def add(self, request: Request, equivalence_group: EquivalenceGroup) -> None:
        """Add a class that waits for a request."""
        row = self._rows.get(request)
        if row is None:
            row = self._rows[request] = self._unused.pop() if self._unused else len(self._classes)
            if row == len(self._classes):
                self._classes.append({})
            self._write(row, request)
        self._classes[row][id(equivalence_group)] = equivalence_group

    def discard(self, request: Request, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class that waits for a request."""
        row = self._rows[request]
        del self._classes[row][id(equivalence_group)]
        if not self._classes[row]:
            del self._rows[request]
            self._unused.append(row)
            self.amounts[row] = AMOUNT_MAX + 1  # Fits nowhere.

    def within(self, amount_of: Callable[[str], int]) -> Iterator[Classes]:
        """Yield the classes whose requests are within these amounts."""
        if not self._rows:
            return
        most = [max(-AMOUNT_MAX, min(AMOUNT_MAX, amount_of(name))) for name in self._columns]
        most += [AMOUNT_MAX] * (self.amounts.shape[1] - len(most))
        found = (self.amounts[: len(self._classes)] <= np.array(most)).all(axis=1)
        for row in np.flatnonzero(found):
            yield self._classes[row]

    @property
    def is_used(self) -> bool:
        """Return True if any class waits."""
        return bool(self._rows)

    def entries(self) -> Iterator[tuple[str, Classes]]:
        """Yield each request with the amounts that stand for it, and its classes."""
        for request, row in self._rows.items():
            amounts = {name: int(self.amounts[row, at]) for name, at in self._columns.items()}
            stated = {name: one for name, one in amounts.items() if one != -AMOUNT_MAX}
            yield f"{request} {sorted(stated.items())}", self._classes[row]

    def all(self) -> Iterator[Classes]:
        """Yield all classes."""
        for row in self._rows.values():
            yield self._classes[row]

    def _write(self, row: int, request: Request) -> None:
        for name, _ in request:
            if name not in self._columns and len(self._columns) < COLUMNS_MAX:
                self._columns[name] = len(self._columns)
        rows, columns = self.amounts.shape
        if row >= rows or len(self._columns) > columns:
            shape = (max(rows, 2 * row), max(columns, 2 * len(self._columns)))
            larger: npt.NDArray[np.int64] = np.full(shape, -AMOUNT_MAX, dtype=np.int64)
            larger[:rows, :columns] = self.amounts
            larger[self._unused, columns:] = AMOUNT_MAX + 1
            self.amounts = larger
        self.amounts[row] = -AMOUNT_MAX
        for name, amount in request:
            if name in self._columns:
                self.amounts[row, self._columns[name]] = min(amount, AMOUNT_MAX)


class AmountTable:
    """The classes that wait until so much of a resource can be reserved."""

    def __init__(self) -> None:
        self._amounts: list[int] = []
        self._classes: dict[int, Classes] = {}

    def add(self, amount: int, equivalence_group: EquivalenceGroup) -> None:
        """Add a class that waits for an amount."""
        if amount not in self._classes:
            insort(self._amounts, amount)
            self._classes[amount] = {}
        self._classes[amount][id(equivalence_group)] = equivalence_group

    def discard(self, amount: int, equivalence_group: EquivalenceGroup) -> None:
        """Remove a class that waits for an amount."""
        _discard(self._classes, amount, id(equivalence_group))
        if amount not in self._classes:
            del self._amounts[bisect_left(self._amounts, amount)]

    def within(self, most: int | None) -> Iterator[Classes]:
        """Yield the classes that wait for no more than `most`; all of them for None."""
        end = len(self._amounts) if most is None else bisect_right(self._amounts, most)
        for amount in self._amounts[:end]:
            yield self._classes[amount]

    def entries(self) -> Iterator[tuple[str, Classes]]:
        """Yield each amount and its classes."""
        for amount in self._amounts:
            yield f"{amount}", self._classes[amount]


class _OfAction:
    """The classes of one action."""

    def __init__(self) -> None:
        self.all: Classes = {}
        self.by_key: dict[Key, Classes] = {}
        self.by_quota: dict[str, dict[str, Classes]] = {}
        """Queue to quota name to the classes that wait for it; "" for a change of the limits of the queue."""
        self.by_request: dict[str, dict[tuple[str, ...], RequestTable]] = {}
        """Kind of fitting to the cards of a pod to the requests."""
        self.by_amount: dict[tuple[str, int], AmountTable] = {}
        """Resource of the cluster and priority to the classes that wait for it."""

    def entries(self) -> Iterator[tuple[str, Classes]]:
        """Yield all entries."""
        yield "all", self.all
        for key, classes in self.by_key.items():
            yield f"{key}", classes
        for queue, names in self.by_quota.items():
            for name, classes in names.items():
                yield f"quota {name} of {queue}", classes
        for kind, tables in self.by_request.items():
            for cards, table in tables.items():
                for text, classes in table.entries():
                    yield f"{kind} {cards} {text}", classes
        for (name, priority), amounts in self.by_amount.items():
            for text, classes in amounts.entries():
                yield f"{name} of the cluster, priority {priority}, {text}", classes


class _Registration:
    """Where one class stands in the index."""

    __slots__ = ("amounts", "equivalence_group", "head", "keys", "quotas", "requests")

    def __init__(self, equivalence_group: EquivalenceGroup) -> None:
        self.equivalence_group = equivalence_group
        self.head: PodGroup = equivalence_group.head
        self.keys: dict[Key, None] = {}
        self.quotas: dict[tuple[str, str], None] = {}
        """(queue, quota name)"""
        self.requests: dict[tuple[str, tuple[str, ...], Request], None] = {}
        """(kind of fitting, cards, request)"""
        self.amounts: dict[tuple[str, int, int], None] = {}
        """(resource of the cluster, priority of the head, amount)"""

    def add_requests(self, kind: str) -> None:
        """Add the unlike requests of the pods that wait; any node counts if there are too many."""
        head = self.head
        waiting = [
            one
            for index, one in head.classes.items()
            if index in head.pending_classes or one.is_best_effort
        ]
        asked = dict.fromkeys((one.cards, one.request) for one in waiting)
        if len(asked) > REQUESTS_MAX:
            self.keys["any node",] = None
            return
        if head.counts.allocated and kind in (FITS_AFTER_EVICTION, FITS_AFTER_RECLAIM):
            self.keys["has pods",] = None
        for cards, request in asked:
            self.requests[kind, () if kind == FITS_EMPTY else cards, request] = None

    @property
    def pods_key(self) -> Key:
        """Return the key for changes of pods that concern affinity and spread."""
        has_terms = any(one.depends_on_other_pods for one in self.head.classes.values())
        return ("pods with terms",) if has_terms else ("pods without terms",)

    def is_same_as(self, other: "_Registration") -> bool:
        """Return True if a class stands in the same places."""
        return (
            self.head is other.head
            and self.keys == other.keys
            and self.quotas == other.quotas
            and self.requests == other.requests
            and self.amounts == other.amounts
        )


class RequeueIndex:
    """The index of one State."""

    def __init__(
        self, cluster: Cluster, donors: VictimIndex, reclaimable: ReclaimableResources
    ) -> None:
        self._cluster = cluster
        self._donors = donors
        self._reclaimable = reclaimable
        self._policy: Policy | None = None
        self._tree_version = self._version = -1
        self._journal: list[str] = []
        self._read = 0
        self.by_action: dict[str, _OfAction] = {}
        self._registered: dict[int, _Registration] = {}
        self.by_head: dict[str, Classes] = {}
        """Pod group to the classes that are registered with it as their head."""

    def candidates(self, events: WakeupEvents, action: str | None = None) -> Classes:
        """Return at least the classes, of one action or of all, that these events requeue.

        For one action, classes for whose minimum the cluster cannot reserve a resource that they await are left out.
        """
        self.refresh()
        found: Classes = {}
        for name, of_action in self.by_action.items():
            if action in (None, name):
                self._collect(name, of_action, events, found)
                if "" in events.quota_released:
                    for classes in self._waiting_for_cluster(
                        of_action, events.quota_released[""], only_possible=action is not None
                    ):
                        found.update(classes)
        return found

    def certain(self, events: WakeupEvents, action: str) -> Classes:
        """Return those of the candidates of an action of which no other condition must be checked: there is room for
        them on a freed node, or the cluster can reserve what they await."""
        self.refresh()
        found: Classes = {}
        of_action = self.by_action.get(action)
        if of_action is None:
            return found
        for classes in self._fitting_freed_nodes(of_action, events):
            found.update(classes)
        if released := events.quota_released.get(""):
            for classes in self._waiting_for_cluster(of_action, released, only_possible=True):
                found.update(classes)
        return found

    def refresh(self) -> None:
        """Apply the changes of pod groups since the last call."""
        cluster = self._cluster
        version = cluster.pod_groups.journal_version
        if (
            self._policy is not cluster.policy
            or version > self._version + 1
            or (
                cluster.plugins.quota.keeps_tree
                and self._tree_version != cluster.queue_tree.version
            )
        ):
            self._rebuild()
            return
        changed = dict.fromkeys(self._journal[self._read :])
        if self._journal is not cluster.pod_groups.journal:
            changed.update(dict.fromkeys(cluster.pod_groups.journal))
            self._journal = cluster.pod_groups.journal
        self._version, self._read = version, len(self._journal)
        for key in changed:
            self._update(key)

    def audit(self) -> None:
        """Raise AssertionError if the index differs from one that is built again from State."""
        self.refresh()
        again = RequeueIndex(self._cluster, self._donors, self._reclaimable)
        again.refresh()
        kept, counted = sorted(self._content()), sorted(again._content())
        for one in kept:
            assert one in counted, f"requeue index: {one} is kept and not counted"
        for one in counted:
            assert one in kept, f"requeue index: {one} is counted and not kept"

    def _content(self) -> Iterator[str]:
        """Yield all entries in words."""
        for action, of_action in self.by_action.items():
            for where, classes in of_action.entries():
                for one in classes.values():
                    yield f"{action} {where} {one.queue} {one.key}"
        for key, classes in self.by_head.items():
            for one in classes.values():
                assert self._registered[id(one)].head.key == key, (
                    f"{key} is not the head of {one.key}"
                )
                yield f"head {key} {one.queue} {one.key}"

    # Lookup

    def _collect(
        self, action: str, of_action: _OfAction, events: WakeupEvents, found: Classes
    ) -> None:
        if events.everything:
            found.update(of_action.all)
            return

        def add(*keys: Key) -> None:
            for key in keys:
                found.update(of_action.by_key.get(key, {}))

        add(ALWAYS)
        if events.hyper_nodes_changed_at:
            add(("hyper-nodes",))
        if events.quota_released:
            for classes in self._waiting_for_quota(of_action, events):
                found.update(classes)
        if events.victims_added:
            add(("admission by others",))
            add(*(("victims of", queue) for queue in events.victims_added))
            if any(queue in self._donors.names for queue in events.victims_added):
                add(("victims of others",))
        if events.nodes_freed:
            add(("any node",), ("has pods",))
            for classes in self._waiting_for_nodes(action, of_action, events):
                found.update(classes)
        if events.nodes_updated:
            for classes in self._waiting_for_updates(of_action, events):
                found.update(classes)
        if ALL_VOLUMES in events.volumes_changed:
            add(("volumes",))
        elif events.volumes_changed:
            add(("volumes", ALL_VOLUMES), *(("volumes", one) for one in events.volumes_changed))
        if events.changed_pod_kinds:
            add(("pods with terms",))
            kinds = events.changed_pod_kinds
            if ALL_PODS not in kinds and any(one.anti_affinity for one in kinds):
                add(("pods without terms",))

    def _waiting_for_quota(self, of_action: _OfAction, events: WakeupEvents) -> Iterator[Classes]:
        by_quota, everywhere = of_action.by_quota, events.quota_released.get("", {})
        is_everywhere = ALL_RESOURCES in everywhere
        for queue in by_quota if is_everywhere else events.quota_released:
            released = events.quota_released.get(queue, {})
            is_all = is_everywhere or ALL_RESOURCES in released
            for name, classes in by_quota.get(queue, {}).items():
                if is_all or self._is_released(name, released):
                    yield classes
        for queue in events.quota_released:
            yield of_action.by_key.get(("any quota", queue), {})

    def _waiting_for_cluster(
        self, of_action: _OfAction, released: dict[str, None], *, only_possible: bool
    ) -> Iterator[Classes]:
        """Yield the classes that wait for a released resource of the cluster; with `only_possible`, those for which
        it can reserve enough."""
        plugins = self._cluster.plugins.of(ClusterQuota)
        is_all = ALL_RESOURCES in released
        for (name, priority), table in of_action.by_amount.items():
            if not is_all and not self._is_released(name, released):
                continue
            most = None
            if only_possible and not is_all and not self._reclaimable.may_release_for(priority):
                most = min([one.available(self._cluster, name) for one in plugins], default=None)
            yield from table.within(most)

    def _is_released(self, name: str, released: dict[str, None]) -> bool:
        if not name:
            return False
        return name in released or any(
            card in released for card in cards_of_charge(self._cluster, name)
        )

    def _waiting_for_nodes(
        self, action: str, of_action: _OfAction, events: WakeupEvents
    ) -> Iterator[Classes]:
        """Yield the classes that could use freed nodes, as they are or after evictions."""
        yield from self._fitting_freed_nodes(of_action, events)
        has_donors = bool(self._donors.names)
        if len(events.nodes_freed) > FREED_MAX:
            for kind in (FITS_AFTER_EVICTION, *([FITS_AFTER_RECLAIM] if has_donors else [])):
                for table in of_action.by_request.get(kind, {}).values():
                    yield from table.all()
            return
        for name in events.nodes_freed:
            node = self._cluster.nodes.nodes.get(name)
            if node is not None and node.facts is not None:
                yield from self._evicting(action, of_action, node, has_donors=has_donors)

    def _fitting_freed_nodes(self, of_action: _OfAction, events: WakeupEvents) -> Iterator[Classes]:
        """Yield the classes for which there is room on a freed node; all that wait for one if too many were freed."""
        if len(events.nodes_freed) > FREED_MAX:
            for table in of_action.by_request.get(FITS, {}).values():
                yield from table.all()
            return
        nodes = self._cluster.nodes
        for name in events.nodes_freed if FITS in of_action.by_request else ():
            node = nodes.nodes.get(name)
            if node is not None and node.facts is not None:
                room = _room_on(node, is_leaving=name in nodes.leaving)
                yield from self._fitting(of_action, FITS, node, room)

    def _evicting(
        self, action: str, of_action: _OfAction, node: Node, *, has_donors: bool
    ) -> Iterator[Classes]:
        """Yield the classes for which evictions could free a node."""
        if action in RECLAIMING:
            if not has_donors or FITS_AFTER_RECLAIM not in of_action.by_request:
                return
            freed: dict[str, int] = {}
            limits = eviction_limits(self._cluster, action)
            for key, amounts in self._donors.on_node(node).items():
                queue, _, has_surplus, is_protected = key
                is_donor = queue in self._donors.names and (has_surplus or not limits.needs_surplus)
                is_donor = is_donor and not (is_protected and not limits.takes_protected)
                for name, amount in amounts.items() if is_donor else ():
                    freed[name] = freed.get(name, 0) + amount
            yield from self._fitting(
                of_action,
                FITS_AFTER_RECLAIM,
                node,
                lambda name: node.future(name) + freed.get(name, 0),
            )
        elif FITS_AFTER_EVICTION in of_action.by_request:
            yield from self._fitting(of_action, FITS_AFTER_EVICTION, node, node.future)
            for queue, *_, is_protected in self._donors.on_node(node):
                if not is_protected:
                    yield of_action.by_key.get(("victims of", queue), {})

    def _waiting_for_updates(self, of_action: _OfAction, events: WakeupEvents) -> Iterator[Classes]:
        for name in events.nodes_updated:
            node = self._cluster.nodes.nodes.get(name)
            if node is not None:
                for table in of_action.by_request.get(FITS_EMPTY, {}).values():
                    yield from table.within(node.allocatable)

    def _fitting(
        self, of_action: _OfAction, kind: str, node: Node, amount_of: Callable[[str], int]
    ) -> Iterator[Classes]:
        has_named_card = self._cluster.plugins.quota.has_named_card
        there = () if node.facts is None else tuple(node.facts.cards.values())
        for cards, table in of_action.by_request.get(kind, {}).items():
            if has_named_card(there, cards):
                yield from table.within(amount_of)

    # Maintenance

    def _rebuild(self) -> None:
        cluster = self._cluster
        self._policy, self._tree_version = cluster.policy, cluster.queue_tree.version
        self._journal, self._version = (
            cluster.pod_groups.journal,
            cluster.pod_groups.journal_version,
        )
        self._read = len(self._journal)
        self.by_action, self._registered, self.by_head = {}, {}, {}
        for groups in cluster.scheduling_queue.by_queue.values():
            for equivalence_group in groups.values():
                self._register(equivalence_group, self._registration(equivalence_group))

    def _update(self, key: str) -> None:
        """Register the classes again that have, or had, a group as their head."""
        group = self._cluster.groups.get(key)
        affected = dict(self.by_head.get(key, {}))
        if group is not None:
            for one in self._cluster.scheduling_queue.of(group):
                known = self._registered.get(id(one))
                if known is None or known.head is not one.head:
                    affected[id(one)] = one
        for one in affected.values():
            if not one.jobs:
                self._remove(one)
                continue
            known, found = self._registered.get(id(one)), self._registration(one)
            if known is None or not known.is_same_as(found):
                self._remove(one)
                self._register(one, found)

    def _register(self, equivalence_group: EquivalenceGroup, found: _Registration) -> None:
        key = id(equivalence_group)
        self._registered[key] = found
        self.by_head.setdefault(found.head.key, {})[key] = equivalence_group
        of_action = self.by_action.setdefault(equivalence_group.action, _OfAction())
        of_action.all[key] = equivalence_group
        for one in found.keys:
            of_action.by_key.setdefault(one, {})[key] = equivalence_group
        for queue, name in found.quotas:
            names = of_action.by_quota.setdefault(queue, {})
            names.setdefault(name, {})[key] = equivalence_group
        for name, priority, amount in found.amounts:
            of_action.by_amount.setdefault((name, priority), AmountTable()).add(
                amount, equivalence_group
            )
        for kind, cards, request in found.requests:
            tables = of_action.by_request.setdefault(kind, {})
            tables.setdefault(cards, RequestTable()).add(request, equivalence_group)

    def _remove(self, equivalence_group: EquivalenceGroup) -> None:
        key = id(equivalence_group)
        found = self._registered.pop(key, None)
        if found is None:
            return
        _discard(self.by_head, found.head.key, key)
        of_action = self.by_action[equivalence_group.action]
        del of_action.all[key]
        for one in found.keys:
            _discard(of_action.by_key, one, key)
        for queue, name in found.quotas:
            names = of_action.by_quota[queue]
            _discard(names, name, key)
            if not names:
                del of_action.by_quota[queue]
        for name, priority, amount in found.amounts:
            of_action.by_amount[name, priority].discard(amount, equivalence_group)
        for kind, cards, request in found.requests:
            tables = of_action.by_request[kind]
            tables[cards].discard(request, equivalence_group)
            if not tables[cards].is_used:
                del tables[cards]

    def _registration(self, equivalence_group: EquivalenceGroup) -> _Registration:
        """Return where a class belongs."""
        found = _Registration(equivalence_group)
        head, action = equivalence_group.head, equivalence_group.action
        if head.has_topology_constraint:
            found.keys["hyper-nodes",] = None
        refusal = head.decided.refusals.get(action)
        if refusal is None or head.decided.nominations:
            found.keys[ALWAYS] = None
        for one in () if refusal is None else refusal.requeue_on:
            self._await(found, one)
        return found

    def _await(self, found: _Registration, awaited: str) -> None:
        """Add an awaited event (`events/requeue.py`) to a registration."""
        queue, keys = found.equivalence_group.queue, found.keys
        match awaited:
            case requeue.NODE_FREED:
                found.add_requests(FITS)
            case requeue.NODE_UPDATED:
                found.add_requests(FITS_EMPTY)
            case requeue.ANY_NODE:
                keys["any node",] = None
            case requeue.PODS_CHANGED:
                keys[found.pods_key] = None
            case requeue.ANY_QUOTA:
                keys["any quota", queue] = None
            case requeue.QUEUE_UPDATED:
                self._await_quota(found, "")
            case requeue.VICTIMS_OF_QUEUE:
                keys["victims of", queue] = None
                found.add_requests(FITS_AFTER_EVICTION)
            case requeue.VICTIMS_OF_OTHERS:
                keys["victims of others",] = keys["any quota", queue] = None
                keys[found.pods_key] = None
                found.add_requests(FITS_AFTER_RECLAIM)
            case requeue.ADMISSION_BY_QUEUE:
                keys["victims of", queue] = None
            case requeue.ADMISSION_BY_OTHERS:
                keys["admission by others",] = None
                found.quotas[queue, ""] = None
            case requeue.HYPER_NODES:
                keys["hyper-nodes",] = None
            case requeue.CLASS_BUDGET:
                keys[ALWAYS] = None
            case _ if awaited.startswith(requeue.VOLUMES):
                keys["volumes", awaited.removeprefix(requeue.VOLUMES)] = None
                keys["volumes",] = None
            case _ if awaited.startswith(requeue.CLUSTER_QUOTA):
                name, plugins = awaited.removeprefix(requeue.CLUSTER_QUOTA), self._cluster.plugins
                amounts = [one.awaited(found.head, name) for one in plugins.of(ClusterQuota)]
                found.amounts[name, found.head.priority, max(amounts, default=0)] = None
            case _:
                self._await_quota(found, awaited.removeprefix(requeue.QUOTA))

    def _await_quota(self, found: _Registration, name: str) -> None:
        queue = self._cluster.queues.get(found.equivalence_group.queue)
        if queue is None:
            found.quotas[found.equivalence_group.queue, name] = None
            return
        for one in queue.lineage:
            found.quotas[one.name, name] = None


def _room_on(node: Node, *, is_leaving: bool) -> Callable[[str], int]:
    """Return the amounts that a node has free, now or once terminating pods are gone."""

    def amount_of(name: str) -> int:
        free = node.free.get(name, 0)
        return max(free, node.future(name)) if is_leaving else free

    return amount_of


_K = TypeVar("_K")


def _discard(buckets: dict[_K, Classes], key: _K, member: int) -> None:
    """Remove a class from one of the buckets, and the bucket if it is empty."""
    del buckets[key][member]
    if not buckets[key]:
        del buckets[key]
