"""Goodput: how much of the time of the cards went into work that counts.

A pod group works while it has its minimum of pods, all its pods that have nodes are running, and none is faulty. What it has
done since its last checkpoint is lost when one of its pods fails, is deleted or has a container restarted; a gang (or a single pod)
goes on from its last checkpoint, of which it makes one in each interval of work. Pods that need no others lose nothing
but their own time.

    useful = card-hours in which pod groups worked - those of work that had to be done again
    goodput = useful / card-hours of the cards of the cluster, healthy or not
"""

from typing import Final

import msgspec
from msgspec import Struct

from events.cluster import ObjectObserved
from events.duration import SECOND
from events.record import Record
from events.union import Event
from projections.faulty_pods import POD_FAILED, FaultyPods
from projections.pod_groups import PodGroup
from projections.pods import RUNNING, SUCCEEDED, Pod
from projections.state import State

CHECKPOINT_NS: Final = 1800 * SECOND
"""Time between two checkpoints, if nothing else is said."""

_RESTARTED: Final = b'"restartCount":'


class _ContainerStatus(Struct):
    restartCount: int = 0  # noqa: N815  # as in the API


class _Status(Struct):
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815  # as in the API


class _PodObject(Struct):
    status: _Status | None = None


_POD: Final = msgspec.json.Decoder(_PodObject)


class GoodputTotals(Struct):
    """Cards times nanoseconds."""

    worked: int = 0
    """Of pod groups that worked."""
    redone: int = 0
    """Of work that had to be done again."""
    interruptions: int = 0
    """How often a pod group that had worked lost what it had done since its last checkpoint."""

    @property
    def useful(self) -> int:
        """Return the work that counts."""
        return self.worked - self.redone

    def add(self, other: "GoodputTotals") -> None:
        """Add the figures of other pod groups."""
        self.worked += other.worked
        self.redone += other.redone
        self.interruptions += other.interruptions


class _Work(Struct):
    """A pod group over time."""

    totals: GoodputTotals
    cards: int = 0
    """Cards of its pods that have nodes."""
    is_working: bool = False
    is_gang: bool = False
    since_ns: int = 0
    attempt_ns: int = 0
    """For how long it has worked since it was last interrupted."""
    attempt_cards: int = 0

    def settle(self, now_ns: int) -> None:
        """Count the time up to now."""
        if self.is_working:
            length = now_ns - self.since_ns
            self.totals.worked += self.cards * length
            self.attempt_ns += length
            self.attempt_cards = max(self.attempt_cards, self.cards)
        self.since_ns = now_ns

    def interrupt(self, now_ns: int, checkpoint_ns: int) -> None:
        """End an attempt: a pod is lost or starts again."""
        self.settle(now_ns)
        if self.is_gang and self.attempt_ns and self.attempt_cards:
            self.totals.redone += self.attempt_cards * (self.attempt_ns % checkpoint_ns)
            self.totals.interruptions += 1
        self.attempt_ns = self.attempt_cards = 0


