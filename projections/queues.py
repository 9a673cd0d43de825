"""Queues: their limits, and what is charged to them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, structs

from events.limits import RESOURCE_BYTES_MAX, clipped, name_problem, object_name_problem, quoted
from projections.cards import QUOTA_ANNOTATION, parse_quota
from projections.objects import (
    Guarantee,
    Quantities,
    QueueObject,
    QueueSpec,
    QueueStatus,
    nanoseconds_of,
)
from projections.pod_class import Amounts, amount_of
from projections.pods import ALLOCATED, Charge, Pod
from projections.policy.namespace_rule import ALL_NAMESPACES, NamespaceRule, stated_rule
from projections.quantity import Quantity, QuantityError
from projections.resource_names import is_quota_name

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup

LEVELS_MAX: Final = 16
"""Levels of queues below the root. Each charge is added to every queue above, so a level costs time with every pod;
organizations have fewer than ten."""

Faults = tuple[tuple[str, str], ...]
"""Code and message of fields that could not be read."""

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

LEDGERS = ("allocated", "held", "nominated", "pending", "inqueue", "elastic")
"""Ledgers that are summed up for the queues above."""

NOTHING_BELOW: Final[Mapping[str, Amounts]] = MappingProxyType({})

DEFAULT = "default"
"""Queue of pods and pod groups that name none."""


class QueueFacts(Struct, frozen=True):
    """What muster reads of a Queue."""

    name: str
    uid: str
    priority: int
    weight: int
    is_reclaimable: bool
    is_open: bool
    capability: Amounts
    guarantee: Amounts
    deserved: Amounts
    quota: Amounts
    """Card name to whole cards; a card that is not listed cannot be used."""
    created_ns: int
    parent: str = ""
    """Its parent queue, if queues form a tree; "" for the root."""
    path: tuple[tuple[str, int], ...] = ()
    """Names and weights (in thousandths) from the root down to this queue, if annotations state them."""
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message of fields that could not be read."""
    state: str = "Open"
    """State in its status: Open, Closing, Closed or Unknown; Open if there is none."""
    reported_allocated: tuple[tuple[str, int], ...] = ()
    """Allocated amounts in its status, by name; -1 for a value that cannot be read."""
    namespaces: NamespaceRule = ALL_NAMESPACES
    """The namespaces that may use it, as its annotations state."""


def queue_facts(obj: QueueObject) -> QueueFacts:
    """Return what muster reads of a Queue. A field that cannot be read counts as 0 and is named in `faults`."""
    spec, status = obj.spec or QueueSpec(), obj.status or QueueStatus()
    faults: list[tuple[str, str]] = []
    annotation = (obj.metadata.annotations or {}).get(QUOTA_ANNOTATION)
    quota = parse_quota(annotation) if annotation is not None else {}
    if isinstance(quota, str):
        faults.append(("InvalidCardQuota", f"{QUOTA_ANNOTATION}: {quota}; the queue has no cards"))
        quota = {}
    path = _path(obj.metadata.annotations or {}, faults)
    namespaces, problem = stated_rule(obj.metadata.annotations or {})
    if problem:
        faults.append(("InvalidNamespaces", problem))
    guarantee = (spec.guarantee or Guarantee()).resource or {}
    deserved = _amounts("deserved", spec.deserved, faults)
    capability = _amounts("capability", spec.capability, faults)
    parent = spec.parent or ""
    if problem := object_name_problem(parent):
        faults.append(("InvalidQueue", f"spec.parent: {problem}; it counts as absent"))
        parent = ""
    return QueueFacts(
        name=obj.metadata.name,
        uid=obj.metadata.uid or "",
        priority=spec.priority or 0,
        weight=1 if spec.weight is None else spec.weight,
        is_reclaimable=spec.reclaimable is not False,
        is_open=(status.state or "Open") == "Open",
        state=clipped(status.state or "Open"),
        capability=capability,
        guarantee=_within_capability(_amounts("guarantee", guarantee, faults), capability, faults),
        deserved=deserved,
        quota=quota,
        created_ns=nanoseconds_of(obj.metadata.creationTimestamp),
        parent=parent,
        path=path,
        faults=tuple(faults),
        reported_allocated=tuple(
            (name, _stated_amount(name, given)) for name, given in sorted(_stated(status))
        ),
        namespaces=namespaces,
    )


