"""Figures of a run: how long pods waited, which were evicted, what queues used over time.

They are computed from the log alone, batch by batch. Times are those of the records, in a simulation virtual time. A
pod that had its node when it was first seen did not wait. A pod that is being evicted does not count as use of its
queue.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import ReleaseDecided
from events.normalize import Json, JsonObject
from events.record import Record
from events.union import Event
from features.table import FEATURES
from projections.pod_class import Amounts
from projections.pods import ALLOCATED, Pod
from projections.state import State

ABOVE_MAX: Final = 100
"""The most decisions beyond a quota that are listed; further ones are counted."""

_SECOND: Final = 1_000_000_000
_PARTS: Final = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


class _PodHistory(Struct):
    """A pod of ours, from its first record on."""

    kind: str
    """Its priority class, or `none`."""
    seen_ns: int
    begun_ns: int | None = None
    """Since when it has its node; None while it has none."""
    has_started: bool = False
    is_asked: bool = False
    """Whether it was asked to release its resources."""
    is_evicted: bool = False
    queue: str = ""
    charged: Amounts = field(default_factory=dict)


class _PriorityClassTotals(Struct):
    """The pods of one priority class."""

    pods: int = 0
    waits_ns: list[int] = field(default_factory=list)
    """The wait of each pod that was given a node."""
    evicted: dict[str, int] = field(default_factory=dict)
    """Pods by the action that first evicted them or asked them to release."""
    lost_ns: int = 0
    lost_card_ns: int = 0


class _TimeWeightedAmount(Struct):
    """An amount over time."""

    value: int = 0
    most: int = 0
    area: int = 0
    since_ns: int = 0

    def turn(self, now_ns: int, value: int) -> None:
        """Set the amount from now on."""
        self.area += self.value * (now_ns - self.since_ns)
        self.value, self.since_ns = value, now_ns
        self.most = max(self.most, value)


class RunReport:
    """Takes all records of a log in order, from the first."""

    def __init__(self) -> None:
        self.state = State(FEATURES)
        self.above = 0
        """Pods whose binding put their queue above its quota of a card."""
        self._above: list[JsonObject] = []
        self._lives: dict[str, _PodHistory] = {}
        self._kinds: dict[str, _PriorityClassTotals] = {}
        self._used: dict[tuple[str, str], _TimeWeightedAmount] = {}
        self._quotas: dict[tuple[str, str], _TimeWeightedAmount] = {}
        self._totals: dict[str, _TimeWeightedAmount] = {}
        self._nodes: dict[str, Amounts] = {}
        self._begun_ns: int | None = None
        self._now_ns = 0
        self._batch = 0

    def add(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take a record."""
        if record.batch != self._batch:
            self._settle()
            self._batch = record.batch
        self._now_ns = record.recorded_at_ns
        if self._begun_ns is None:
            self._begun_ns = self._now_ns
        self.state.apply(record, event, content)
        self.state.settle()
        if isinstance(event, GangBindDecided):
            self._check(record, event)
        elif isinstance(event, EvictionDecided):
            self._count_evicted(event)

    def document(self, end_ns: int) -> JsonObject:
        """Return the figures up to the end of the run."""
        self._settle()
        length = end_ns - (self._begun_ns or 0)
        for meter in (*self._used.values(), *self._quotas.values(), *self._totals.values()):
            meter.turn(end_ns, meter.value)
        kinds = sorted(self._kinds.items())
        above: list[Json] = list(self._above)
        return {
            "waiting": {name: _waiting(kind) for name, kind in kinds},
            "evictions": {name: _evictions(kind) for name, kind in kinds if kind.evicted},
            "use": self._use(length),
            "cards": self._cards(length),
            "above_quota": {"pods": self.above, "decisions": above},
        }

    def _settle(self) -> None:
        """Update what the finished batch touched."""
        cluster, touched = self.state.cluster, self.state.cluster.changed_rows
        for name in touched.nodes:
            self._count_node(name)
        for name in touched.queues:
            queue = cluster.queues.get(name)
            quota = {} if queue is None or queue.facts is None else queue.facts.quota
            for card in dict.fromkeys((*quota, *self._cards_of(name))):
                self._turn(self._quotas, (name, card), quota.get(card, 0))
        for uid in touched.pods:
            self._follow(uid, cluster.pods.get(uid))
        cluster.clear_changed_rows()

    def _cards_of(self, queue: str) -> Iterator[str]:
        return (card for name, card in self._quotas if name == queue)

    def _turn(
        self, meters: dict[tuple[str, str], _TimeWeightedAmount], key: tuple[str, str], value: int
    ) -> None:
        meter = meters.get(key)
        if meter is None:
            meter = meters[key] = _TimeWeightedAmount(since_ns=self._now_ns)
        if meter.value != value:
            meter.turn(self._now_ns, value)

    def _count_node(self, name: str) -> None:
        node = self.state.cluster.nodes.nodes.get(name)
        has: Amounts = {}
        if node is not None and node.facts is not None:
            for resource, card in node.facts.cards.items():
                has[card] = has.get(card, 0) + node.allocatable(resource)
        had = self._nodes.get(name, {})
        if has == had:
            return
        self._nodes[name] = has
        for card in dict.fromkeys((*had, *has)):
            meter = self._totals.setdefault(card, _TimeWeightedAmount(since_ns=self._now_ns))
            meter.turn(self._now_ns, meter.value + has.get(card, 0) - had.get(card, 0))

    def _follow(self, uid: str, pod: Pod | None) -> None:
        life = self._lives.get(uid)
        if pod is None or not pod.group_key:
            if life is not None:
                self._charge(life, "", {})
                del self._lives[uid]
            return
        if life is None:
            life = self._lives[uid] = self._born(pod)
        if life.is_asked and not life.is_evicted and pod.facts.phase == "Failed":
            self._lose(life)
        is_placed = pod.occupies
        if is_placed and life.begun_ns is None:
            life.begun_ns = self._now_ns
            if not life.has_started:
                life.has_started = True
                self._kinds[life.kind].waits_ns.append(self._now_ns - life.seen_ns)
        elif not is_placed:
            life.begun_ns = None
        cards = self.state.cluster.cards.resource
        held = pod.charge or () if pod.status in ALLOCATED else ()
        group = self.state.cluster.groups.get(pod.group_key)
        charged = {name: amount for name, amount in held if name in cards}
        self._charge(life, group.queue if group else "", charged)

    def _born(self, pod: Pod) -> _PodHistory:
        """Start the history of a pod. It counts if it is not bound yet."""
        name = pod.facts.priority_class or "none"
        has_started = bool(pod.facts.node) or pod.facts.phase in ("Succeeded", "Failed")
        kind = self._kinds.setdefault(name, _PriorityClassTotals())
        kind.pods += not has_started
        return _PodHistory(name, self._now_ns, has_started=has_started)

    def _charge(self, life: _PodHistory, queue: str, cards: Amounts) -> None:
        if (queue, cards) == (life.queue, life.charged):
            return
        for card, amount in life.charged.items():
            self._use_more(life.queue, card, -amount)
        for card, amount in cards.items():
            self._use_more(queue, card, amount)
        life.queue, life.charged = queue, cards

    def _use_more(self, queue: str, card: str, amount: int) -> None:
        key = queue, card
        meter = self._used.get(key)
        self._turn(self._used, key, (0 if meter is None else meter.value) + amount)

    def _check(self, record: Record, event: GangBindDecided) -> None:
        """Check that a decision kept its queue within its quotas of the cards that it charged."""
        queue = self.state.cluster.queues.get(event.queue)
        if queue is None:
            return
        quotas = self.state.cluster.plugins.quota.card_quotas(queue)
        if quotas is None:
            return
        for card in dict.fromkeys(card for one in event.placements for card in one.cards):
            used, quota = queue.allocated.get(card, 0), quotas.get(card, 0)
            if used <= quota:
                continue
            self.above += len(event.placements)
            if len(self._above) < ABOVE_MAX:
                entry: JsonObject = {"position": record.position, "queue": event.queue}
                self._above.append({**entry, "card": card, "allocated": used, "quota": quota})

    def _count_evicted(self, event: EvictionDecided) -> None:
        """Count each pod once, also if it was asked to release and is evicted at its deadline, and what it loses: one that is
        asked writes a checkpoint, and loses its work only if it is evicted or fails."""
        is_release = isinstance(event, ReleaseDecided)
        for one in event.evictions:
            life = self._lives.get(one.uid)
            if life is None or life.is_evicted:
                continue
            if not life.is_asked:
                evicted = self._kinds[life.kind].evicted
                evicted[event.action] = evicted.get(event.action, 0) + 1
            if is_release:
                life.is_asked = True
            else:
                life.is_evicted = True
                self._lose(life)

    def _lose(self, life: _PodHistory) -> None:
        """Count the time that a pod had its node as lost."""
        if life.begun_ns is None:
            return
        kind = self._kinds[life.kind]
        ran = self._now_ns - life.begun_ns
        kind.lost_ns += ran
        kind.lost_card_ns += ran * sum(life.charged.values())

    def _use(self, length: int) -> JsonObject:
        """Return, by queue and card, mean and peak, and the mean as a share of the quota and of the cluster."""
        found: dict[str, dict[str, Json]] = {}
        for key in sorted({*self._used, *self._quotas}):
            used = self._used.get(key, _TimeWeightedAmount())
            if not used.most:
                continue
            quota, there = (
                self._quotas.get(key, _TimeWeightedAmount()),
                self._totals.get(key[1], _TimeWeightedAmount()),
            )
            found.setdefault(key[0], {})[key[1]] = {
                "quota": _mean(quota.area, length),
                "mean": _mean(used.area, length),
                "peak": used.most,
                "of_quota": _mean(used.area, quota.area),
                "of_cluster": _mean(used.area, there.area),
            }
        return dict(found)

    def _cards(self, length: int) -> JsonObject:
        """Return, by card, the number of cards, and the mean use by all queues."""
        found: JsonObject = {}
        for card, there in sorted(self._totals.items()):
            area = sum(meter.area for key, meter in self._used.items() if key[1] == card)
            found[card] = {
                "there": _mean(there.area, length),
                "mean": _mean(area, length),
                "of_cluster": _mean(area, there.area),
            }
        return found


def _waiting(kind: _PriorityClassTotals) -> JsonObject:
    waits = sorted(kind.waits_ns)
    seconds: JsonObject = {"mean": _mean(sum(waits), len(waits) * _SECOND)}
    for name, part in _PARTS.items():
        seconds[name] = _seconds(waits[-(-part * len(waits) // 100) - 1]) if waits else 0
    return {
        "pods": kind.pods,
        "started": len(waits),
        "never_started": kind.pods - len(waits),
        "seconds": seconds,
    }


def _evictions(kind: _PriorityClassTotals) -> JsonObject:
    actions: Iterable[tuple[str, int]] = sorted(kind.evicted.items())
    return {
        "pods": sum(kind.evicted.values()),
        "by": dict(actions),
        "lost_pod_seconds": _seconds(kind.lost_ns),
        "lost_card_seconds": _seconds(kind.lost_card_ns),
    }


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / _SECOND


def _mean(area: int, over: int) -> float:
    """Return a quotient to four places; 0 if the divisor is 0."""
    return round(area / over, 4) if over else 0.0
