"""The base of a log that begins at a position: what stands there, and records of the past that questions need.

What stands says what is decided by; a branch, a reduced scenario and an incident need more:

- of each object that stands its newest observation, and of pods, pod groups and workloads the first one and what changed between them:
  when they were seen, bound, run and stopped;
- outcomes about them;
- decisions to evict pods that are not gone, and to restart jobs that do not run again; of a shadow the first and the last placement of pods that wait;
- the last start of a daemon, the last cycle, the record with which the next one was due, and the last record.

Of a log with an index of subjects only these records are read, of another one all up to the position.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from daemon.log.base_records import BaseWriter, entries_of, past_of
from daemon.log.contract import ReadableLog
from daemon.log.entry import Base, Entry
from daemon.log.store import SqlLog
from daemon.queries.moments import entries_at, entry_at
from engine.ingest import known_objects
from events.cluster import ObjectObserved
from events.codec import event_of
from events.daemon import DaemonStarted
from events.errors import DamagedLogError
from events.outcome import (
    EvictionFailed,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    ShadowDecisionEnded,
)
from events.record import Head
from features.table import KINDS
from projections.apply_outcome import BIND
from projections.base.base_table import pieces_of
from projections.kinds.workload import REPLACING
from projections.state import State

_OF_A_LIFE: Final = ("Pod", "PodGroup", *REPLACING)
"""Kinds of which more than the newest observation is kept."""
_OUTCOMES: Final = (PodBound, PodEvicted, EvictionFailed, PodGroupUpdated, ShadowDecisionEnded)
_KINDS_OF_RECORDS: Final = (ObjectObserved.kind, *(one.kind for one in _OUTCOMES))

Pause: TypeAlias = Callable[[], Awaitable[None]]


class _Metadata(Struct):
    deletionTimestamp: str | None = None  # noqa: N815  # as in the API
    labels: dict[str, str] | None = None


class _Spec(Struct):
    nodeName: str | None = None  # noqa: N815  # as in the API


class _Status(Struct):
    phase: str | None = None


class _Glance(Struct):
    """What tells the observations of a pod apart that are kept."""

    metadata: _Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_GLANCE: Final = msgspec.json.Decoder(_Glance)


async def past_at_base(log: ReadableLog) -> list[Entry]:
    """Return the records of the past with which a log begins; none for a log that begins with the first record."""
    base = await log.read_base()
    if base is None:
        return []
    found = await asyncio.to_thread(past_of, base, log.place)
    if not found or found[-1].record.position != base.head.position:
        raise DamagedLogError(
            f"{log.place}: the last record of the past at position {base.head.position} is missing"
        )
    return found


async def base_at(log: ReadableLog, head: Head, state: State, pause: Pause | None = None) -> Base:
    """Return what stands at the end of a batch of a log, where its head was `head`. `state` is the State there, and must not change.

    `pause` is awaited between chunks.
    """
    past, before = _Past(state), await log.read_base()
    found = await past_at_base(log)
    for entry in found:
        past.add(entry)
    if before is not None:
        for entry in entries_of(before, log.place):
            past.add_object(entry)
    async for entries in _candidates(log, state, past):
        for entry in entries:
            past.add(entry)
        if pause is not None:
            await pause()
    others = await _of_the_end(log, state, past.started, found)
    decided = {position for pair in past.shadow_decisions.values() for position in pair}
    others += [one for one in found if one.record.position in decided]
    others += await entries_at(log, [one for one in sorted(decided) if one > log.base.position])
    writer = BaseWriter(head, others[-1].record.recorded_at_ns)
    for entry in past.entries(others):
        writer.add(entry)
    contents = past.contents()
    for piece in pieces_of(state):
        if pause is not None:
            await pause()
        for digest in piece.digests:
            if digest not in contents:
                raise DamagedLogError(f"{log.place}: object {digest} is missing")
        for stand in piece.stands(contents):
            writer.add_standing(stand, None if stand.object is None else contents[stand.object])
    return writer.finish()


class _Past:
    """Takes records in order, and keeps those that are needed."""

    def __init__(self, state: State) -> None:
        self.uids = {subject: uid for subject, uid, _ in _known(state)}
        self.positions = dict.fromkeys((*_decisions(state), state.cycle))
        """Records that are needed whatever they are about."""
        self._read_last = state.cluster.last_read
        self._contents: dict[str, bytes] = {}
        """Digest to the object, of those that still count although a later one was observed."""
        self.started: Entry | None = None
        """The last start of a daemon."""
        self._kept: dict[int, Entry] = {}
        self._newest: dict[tuple[str, str], Entry] = {}
        """Subject and kind to the newest record."""
        self._glances: dict[str, _Glance | None] = {}
        self._waiting = {one.facts.uid for one in state.cluster.pods.values() if not one.facts.node}
        self.shadow_decisions: dict[str, tuple[int, int]] = {}
        """Subject of a pod that waits to the positions of the first and the last placement that a shadow decided."""

    def add(self, entry: Entry) -> None:
        """Take a record."""
        record = entry.record
        if record.position in self.positions:
            self._kept[record.position] = entry
        self.add_object(entry)
        if record.kind == DaemonStarted.kind:
            self.started = entry
        elif record.kind in _KINDS_OF_RECORDS and record.subject in self.uids:
            self._add_of_object(entry, record.subject, record.kind)

    def add_object(self, entry: Entry) -> None:
        """Take the object of a record if it still counts although a later one was observed."""
        digest, content = entry.record.object, entry.content
        is_read_last = self._read_last.get(entry.record.subject) == digest
        if digest is not None and content is not None and is_read_last:
            self._contents[digest] = content

    def _add_of_object(self, entry: Entry, subject: str, kind: str) -> None:
        event, resource = event_of(entry.record), subject.partition("/")[0]
        if isinstance(event, PodGroupUpdated):
            self._newest[subject, kind] = entry
            return
        assert isinstance(
            event, ObjectObserved | PodBound | PodEvicted | EvictionFailed | ShadowDecisionEnded
        )
        if event.uid != self.uids[subject]:
            return
        if isinstance(event, ShadowDecisionEnded):
            cause = entry.record.cause
            if event.what == BIND and event.uid in self._waiting and cause is not None:
                first, _ = self.shadow_decisions.get(subject, (cause, cause))
                self.shadow_decisions[subject] = first, cause
                self._kept[entry.record.position] = entry
            return
        if isinstance(event, ObjectObserved):
            self._newest[subject, kind] = entry
        if resource not in _OF_A_LIFE:
            return
        glance = _glance(entry) if resource == "Pod" else None
        is_another = subject not in self._glances or self._glances[subject] != glance
        if not isinstance(event, ObjectObserved) or is_another:
            self._kept[entry.record.position] = entry
        if isinstance(event, ObjectObserved):
            self._glances[subject] = glance

    def contents(self) -> dict[str, bytes]:
        """Return the objects that stand, by digest."""
        found = self._contents
        for entry in self._newest.values():
            if entry.record.object is not None and entry.content is not None:
                found[entry.record.object] = entry.content
        return found

    def entries(self, others: Iterable[Entry]) -> list[Entry]:
        """Return what is kept, and other entries, in order."""
        started = [] if self.started is None else [self.started]
        for entry in (*self._newest.values(), *started, *others):
            self._kept[entry.record.position] = entry
        return [self._kept[position] for position in sorted(self._kept)]


async def _candidates(log: ReadableLog, state: State, past: _Past) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a log up to the position of State among which those are that are needed, in order."""
    until, base = state.position, log.base.position
    if not isinstance(log, SqlLog):
        async for entries in log.read(after=base, until=until):
            yield entries
        return
    of_a_life = [one for one in past.uids if one.partition("/")[0] in _OF_A_LIFE]
    others = [one for one in past.uids if one.partition("/")[0] not in _OF_A_LIFE]
    positions = dict.fromkeys(
        (
            *await log.positions_of(of_a_life, until, _KINDS_OF_RECORDS),
            *(await log.newest_objects(others, until)).values(),
            *past.positions,
            *await _begin_of_epoch(log, until),
        )
    )
    async for entries in log.entries_at(sorted(one for one in positions if one > base)):
        yield entries


