"""The account of a shadow: where another scheduler placed the pods, beside what muster decided about them.

Two things are kept apart. What really happened is a fold of the log without its decisions: pods are only where they
were observed. What muster would have done are the decisions themselves. Every pod of the shadowed schedulers is in
exactly one class.

A decision of the shadow rests on facts that the other scheduler made, so muster never decides after a pod was placed.
So the gain of an earlier start is exact for that decision, and the delay of a later start is a lower bound: for as
long as the quota that muster keeps was overrun, or the gang of the pod was incomplete.
"""

from collections.abc import Iterable
from statistics import median
from typing import Final

import msgspec
from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.cycle import CycleOpened
from events.daemon import DaemonStarted
from events.decision import Decision
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.outcome import ShadowDecisionEnded
from events.record import Record
from events.union import Event
from features.table import FEATURES
from projections.apply_outcome import forget_open_decisions
from projections.left_out import LeftOut
from projections.pod_groups import PodGroup
from projections.pods import FAILED, SUCCEEDED, Pod
from projections.state import State
from projections.views.now import cards_of, queue_rows

SECOND: Final = 1_000_000_000
HOUR: Final = 3600 * SECOND

ALREADY: Final = "already placed"
SAME: Final = "same time"
EARLIER: Final = "earlier"
LATER: Final = "later"
ONLY_MUSTER: Final = "only muster"
NEITHER: Final = "neither"
CLASSES: Final = {
    ALREADY: "had a node when the shadow first saw them",
    SAME: "placed within one cycle period of muster, or before its next cycle",
    EARLIER: "muster decided more than one cycle period before they were placed",
    LATER: "placed although muster left them waiting",
    ONLY_MUSTER: "muster would have placed them; they were never placed",
    NEITHER: "neither muster nor their scheduler placed them",
}
"""Class of a pod to what it means, in the order of reports."""


class PodAccount(Struct):
    """One pod of the shadowed schedulers, by UID."""

    pod: str
    pod_group: str
    queue: str
    scheduler: str
    seen_ns: int
    in_class: str = ""
    cards: dict[str, int] = {}
    would_start_ns: int | None = None
    """When muster first decided to place it; None if it did not."""
    would_node: str = ""
    """The node of its last decision before the pod was placed."""
    decided: int = 0
    """Position of the first decision."""
    placed_ns: int | None = None
    node: str = ""
    ended_ns: int | None = None
    """When it was deleted or had ended."""
    code: str = ""
    """Why muster left it waiting when its scheduler placed it."""
    gain_seconds: float = 0
    """Of `earlier` and `only muster`: how much earlier muster would have placed it."""
    delay_seconds: float = 0
    """Of `later`: how much later, at least."""

    @property
    def card_count(self) -> int:
        """Return its cards of all models."""
        return sum(self.cards.values())


class Overrun(Struct):
    """An interval in which the pods of a queue had more of a resource than its capability."""

    queue: str
    resource: str
    capability: int
    from_position: int
    from_ns: int
    to_ns: int
    peak: int
    """The most that was allocated: cpu in milli, memory in bytes, whole cards."""
    excess_hours: float = 0
    """What was allocated above the capability, times hours."""
    is_open: bool = True
    """Whether it lasts to the end of the log."""


class HalfGang(Struct):
    """An interval of more than one cycle period in which some pods of a gang had nodes, and fewer than its minimum."""

    pod_group: str
    min_available: int
    from_position: int
    from_ns: int
    to_ns: int
    most: int
    """The most pods with nodes."""
    card_hours: float = 0
    """Of the cards that its pods held meanwhile."""
    ended: str = "open"
    """`complete`, `given up` (no pod is left on a node) or `open` at the end of the log."""


class ClassSum(Struct):
    """The pods of one class."""

    name: str
    means: str
    pods: int = 0
    cards: int = 0
    median_seconds: float | None = None
    """Of the gain of those that start earlier, or of the delay, at least, of those that start later."""
    most_seconds: float | None = None
    card_hours: float = 0
    """Cards times the gain, or times the delay."""
    is_at_least: bool = False
    """Whether the seconds and card-hours are lower bounds: those of `later`."""