class Goodput:
    """Takes the records of a run in order, and what each batch changed."""

    def __init__(self, state: State, now_ns: int, checkpoint_ns: int) -> None:
        self._state = state
        self._checkpoint_ns = checkpoint_ns
        self.groups: dict[str, GoodputTotals] = {}
        self.card_ns = 0
        """Cards of the cluster times nanoseconds."""
        self._works: dict[str, _Work] = {}
        self._cards: dict[str, tuple[str, int]] = {}
        """UID of a pod that has a node to its pod group and its cards."""
        self._running: dict[str, str] = {}
        """UID of a running pod to its pod group."""
        self._restarts: dict[str, int] = {}
        """UID of a pod of which containers were started again, and how often."""
        self._faulty: dict[str, None] = {}
        self._seen: dict[str, None] = {}
        """UIDs of pods with nodes that the open batch shows: that a pod runs changes no row."""
        self._nodes: dict[str, int] = {}
        self._total, self._now_ns = 0, now_ns

    def add(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take a record, before State does: a pod that runs now, or of which a container was started again."""
        if content is None or not isinstance(event, ObjectObserved):
            return
        if event.uid in self._cards:
            self._seen[event.uid] = None
        if _RESTARTED not in content:
            return
        group = self._running.get(event.uid)
        if group is None:
            return
        try:
            status = _POD.decode(content).status
        except msgspec.DecodeError:
            return
        statuses = [] if status is None else status.containerStatuses or []
        count = sum(one.restartCount for one in statuses)
        if count > self._restarts.get(event.uid, 0):
            self._restarts[event.uid] = count
            self._works[group].interrupt(record.recorded_at_ns, self._checkpoint_ns)

    def settle(self, now_ns: int) -> None:
        """Count what the finished batch changed; `now_ns` is its time."""
        self.card_ns += self._total * (now_ns - self._now_ns)
        self._now_ns = now_ns
        cluster, touched = self._state.cluster, self._state.cluster.changed_rows
        groups: dict[str, None] = {}
        for name in touched.nodes:
            node = cluster.nodes.nodes.get(name)
            facts = None if node is None else node.facts
            self._count_cards(name, 0 if facts is None else sum(n for _, n in facts.card_totals))
        for uid in {**touched.pods, **self._seen}:
            self._update_pod(uid, cluster.pods.get(uid), now_ns, groups)
        self._seen.clear()
        index = cluster.indexes.of(FaultyPods)
        if index.by_group or self._faulty:
            faulty = {
                key: None
                for key, uids in index.by_group.items()
                if any(index.pods[uid].kind != POD_FAILED for uid in uids)
            }
            groups.update(dict.fromkeys((*self._faulty, *faulty)))
            self._faulty = faulty
        for key in groups:
            if key in self._works:
                self._update_group(self._works[key], cluster.groups.get(key), key, now_ns)

    def finish(self, end_ns: int) -> None:
        """Count the time up to the end of the run."""
        for work in self._works.values():
            work.settle(end_ns)
        self.card_ns += self._total * (end_ns - self._now_ns)
        self._now_ns = end_ns

    def _count_cards(self, node: str, cards: int) -> None:
        self._total += cards - self._nodes.get(node, 0)
        self._nodes[node] = cards

    def _update_pod(self, uid: str, pod: Pod | None, now_ns: int, groups: dict[str, None]) -> None:
        old = self._cards.pop(uid, None)
        if old is not None:
            groups[old[0]] = None
            work = self._works[old[0]]
            work.settle(now_ns)
            work.cards -= old[1]
        was_running = self._running.pop(uid, None)
        is_lost = pod is None or pod.status not in (RUNNING, SUCCEEDED)
        if was_running is not None and is_lost:
            self._works[was_running].interrupt(now_ns, self._checkpoint_ns)
        if pod is None or not pod.group_key:
            self._restarts.pop(uid, None)
            return
        groups[pod.group_key] = None
        work = self._work_of(pod.group_key, now_ns)
        if pod.status == RUNNING:
            self._running[uid] = pod.group_key
        if pod.occupies and pod.status != SUCCEEDED:
            names = self._state.cluster.cards.resource
            cards = sum(amount for name, amount in pod.charge or () if name in names)
            work.settle(now_ns)
            work.cards += cards
            self._cards[uid] = pod.group_key, cards

    def _work_of(self, key: str, now_ns: int) -> _Work:
        work = self._works.get(key)
        if work is None:
            totals = self.groups.setdefault(key, GoodputTotals())
            work = self._works[key] = _Work(totals, since_ns=now_ns)
        return work

    def _update_group(self, work: _Work, group: PodGroup | None, key: str, now_ns: int) -> None:
        work.settle(now_ns)
        if group is None or not group.pods:
            del self._works[key]
            return
        running = group.counts.running
        has_all = (
            group.counts.ready >= group.observed.min_available and running == group.counts.allocated
        )
        work.is_working = bool(running) and has_all and key not in self._faulty
        work.is_gang = group.observed.min_available > 1 or len(group.pods) == 1
