"""Figures of one run of a branch: where pods were placed, how long they waited, what they used, and what was evicted.

They are computed from records alone, from the position at which the branch begins: those that happened, or those of a
simulated run. A pod waits from its creation, as the log shows it, until it is given a node; a pod that had its node when
the branch began did not wait. A pod uses its cards until it is evicted, ends or is deleted.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from events.cycle import CycleOpened
from events.decision import Decision
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.record import Record
from events.union import Event
from projections.pod_class import Amounts
from projections.pods import ALLOCATED, GATED, PENDING, Pod
from projections.state import State
from replay.goodput import CHECKPOINT_NS, Goodput, GoodputTotals


class DecisionShown(Struct, frozen=True):
    """One decision about a pod or pod group, without what depends on positions in the log."""

    kind: str
    pod_group: str
    pod: str
    queue: str
    node: str
    devices: tuple[str, ...]
    in_favour_of: str
    code: str


class TimedDecision(Struct, frozen=True):
    """A decision, and where it stands in its log."""

    decision: DecisionShown
    position: int
    at_ns: int
    message: str


class Totals(Struct):
    """Figures of a set of pods."""

    waits_ns: list[int] = field(default_factory=list)
    """The wait of each pod that was given its first node."""
    placed: int = 0
    """How often a pod was given a node."""
    evicted: int = 0
    """How often a pod was evicted."""
    pending: int = 0
    """Pods without a node at the end."""
    pending_ns: int = 0
    """How long these have waited."""
    card_ns: dict[str, int] = field(default_factory=dict)
    """Cards times nanoseconds, by card."""
    goodput: GoodputTotals = field(default_factory=GoodputTotals)

    def add(self, other: "Totals") -> None:
        """Add the figures of other pods."""
        self.waits_ns += other.waits_ns
        self.placed += other.placed
        self.evicted += other.evicted
        self.pending += other.pending
        self.pending_ns += other.pending_ns
        self.goodput.add(other.goodput)
        for card, amount in other.card_ns.items():
            self.card_ns[card] = self.card_ns.get(card, 0) + amount


class _Life(Struct):
    """A pod from the beginning of the branch on."""

    group: str
    seen_ns: int
    has_waited: bool
    """Whether its wait is over, or never counted."""
    is_pending: bool = False
    cards: Amounts = field(default_factory=dict)
    since_ns: int = 0


class RunFigures:
    """Takes the records behind the position at which a branch begins, in order.

    `state` is State there, and is folded further. `seen_ns` says when pods were created that were there.
    """

    def __init__(
        self,
        state: State,
        now_ns: int,
        seen_ns: Mapping[str, int],
        checkpoint_ns: int = CHECKPOINT_NS,
    ) -> None:
        self.state = state
        self.goodput = Goodput(state, now_ns, checkpoint_ns)
        self.groups: dict[str, Totals] = {}
        self.queue_of: dict[str, str] = {}
        """Queue of each pod group."""
        self.first_pod: dict[str, str] = {}
        """The first pod of each pod group, by which one without a name of its own is called."""
        self.named: dict[str, None] = {}
        """Pod groups that have an object."""
        self.nodes: dict[str, str] = {}
        """The last node that each pod was given."""
        self.decisions: list[TimedDecision] = []
        self._lives: dict[str, _Life] = {}
        self._seen_ns = seen_ns
        self._now_ns = self._cycle_ns = now_ns
        self._batch = 0
        state.cluster.clear_changed_rows()
        for uid, pod in state.cluster.pods.items():
            self._update_pod(uid, pod)
        rows = state.cluster.changed_rows
        rows.pods, rows.nodes = (
            dict.fromkeys(state.cluster.pods),
            dict.fromkeys(state.cluster.nodes.nodes),
        )
        self.goodput.settle(now_ns)
        state.cluster.clear_changed_rows()

    def add(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take a record."""
        if record.batch != self._batch:
            self._close_batch()
            self._batch = record.batch
        self._now_ns = max(self._now_ns, record.recorded_at_ns)
        if isinstance(event, CycleOpened):
            self._cycle_ns = event.at_ns
        elif isinstance(event, Decision) and event.is_in_document:
            self._add_decision(record, event)
        self.goodput.add(record, event, content)
        self.state.apply(record, event, content)
        self.state.settle()

    def finish(self, end_ns: int) -> None:
        """Close all figures at the end of the run."""
        self._close_batch()
        self._now_ns = end_ns
        self.goodput.finish(end_ns)
        for key, work in self.goodput.groups.items():
            self._totals(key).goodput = work
        for life in self._lives.values():
            self._charge(life, {})
            if life.is_pending:
                totals = self._totals(life.group)
                totals.pending += 1
                totals.pending_ns += end_ns - life.seen_ns

    def total(self, groups: Iterable[str] | None = None) -> Totals:
        """Return the figures of some pod groups, or of all."""
        found = Totals()
        for key in self.groups if groups is None else groups:
            found.add(self.groups.get(key, Totals()))
        return found

    def _add_decision(self, record: Record, event: Decision) -> None:
        for item in event.items():
            shown = DecisionShown(
                kind=event.word,
                pod_group=item.pod_group,
                pod=item.pod,
                queue=item.queue,
                node=item.node,
                devices=tuple(item.devices),
                in_favour_of=item.in_favour_of,
                code=item.code,
            )
            self.decisions.append(
                TimedDecision(shown, record.position, self._cycle_ns, item.message)
            )
        if isinstance(event, GangBindDecided):
            for one in event.placements:
                self.nodes[one.pod] = one.node
                self._totals(event.pod_group).placed += 1
        elif isinstance(event, EvictionDecided):
            self._totals(event.pod_group).evicted += len(event.evictions)

    def _close_batch(self) -> None:
        """Update what the finished batch touched."""
        cluster = self.state.cluster
        for uid in cluster.changed_rows.pods:
            self._update_pod(uid, cluster.pods.get(uid))
        self.goodput.settle(self._now_ns)
        cluster.clear_changed_rows()

    def _update_pod(self, uid: str, pod: Pod | None) -> None:
        life = self._lives.get(uid)
        if pod is None or not pod.group_key:
            if life is not None:
                self._charge(life, {})
                del self._lives[uid]
            return
        if life is None:
            seen_ns = self._seen_ns.get(uid, self._now_ns)
            has_waited = bool(pod.node) or pod.status not in (PENDING, GATED)
            life = self._lives[uid] = _Life(pod.group_key, seen_ns, has_waited)
            self._record_group(pod)
        if life.group != pod.group_key:
            self._charge(life, {})
            life.group = pod.group_key
            self._record_group(pod)
        if pod.node and not life.has_waited:
            life.has_waited = True
            self._totals(pod.group_key).waits_ns.append(self._now_ns - life.seen_ns)
        life.is_pending = pod.status in (PENDING, GATED)
        cards = self.state.cluster.cards.resource
        held = pod.charge or () if pod.status in ALLOCATED else ()
        self._charge(life, {name: amount for name, amount in held if name in cards})

    def _record_group(self, pod: Pod) -> None:
        key = pod.group_key
        group = self.state.cluster.groups.get(key)
        self.first_pod.setdefault(key, pod.key)
        if group is not None:
            self.queue_of[key] = group.queue
            if group.observed.facts is not None:
                self.named[key] = None

    def _totals(self, group: str) -> Totals:
        return self.groups.setdefault(group, Totals())

    def _charge(self, life: _Life, cards: Amounts) -> None:
        if cards == life.cards:
            return
        totals = self._totals(life.group)
        for card, amount in life.cards.items():
            used = amount * (self._now_ns - life.since_ns)
            totals.card_ns[card] = totals.card_ns.get(card, 0) + used
        life.cards, life.since_ns = cards, self._now_ns
