"""The records that describe what stands at a position, for a log that begins there.

The facts say what is decided by; a branch, a reduced scenario and an incident need more:

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
from msgspec import Struct, structs

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry, Snapshot
from daemon.log.standing_records import has_records, records_of, with_records
from daemon.log.store import SqlLog
from daemon.queries.moments import entries_at, entry_at
from engine.ingest import known_objects
from events.cluster import ObjectObserved
from events.codec import event_of
from events.daemon import DaemonStarted
from events.errors import DamagedLogError, UsageError
from events.outcome import (
    EvictionFailed,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    ShadowDecisionEnded,
)
from events.record import GENESIS
from features.table import KINDS
from projections import snapshot as snapshots
from projections.apply_outcome import BIND
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


async def facts_at_base(log: ReadableLog) -> Snapshot | None:
    """Return the facts with which a log begins; None if it begins with the first record, or without facts of this version."""
    if log.base == GENESIS:
        return None
    return await log.latest_snapshot(snapshots.VERSION, before=log.base.position)


async def records_at_base(log: ReadableLog) -> list[Entry]:
    """Return the records of what stands where a log begins; none for a log that begins with the first record.

    Raises UsageError for facts without records.
    """
    facts = await facts_at_base(log)
    if facts is None:
        return []
    if not has_records(facts):
        raise UsageError(
            f"{log.place} begins behind position {log.base.position} with facts that hold no objects; "
            "join its archive, or export the stretch again with this release"
        )
    found = await asyncio.to_thread(lambda: list(records_of(facts, log.place)))
    if not found or found[-1].record.position != facts.position:
        raise DamagedLogError(
            f"{log.place}: the last record of the facts at position {facts.position} is missing"
        )
    return found


async def with_standing_records(
    log: ReadableLog, facts: Snapshot, state: State, pause: Pause | None = None
) -> Snapshot:
    """Return facts at the end of a batch of a log with the records of what stands there. `state` is what they say.

    Where a log begins with facts that have none, these have none either. `pause` is awaited between chunks.
    """
    before = await facts_at_base(log)
    if before is not None and not has_records(before):
        return facts
    standing, found = _Standing(state), await records_at_base(log)
    for entry in found:
        standing.add(entry)
    async for entries in _candidates(log, state, standing):
        for entry in entries:
            standing.add(entry)
        if pause is not None:
            await pause()
    others = await _of_the_end(log, state, standing.started, found)
    decided = {position for pair in standing.shadow_decisions.values() for position in pair}
    others += [one for one in found if one.record.position in decided]
    others += await entries_at(log, [one for one in sorted(decided) if one > log.base.position])
    payload = await asyncio.to_thread(with_records, facts.payload, standing.entries(others))
    return structs.replace(facts, payload=payload)


class _Standing:
    """Takes records in order, and keeps those that are needed."""

    def __init__(self, state: State) -> None:
        self.uids = {subject: uid for subject, uid, _ in _known(state)}
        self.positions = dict.fromkeys((*_decisions(state), state.cycle))
        """Records that are needed whatever they are about."""
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
        if record.kind == DaemonStarted.kind:
            self.started = entry
        elif record.kind in _KINDS_OF_RECORDS and record.subject in self.uids:
            self._add_of_object(entry, record.subject, record.kind)

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

    def entries(self, others: Iterable[Entry]) -> list[Entry]:
        """Return what is kept, and other entries, in order."""
        started = [] if self.started is None else [self.started]
        for entry in (*self._newest.values(), *started, *others):
            self._kept[entry.record.position] = entry
        return [self._kept[position] for position in sorted(self._kept)]


async def _candidates(
    log: ReadableLog, state: State, standing: _Standing
) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a log up to the position of State among which those are that are needed, in order."""
    until, base = state.position, log.base.position
    if not isinstance(log, SqlLog):
        async for entries in log.read(after=base, until=until):
            yield entries
        return
    of_a_life = [one for one in standing.uids if one.partition("/")[0] in _OF_A_LIFE]
    others = [one for one in standing.uids if one.partition("/")[0] not in _OF_A_LIFE]
    positions = dict.fromkeys(
        (
            *await log.positions_of(of_a_life, until, _KINDS_OF_RECORDS),
            *(await log.newest_objects(others, until)).values(),
            *standing.positions,
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