class ShadowReport(Struct):
    """The whole account."""

    schedulers: list[str]
    start_ns: int
    end_ns: int
    position: int
    period_ns: int
    pods: int
    classes: list[ClassSum]
    reasons: dict[str, int]
    """Of pods that were placed although muster left them waiting: code to their number; `not reached` if muster had
    not refused them."""
    same_node: int
    other_node: int
    """Of pods that muster and their scheduler placed: how many on the same node, and on different ones."""
    evictions: int
    """Pods that muster would have evicted, each once."""
    overruns: list[Overrun]
    half_gangs: list[HalfGang]
    lost_card_hours: float
    """Of pods that would have started earlier: cards times the gain."""
    half_gang_card_hours: float
    accounts: list[PodAccount]


class _Spec(Struct):
    nodeName: str | None = None  # noqa: N815  # as in the API


class _PodObject(Struct):
    spec: _Spec | None = None


_POD: Final = msgspec.json.Decoder(_PodObject)


class _Gang(Struct):
    """A half-placed gang, while it is one."""

    row: HalfGang
    cards: int
    since_ns: int


class ShadowAccount:
    """Takes the records of a shadow's log in order, from the first; or, with `state`, from the one behind it, once `begin` was called."""

    def __init__(self, left_out: LeftOut | None = None, *, state: State | None = None) -> None:
        self.state = State(FEATURES, left_out) if state is None else state
        self.is_shadow = True
        """Whether all daemons that wrote the log so far were shadows."""
        self._schedulers: dict[str, None] = {}
        self._period_ns = 0
        self._start_ns = self._now_ns = 0
        self._pods: dict[str, PodAccount] = {}
        self._cycle_ns = -1
        """When the last cycle was held."""
        self._refused: dict[str, dict[str, str]] = {}
        """Pod group to action to the code of its refusal."""
        self._evicted: dict[str, None] = {}
        self._overruns: dict[tuple[str, str], tuple[Overrun, int, int]] = {}
        """Open overruns by queue and resource; with what is too much, and since when."""
        self._ended_overruns: list[Overrun] = []
        self._gangs: dict[str, _Gang] = {}
        self._ended_gangs: list[HalfGang] = []
        self._whole: dict[str, None] = {}
        """Gangs that had their minimum placed: pods that end later do not make them half placed."""
        self._late: dict[str, list[PodAccount]] = {}
        """Queue to the pods that were placed while it was overrun."""
        self._incomplete: dict[str, list[PodAccount]] = {}
        """Pod group to the pods that were placed before it had its minimum of pods."""
        self._new_late: list[PodAccount] = []
        self._has_earlier = False
        """Whether the log begins with facts: pods that had a node there count as placed before."""

    def begin(self, records: Iterable[tuple[Record, bytes | None]]) -> None:
        """Begin with what stands before the first record. `records` are those of the facts: what they show of pods, and decisions
        about those that wait."""
        state, cluster = self.state, self.state.cluster
        self._has_earlier = True
        self._schedulers = dict.fromkeys(cluster.scheduler_names)
        self._period_ns = state.period_ns
        forget_open_decisions(state)
        for key, group in cluster.groups.items():
            if group.decided.refusals:
                self._refused[key] = {
                    name: one.code for name, one in group.decided.refusals.items()
                }
        for record, content in records:
            self._now_ns = record.recorded_at_ns
            event = event_of(record)
            if isinstance(event, ObjectObserved) and record.subject.startswith("Pod/"):
                self._earlier_pod(event.uid, _node_of(content))
            elif isinstance(event, GangBindDecided):
                self._decision(record, event)
            elif record.position == state.cycle:
                self._cycle_ns = record.recorded_at_ns
        cluster.changed_rows.queues.update(dict.fromkeys(cluster.queues))
        cluster.changed_rows.groups.update(dict.fromkeys(cluster.groups))
        self._end_batch()

    def _earlier_pod(self, uid: str, node: str) -> None:
        """Take an observation of a pod that stands before the first record."""
        pod = self.state.cluster.pods.get(uid)
        if pod is None or pod.facts.scheduler not in self._schedulers:
            return
        group = self.state.cluster.groups.get(pod.group_key)
        one = self._pods.get(uid)
        if one is None:
            one = self._pods[uid] = PodAccount(
                pod=pod.key,
                pod_group=pod.group_key,
                queue="" if group is None else group.queue,
                scheduler=pod.facts.scheduler,
                seen_ns=self._now_ns,
            )
        if node and one.placed_ns is None:
            one.placed_ns, one.node, one.in_class = self._now_ns, node, ALREADY
            one.cards = self._cards_of(pod)
        if pod.status in (SUCCEEDED, FAILED):
            self._ended(one)

    def take(self, record: Record, content: bytes | None) -> None:
        """Take one record."""
        if not self._start_ns:
            self._start_ns = record.recorded_at_ns
        if record.position == record.batch:
            self._end_batch()
        self._now_ns = record.recorded_at_ns
        event = event_of(record)
        if isinstance(event, Decision | ShadowDecisionEnded):
            self.state.position = self.state.cluster.position = record.position
            self._decision(record, event)
            return
        self.state.apply(record, event, content)
        self.state.settle()
        if isinstance(event, CycleOpened):
            self._cycle_ns = record.recorded_at_ns
        elif isinstance(event, DaemonStarted):
            self.is_shadow = self.is_shadow and event.is_shadow
            self._schedulers |= dict.fromkeys(event.scheduler_names)
            self._period_ns = event.period_ns
        elif isinstance(event, ObjectObserved) and record.subject.startswith("Pod/"):
            self._pod_observed(event.uid)
        elif isinstance(event, ObjectDeleted) and event.uid in self._pods:
            self._ended(self._pods[event.uid])

    def report(self) -> ShadowReport:
        """Return the account up to the last record that was taken."""
        self._end_batch()
        for key in list(self._overruns):
            self._shift_overrun(key, None)
        for gang in self._gangs.values():
            self._add_cards(gang)
            self._keep_gang(gang.row)
        for late in (*self._late.values(), *self._incomplete.values()):
            for one in late:
                self._delayed(one)
        accounts = sorted(self._pods.values(), key=lambda one: (one.pod, one.seen_ns))
        for one in accounts:
            self._classify(one)
        both = [one for one in accounts if one.placed_ns is not None and one.would_node]
        same = sum(one.node == one.would_node for one in both)
        late_pods = [one for one in accounts if one.in_class == LATER]
        reasons: dict[str, int] = {}
        for one in late_pods:
            reasons[one.code or "not reached"] = reasons.get(one.code or "not reached", 0) + 1
        classes = [_summed(name, accounts) for name in CLASSES]
        if self._has_earlier:
            classes[0].means += ", or where the log begins"
        overruns = sorted(self._ended_overruns, key=lambda one: (one.from_position, one.queue))
        gangs = sorted(self._ended_gangs, key=lambda one: (one.from_position, one.pod_group))
        return ShadowReport(
            schedulers=list(self._schedulers),
            start_ns=self._start_ns,
            end_ns=self._now_ns,
            position=self.state.position,
            period_ns=self._period_ns,
            pods=len(accounts),
            classes=classes,
            reasons=dict(sorted(reasons.items(), key=lambda one: (-one[1], one[0]))),
            same_node=same,
            other_node=len(both) - same,
            evictions=len(self._evicted),
            overruns=overruns,
            half_gangs=gangs,
            lost_card_hours=sum(
                one.card_hours for one in classes if one.name in (EARLIER, ONLY_MUSTER)
            ),
            half_gang_card_hours=sum(one.card_hours for one in gangs),
            accounts=accounts,
        )

    # Pods

    def _decision(self, record: Record, event: Event) -> None:
        if isinstance(event, GangBindDecided):
            self._refused.pop(event.pod_group, None)
            for place in event.placements:
                one = self._pods.get(place.uid)
                if one is None or one.placed_ns is not None:
                    continue
                if one.would_start_ns is None:
                    one.would_start_ns, one.decided = record.recorded_at_ns, record.position
                one.would_node = place.node
                one.cards = one.cards or dict(place.cards)
        elif isinstance(event, PodGroupUnschedulable):
            self._refused.setdefault(event.pod_group, {})[event.action] = event.code
        elif isinstance(event, EvictionDecided):
            self._evicted |= dict.fromkeys(one.uid for one in event.evictions)

    def _pod_observed(self, uid: str) -> None:
        cluster = self.state.cluster
        pod = cluster.pods.get(uid)
        if pod is None or pod.facts.scheduler not in self._schedulers:
            return
        one = self._pods.get(uid)
        is_new = one is None
        if one is None:
            one = self._pods[uid] = PodAccount(
                pod=pod.key,
                pod_group=pod.group_key,
                queue="",
                scheduler=pod.facts.scheduler,
                seen_ns=self._now_ns,
            )
        one.pod_group = pod.group_key or one.pod_group
        group = cluster.groups.get(pod.group_key)
        one.queue = group.queue if group is not None else one.queue
        if pod.facts.node and one.placed_ns is None:
            one.placed_ns, one.node = self._now_ns, pod.facts.node
            one.cards = self._cards_of(pod) or one.cards
            if is_new:
                one.in_class = ALREADY
            elif one.would_start_ns is None and self._cycle_ns >= one.seen_ns:
                refusals = self._refused.get(one.pod_group, {})
                one.in_class, one.code = LATER, next(iter(refusals.values()), "")
                self._new_late.append(one)
        if pod.status in (SUCCEEDED, FAILED):
            self._ended(one)

    def _ended(self, one: PodAccount) -> None:
        if one.ended_ns is None:
            one.ended_ns = self._now_ns

    def _cards_of(self, pod: Pod) -> dict[str, int]:
        return msgspec.json.decode(cards_of(self.state.cluster, pod), type=dict[str, int])

    def _classify(self, one: PodAccount) -> None:
        """Set the class of a pod, and what muster would have gained for it."""
        if one.in_class:
            return
        if one.would_start_ns is None:
            one.in_class = SAME if one.placed_ns is not None else NEITHER
            return
        until_ns = one.placed_ns
        if until_ns is None:
            one.in_class = ONLY_MUSTER
            until_ns = self._now_ns if one.ended_ns is None else one.ended_ns
        else:
            is_earlier = until_ns - one.would_start_ns > self._period_ns
            one.in_class = EARLIER if is_earlier else SAME
        if one.in_class != SAME:
            one.gain_seconds = (until_ns - one.would_start_ns) / SECOND

    def _delayed(self, one: PodAccount) -> None:
        """Set the delay of a pod that was placed while something held muster back, which ends now."""
        assert one.placed_ns is not None
        until_ns = self._now_ns if one.ended_ns is None else one.ended_ns
        one.delay_seconds = max(one.delay_seconds, (until_ns - one.placed_ns) / SECOND)

    # What happened to queues and gangs

    def _end_batch(self) -> None:
        """Look at the queues and pod groups that the last batch changed."""
        cluster = self.state.cluster
        touched = cluster.changed_rows
        for name in touched.queues:
            self._queue_changed(name)
        for key in dict.fromkeys((*touched.groups, *self._groups_of(touched.pods))):
            self._group_changed(key)
        cluster.clear_changed_rows()
        for one in self._new_late:
            group = cluster.groups.get(one.pod_group)
            if any(queue == one.queue for queue, _ in self._overruns):
                self._late.setdefault(one.queue, []).append(one)
            elif group is not None and len(group.pods) < group.observed.min_available:
                self._incomplete.setdefault(one.pod_group, []).append(one)
        self._new_late = []

    def _groups_of(self, uids: Iterable[str]) -> list[str]:
        accounts = (self._pods.get(uid) for uid in uids)
        return [one.pod_group for one in accounts if one is not None and one.pod_group]

    def _queue_changed(self, name: str) -> None:
        rows = {
            str(row[1]): (row[2], row[5])
            for row in queue_rows(self.state.cluster, name)
            if isinstance(row[2], int) and isinstance(row[5], int) and row[5] > row[2]
        }
        known = [resource for queue, resource in self._overruns if queue == name]
        for resource in dict.fromkeys((*known, *rows)):
            limit, amount = rows.get(resource, (None, None))
            if isinstance(limit, int) and isinstance(amount, int):
                self._shift_overrun((name, resource), (limit, amount))
            else:
                self._shift_overrun((name, resource), None, is_over=True)
        if known and not rows:
            for one in self._late.pop(name, ()):
                self._delayed(one)

    def _shift_overrun(
        self, key: tuple[str, str], now: tuple[int, int] | None, *, is_over: bool = False
    ) -> None:
        """Begin, update or end an overrun."""
        found = self._overruns.pop(key, None)
        if found is not None:
            row, excess, since_ns = found
            row.excess_hours += excess * (self._now_ns - since_ns) / HOUR
            row.to_ns = self._now_ns
        elif now is not None:
            row = Overrun(
                queue=key[0],
                resource=key[1],
                capability=now[0],
                from_position=self.state.position,
                from_ns=self._now_ns,
                to_ns=self._now_ns,
                peak=now[1],
            )
        else:
            return
        if now is None:
            row.is_open = not is_over
            self._ended_overruns.append(row)
            return
        row.capability, row.peak = now[0], max(row.peak, now[1])
        self._overruns[key] = row, now[1] - now[0], self._now_ns

    def _group_changed(self, key: str) -> None:
        group = self.state.cluster.groups.get(key)
        if group is None:
            self._whole.pop(key, None)
            self._end_gang(key, "given up")
            return
        if len(group.pods) >= group.observed.min_available:
            for one in self._incomplete.pop(key, ()):
                self._delayed(one)
        if group.observed.min_available < 2 or group.is_foreign or key in self._whole:
            return
        placed = _placed(group)
        if len(placed) >= group.observed.min_available:
            self._whole[key] = None
            self._end_gang(key, "complete")
        elif not placed:
            self._end_gang(key, "given up")
        else:
            self._half_placed(key, group, placed)

    def _half_placed(self, key: str, group: PodGroup, placed: list[Pod]) -> None:
        cards = sum(sum(self._cards_of(pod).values()) for pod in placed if pod.occupies)
        gang = self._gangs.get(key)
        if gang is None:
            row = HalfGang(
                pod_group=key,
                min_available=group.observed.min_available,
                from_position=self.state.position,
                from_ns=self._now_ns,
                to_ns=self._now_ns,
                most=len(placed),
            )
            self._gangs[key] = _Gang(row, cards, self._now_ns)
            return
        self._add_cards(gang)
        gang.cards, gang.row.most = cards, max(gang.row.most, len(placed))

    def _end_gang(self, key: str, ended: str) -> None:
        gang = self._gangs.pop(key, None)
        if gang is not None:
            self._add_cards(gang)
            gang.row.ended = ended
            self._keep_gang(gang.row)

    def _keep_gang(self, row: HalfGang) -> None:
        """Keep an interval of more than one cycle period: pods of a gang are bound one after the other."""
        if row.to_ns - row.from_ns > self._period_ns:
            self._ended_gangs.append(row)

    def _add_cards(self, gang: _Gang) -> None:
        gang.row.card_hours += gang.cards * (self._now_ns - gang.since_ns) / HOUR
        gang.row.to_ns = gang.since_ns = self._now_ns


def _node_of(content: bytes | None) -> str:
    """Return the node of a pod as an observation shows it."""
    try:
        spec = _POD.decode(content or b"{}").spec
    except msgspec.DecodeError:
        return ""
    return "" if spec is None else spec.nodeName or ""


def _placed(group: PodGroup) -> list[Pod]:
    """Return the pods of a gang that have, or had, their node and did not fail."""
    return [pod for pod in group.pods.values() if pod.facts.node and pod.status != FAILED]


def _summed(name: str, accounts: Iterable[PodAccount]) -> ClassSum:
    own = [one for one in accounts if one.in_class == name]
    row = ClassSum(name, CLASSES[name], len(own), sum(one.card_count for one in own))
    row.is_at_least = name == LATER
    if name in (EARLIER, ONLY_MUSTER, LATER) and own:
        seconds = [one.gain_seconds or one.delay_seconds for one in own]
        row.median_seconds, row.most_seconds = median(seconds), max(seconds)
        row.card_hours = sum(
            one.card_count * (one.gain_seconds or one.delay_seconds) / 3600 for one in own
        )
    return row