def _path(
    annotations: dict[str, str], faults: list[tuple[str, str]]
) -> tuple[tuple[str, int], ...]:
    """Return the path to the queue. A weight that is missing, below 1 or not a number is 1, as in Volcano."""
    if not annotations.get(HIERARCHY):
        return ()
    stated_names = annotations[HIERARCHY]
    names = stated_names.split("/", LEVELS_MAX + 2)
    problems = [text for one in names if (text := name_problem(one))]
    if len(names) > LEVELS_MAX + 1:
        problems = [f"more than {LEVELS_MAX} levels below the root"]
    if problems:
        text = f"{HIERARCHY}: {problems[0]}; it is as if it was not there"
        faults.append(("InvalidHierarchy", text))
        return ()
    stated = annotations.get(HIERARCHY_WEIGHTS) or ""
    given = stated.split("/", LEVELS_MAX + 2) if stated else []
    if len(given) != len(names) or not all(_WEIGHT.fullmatch(one) for one in given):
        text = f"{HIERARCHY_WEIGHTS}: {quoted(stated)} does not weigh {quoted(stated_names)}"
        faults.append(("InvalidHierarchy", f"{text}; what is missing counts as 1"))
    given += [""] * (len(names) - len(given))
    weights = [int(Fraction(one) * 1000) if _WEIGHT.fullmatch(one) else 0 for one in given]
    return tuple((name, max(1000, weight)) for name, weight in zip(names, weights, strict=False))


def _stated(status: QueueStatus) -> Iterable[tuple[str, Quantity]]:
    return (status.allocated or {}).items()


def _stated_amount(name: str, quantity: Quantity) -> int:
    try:
        return amount_of(name, quantity)
    except QuantityError:
        return -1


def _amounts(field: str, given: Quantities | None, faults: list[tuple[str, str]]) -> Amounts:
    amounts: Amounts = {}
    for name, quantity in (given or {}).items():
        if problem := name_problem(name, RESOURCE_BYTES_MAX):
            faults.append(("InvalidQuantity", f"spec.{field}: {problem}; it counts as absent"))
            continue
        if is_quota_name(name):
            text = f"spec.{field}: {quoted(name)} is a name of a ResourceQuota and no resource; it counts as absent"
            faults.append(("InvalidQuantity", text))
            continue
        try:
            amounts[name] = amount_of(name, quantity)
            if amounts[name] < 0:
                raise QuantityError(f"{quoted(quantity)} is negative")
        except QuantityError as error:
            amounts[name] = 0
            faults.append(("InvalidQuantity", f"spec.{field}.{name}: {error}; it counts as 0"))
    return amounts


def _within_capability(
    guarantee: Amounts, capability: Amounts, faults: list[tuple[str, str]]
) -> Amounts:
    """Return a guarantee cut to the capability of the queue. A capability of 0 for cpu or memory is none."""
    within: Amounts = {}
    for name, amount in guarantee.items():
        most = capability.get(name, 0)
        is_limited = most > 0 or (name in capability and name not in ("cpu", "memory"))
        within[name] = min(amount, most) if is_limited else amount
        if within[name] < amount:
            text = f"spec.guarantee.{name} is more than spec.capability.{name}; it counts as that"
            faults.append(("InvalidQuantity", text))
    return within