async def _begin_of_epoch(log: SqlLog, position: int) -> range:
    """Return the positions from the first record of the epoch that wrote a position on, where its daemon tells that it started."""
    epoch, low, high = (await entry_at(log, position)).record.epoch, log.base.position, position
    while high - low > 1:
        middle = (low + high) // 2
        if (await entry_at(log, middle)).record.epoch < epoch:
            low = middle
        else:
            high = middle
    return range(high, high + 1)


async def _of_the_end(
    log: ReadableLog, state: State, started: Entry | None, before: list[Entry]
) -> list[Entry]:
    """Return the last record, and the one with which the last cycle was due. `before` are the records with which the log begins."""
    last = await entry_at(log, state.position)
    if started is None or not state.period_ns:
        return [last]
    begun, at_ns = started.record, last.record.recorded_at_ns
    periods = max(0, at_ns - begun.recorded_at_ns) // state.period_ns
    due_ns = begun.recorded_at_ns + periods * state.period_ns
    for entry in before:
        if entry.record.recorded_at_ns >= due_ns and entry.record.batch > begun.batch:
            return [entry, last]
    position = max(await log.position_at(due_ns - 1), begun.position, log.base.position) + 1
    async for entries in log.read(after=position - 1, until=state.position):
        for entry in entries:
            if entry.record.batch != begun.batch:
                return [entry, last]
    return [last]


def _known(state: State) -> Iterator[tuple[str, str, str]]:
    """Yield subject, UID and digest of each object that State holds."""
    for kind in dict.fromkeys((*KINDS, *state.cluster.others)):
        yield from known_objects(state, kind)


def _decisions(state: State) -> Iterator[int]:
    """Yield the positions of decisions that are not done: to evict pods, to restart jobs; of a shadow also to place pods."""
    if state.cluster.is_shadow:
        yield from (one.decision for one in state.commitments.values())
    yield from (pod.evicted for pod in state.cluster.pods.values() if pod.evicted)
    yield from (one.position for one in state.cluster.reschedulings.restarts.values())


def _glance(entry: Entry) -> _Glance | None:
    try:
        return _GLANCE.decode(entry.content or b"")
    except msgspec.DecodeError:
        return None