class Queue:
    """A queue and its ledgers, by charge name. Only State changes it."""

    __slots__ = (
        "_changes",
        "above",
        "allocated",
        "children",
        "deserved",
        "digest",
        "elastic",
        "evictable",
        "facts",
        "groups",
        "held",
        "inqueue",
        "is_in_tree",
        "misplaced",
        "name",
        "nominated",
        "parent",
        "pending",
        "protected",
        "rejects_status_updates",
        "reported_errors",
        "sums",
    )  # fmt: skip

    COMPARED: ClassVar[tuple[str, ...]] = (
        "allocated",
        "held",
        "evictable",
        "protected",
        "nominated",
        "pending",
        "inqueue",
        "elastic",
        "sums",
        "deserved",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: QueueFacts | None = None
        """Facts of its Queue object, or None."""
        self.digest = ""
        self.rejects_status_updates = False
        """Whether the API server rejected the status update for good: not retried until the object changes."""
        self.groups: dict[str, None] = {}
        """Keys of its pod groups."""
        self.allocated: Amounts = {}
        """Charges of pods that are binding, bound or running."""
        self.held: Amounts = {}
        """Requests of the same pods, by resource, charged or not."""
        self.protected = 0
        """Number of charged pods that `volcano.sh/preemptable` protects."""
        self.evictable: dict[int, tuple[Amounts, Amounts]] = {}
        """Priority to the charges and requests of those of these pods that may be evicted."""
        self.nominated: Amounts = {}
        """Charges of nominated pods, and what is kept for jobs that are restarted."""
        self.pending: Amounts = {}
        """Charges that pending pods would have; a choice of cards has a compound name."""
        self.inqueue: Amounts = {}
        """Reserved for admitted groups and not yet used by them."""
        self.elastic: Amounts = {}
        """Used by groups above their minimum."""
        self.deserved: Amounts = {}
        """What its object states as deserved, with the quotas of cards."""
        self._changes: tuple[Amounts, Amounts] = ({}, {})
        """Changes by the current record of what is used, and of what is used or reserved."""
        self.above: Queue | None = None
        """The queue that its object names as its parent, by default the root, if that has an object. Its amounts are part
        of the sums there, whether or not the policy makes a tree of queues."""
        self.sums: dict[str, Amounts] = {}
        """Ledger to the sum over all queues below it."""
        self.is_in_tree = False
        """Whether the policy makes a tree of queues: then quotas of the queues above hold for it, too."""
        self.parent: Queue | None = None
        """Its parent queue, if queues form a tree."""
        self.children: dict[str, None] = {}
        self.misplaced = ""
        """Why it has no place in the tree, or ""."""
        self.reported_errors: tuple[tuple[str, str], ...] = ()
        """Errors of its object that are in the log."""

    def set_object(self, facts: QueueFacts | None, digest: str) -> None:
        """Set the facts and the digest of its object; None and "" without an object."""
        self.facts, self.digest = facts, digest
        stated = {} if facts is None else {**facts.deserved, **facts.quota}
        self.deserved = {name: one for name, one in stated.items() if one}

    def has_same_spec(self, facts: QueueFacts | None) -> bool:
        """Return whether the object is unchanged except for the reported amounts in its status."""
        before = self.facts
        if before is None or facts is None:
            return False
        return structs.replace(before, reported_allocated=()) == structs.replace(
            facts, reported_allocated=()
        )

    @property
    def lineage(self) -> tuple["Queue", ...]:
        """Return the queue and all queues above it, itself first."""
        if self.parent is None:
            return (self,)
        return (self, *self.parent.lineage)

    @property
    def closed_reason(self) -> tuple[str, str] | None:
        """Return code and message of why the queue does not accept pod groups; None if it does."""
        if self.facts is None:
            if self.name == DEFAULT:
                return None
            return "QueueNotFound", f"Queue <{self.name}> does not exist"
        if not self.facts.is_open:
            return "QueueNotOpen", f"Queue <{self.name}> is not open"
        if self.misplaced:
            text = f"Queue <{self.name}> has no place among queues: {self.misplaced}"
            return "QueueMisplaced", text
        if self.children:
            text = f"Queue <{self.name}> is above other queues and takes no pod groups itself"
            return "QueueNotLeaf", text
        return None

    def clear_ledgers(self) -> None:
        """Empty the ledgers, with the sums over the queues below, before they are summed up again."""
        for ledger in LEDGERS:
            setattr(self, ledger, {})
        self.evictable, self.protected = {}, 0
        self.sums, self._changes = {}, ({}, {})

    def reset_place(self) -> None:
        """Remove the queue from the tree."""
        self.parent, self.children, self.misplaced = None, {}, ""
        self.above, self.sums, self.is_in_tree = None, {}, False

    @property
    def below(self) -> Mapping[str, Amounts]:
        """Return ledger to the sum over all queues below it in the tree; nothing without a tree."""
        return self.sums if self.is_in_tree else NOTHING_BELOW

    @property
    def ancestors(self) -> Iterator["Queue"]:
        """Yield the queues whose sums its amounts are part of, nearest first."""
        above = self.above
        while above is not None:
            yield above
            above = above.above

    def sum_of(self, ledger: str, name: str) -> int:
        """Return an amount of a ledger, including all queues below."""
        own: Amounts = getattr(self, ledger)
        if not self.below:
            return own.get(name, 0)
        return own.get(name, 0) + self.below.get(ledger, {}).get(name, 0)

    def total(self, ledger: str) -> Amounts:
        """Return a ledger with the sum over all queues below it, whether or not the policy makes a tree of queues."""
        own: Amounts = getattr(self, ledger)
        below = self.sums.get(ledger)
        return {**own, **{name: own.get(name, 0) + below[name] for name in below}} if below else own

    @property
    def faults(self) -> Faults:
        """Return the errors of its object."""
        return () if self.facts is None else self.facts.faults

    @property
    def unreported_errors(self) -> Faults:
        """Return the errors that are not in the log yet."""
        return tuple(one for one in self.faults if one not in self.reported_errors)

    @property
    def request(self) -> Amounts:
        """Return what its pods request, allocated and pending."""
        total = dict(self.allocated)
        for name, amount in self.pending.items():
            if amount:
                total[name] = total.get(name, 0) + amount
        return total

    def add_charge(self, ledger: str, charge: tuple[tuple[str, int], ...], sign: int) -> None:
        """Add a charge to `allocated`, `nominated`, `inqueue` or `elastic`, or (-1) remove it; also for all queues
        above."""
        if not charge:
            return
        add(getattr(self, ledger), charge, sign)
        self.record_change(ledger, charge, sign)
        above = self.above
        while above is not None:
            add(above.sums.setdefault(ledger, {}), charge, sign)
            if above.is_in_tree:
                above.record_change(ledger, charge, sign)
            above = above.above

    def add_pending(self, charge: Charge, sign: int) -> None:
        """Add the charge that a waiting pod would have, or (-1) remove it; also for all queues above."""
        add(self.pending, charge, sign)
        above = self.above
        while above is not None:
            add(above.sums.setdefault("pending", {}), charge, sign)
            above = above.above

    def add_held(self, pod: Pod, priority: int, sign: int) -> None:
        """Add the request of a charged pod for the queue and all queues above it, and to `evictable`."""
        request = pod.pod_class.request
        self.add_evictable(pod, priority, sign)
        add(self.held, request, sign)
        above = self.above
        while above is not None:
            add(above.sums.setdefault("held", {}), request, sign)
            above = above.above

    def add_evictable(self, pod: Pod, priority: int, sign: int) -> None:
        """Add a charged pod to what groups of higher priority could free, if it may be evicted."""
        if pod.facts.is_evictable:
            self._offer(pod.charge or (), pod.pod_class.request, priority, sign)
        elif pod.facts.is_protected:
            self.protected += sign

    def _offer(self, charge: Charge, request: Charge, priority: int, count: int) -> None:
        """Add so many times a charge and a request to `evictable`."""
        offered = self.evictable.setdefault(priority, ({}, {}))
        add(offered[0], charge, count)
        add(offered[1], request, count)
        if not offered[1]:
            del self.evictable[priority]

    def rebuilt(self, cluster: "Cluster", /) -> "Queue":
        """Sum up again what the pod groups of the queue, and the queues below it, are charged."""
        twin = Queue(self.name)
        twin.set_object(self.facts, self.digest)
        twin.sum_up([cluster.groups[key] for key in self.groups], cluster.ledgers.requested)
        for charge in cluster.kept_quota.of_queue(self.name):
            add(twin.nominated, charge, 1)
        for name in cluster.queue_tree.named_children.get(self.name, {}):
            child = cluster.queues[name]
            for ledger in LEDGERS if child.above is self else ():
                add(twin.sums.setdefault(ledger, {}), tuple(child.total(ledger).items()), 1)
        return twin

    def sum_up(self, groups: Iterable["PodGroup"], requested: Mapping[str, Charge]) -> None:
        """Fill the empty ledgers with what these pod groups, all of the queue, are charged; `requested` is what pending pods
        request, by UID."""
        charged: dict[tuple[Charge, Charge, bool, int], int] = {}
        for group in groups:
            for pod in group.pods.values():
                if pod.status in ALLOCATED:
                    self.protected += pod.facts.is_protected
                    facts, request = pod.facts, pod.pod_class.request
                    key = (pod.charge or (), request, facts.is_evictable, group.priority)
                    charged[key] = charged.get(key, 0) + 1
            for pod in group.pending if group.denied is None else ():
                add(self.pending, requested.get(pod.facts.uid, ()), 1)
            for one in group.decided.nominations.values():
                add(self.nominated, one.charge, 1)
            add(self.inqueue, group.reservation.inqueue, 1)
            add(self.elastic, group.reservation.elastic, 1)
        for (charge, request, is_evictable, priority), count in charged.items():
            add(self.allocated, charge, count)
            add(self.held, request, count)
            if is_evictable:
                self._offer(charge, request, priority, count)

    def record_change(self, ledger: str, charge: tuple[tuple[str, int], ...], sign: int) -> None:
        """Record how the current record changes what is used or reserved."""
        used, reserved = self._changes
        for name, amount in charge:
            change = -sign * amount if ledger == "elastic" else sign * amount
            reserved[name] = reserved.get(name, 0) + change
            if ledger in ("allocated", "nominated"):
                used[name] = used.get(name, 0) + change

    def take_released(self, members: Callable[[str], tuple[str, ...]]) -> list[str]:
        """Return the charge names that decreased since the last call: used, or used and reserved.

        If a choice of cards became one of its cards, nothing was released: `members` returns the cards of a choice.
        """
        used, reserved = self._changes
        if not used and not reserved:
            return []
        self._changes = ({}, {})
        if min(used.values(), default=0) >= 0 and min(reserved.values(), default=1) > 0:
            return []
        lesser = [name for name, change in used.items() if change < 0]
        gains = {name: change for name, change in reserved.items() if change > 0}
        if len(gains) == len(reserved):
            return lesser
        for name, change in reserved.items():
            left = change
            for card in members(name) if change < 0 and gains else ():
                cancelled = min(gains.get(card, 0), -left)
                if cancelled:
                    gains[card] -= cancelled
                    left += cancelled
            if left < 0:
                lesser.append(name)
        return lesser


def add(ledger: Amounts, charge: Charge, count: int) -> None:
    """Add so many times a charge to a ledger, or (negative) remove it; zero amounts are dropped."""
    for name, amount in charge:
        left = ledger.get(name, 0) + count * amount
        if left:
            ledger[name] = left
        elif name in ledger:
            del ledger[name]
