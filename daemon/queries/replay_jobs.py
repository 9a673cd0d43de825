"""Replay of a log in several processes at once: each replays stretches between two snapshots.

The result is that of one process. A stretch ends in the facts of the snapshot at which the next one begins, which is checked; where it
does not, or where anything else fails, the whole log is replayed in one process.
"""

import asyncio
import signal
from bisect import bisect_left
from collections.abc import Callable, Set
from itertools import pairwise
from multiprocessing import TimeoutError as MultiprocessingTimeoutError
from multiprocessing import active_children, get_context
from multiprocessing.pool import IMapIterator, Pool
from typing import Final

import structlog
from msgspec import Struct, structs

from daemon.first_state import first_state
from daemon.fold import restored
from daemon.installed_plugins import load_plugins
from daemon.log.code_key import code_key
from daemon.log.contract import ReadableLog
from daemon.log.entry import Snapshot
from daemon.log.opening import open_log
from daemon.log.snapshots import facts_of
from daemon.memory_tuning import collect_rarely, return_large_blocks
from daemon.queries.moments import entry_at
from daemon.queries.replay import Replayed, ReplayEnd, causes_of, check_stretch, replay_log
from daemon.view_rebuild import batches
from events.codec import event_of
from events.cycle import CycleOpened
from events.errors import MusterError
from events.record import Head
from features.table import FEATURES
from projections.left_out import ApplyError
from projections.snapshot import restore, take
from replay.log_replay import Counts, Divergence, Replay

STRETCHES_PER_JOB: Final = 4
"""Stretches take unequal time, so there are more of them than processes."""

STRETCH_RECORDS: Final = 50_000
"""No more than one stretch a process, where they would be shorter: restoring a snapshot takes as long as some thousand records."""

POLL_SECONDS: Final = 1.0
"""How often the processes are checked while a result is awaited."""

logger: Final = structlog.get_logger("muster")


class Stretch(Struct, frozen=True):
    """A part of the log that one process replays in one go."""

    begin: int
    """Position of the snapshot before it; 0 for the first record of the log."""
    first: int
    """Positions before this one are folded and not compared."""
    end: int
    """Position of the snapshot after it, or of the last record."""
    last: int
    """The last position that is compared by any process."""


class StretchResult(Struct, frozen=True):
    """The result of a stretch."""

    counts: Counts
    """Up to the divergence, or to the end of the stretch."""
    head: Head
    divergence: Divergence | None = None
    failure: str = ""
    """Why the result cannot be used."""


async def replay_in_processes(
    log: ReadableLog,
    url: str,
    jobs: int,
    first: int | None = None,
    last: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Replay a log, or a stretch of it, as `replay_log` does, in `jobs` processes. `url` is the name under which it is opened."""
    check_stretch(log, first, last)
    stretches = await _stretches(
        log, jobs, first or log.base.position + 1, last or log.head.position
    )
    if jobs == 1 or len(stretches) == 1:
        return await replay_log(log, first, last, progress=progress)
    counts = Counts()
    with get_context("spawn").Pool(min(jobs, len(stretches)), _begin_process) as pool:
        processes = {one.pid for one in active_children()}
        results = pool.imap(_replay, [(url, one) for one in stretches])
        for stretch in stretches:
            result = await _next(results, processes)
            if result.failure:
                logger.warning("replayed in one process", reason=result.failure)
                break
            counts.records += result.counts.records
            counts.cycles += result.counts.cycles
            counts.decisions += result.counts.decisions
            if progress is not None:
                progress(result.head.position)
            if result.divergence is not None or stretch is stretches[-1]:
                end = ReplayEnd(result.head, counts)
                causes = await causes_of(log, result.divergence)
                return Replayed(
                    log.place, first or log.base.position + 1, end, result.divergence, causes
                )
        _end(pool)
    return await replay_log(log, first, last, progress=progress)


async def _stretches(log: ReadableLog, jobs: int, first: int, last: int) -> list[Stretch]:
    """Return the stretches, in order and of about the same length."""
    stored = await log.snapshot_positions(code_key())
    begin = max((one for one in stored if one < first), default=log.base.position)
    between = [one for one in stored if first <= one < last]
    wanted = min(jobs * STRETCHES_PER_JOB, max(jobs, (last - first) // STRETCH_RECORDS))
    count = min(wanted, len(between) + 1)
    length = (last - first) // count
    bounds: dict[int, None] = {}
    for number in range(1, count):
        index = bisect_left(between, first + number * length)
        bounds[between[min(index, len(between) - 1)]] = None
    ends = [begin, *bounds, last]
    return [Stretch(one, max(first, one + 1), end, last) for one, end in pairwise(ends)]


def _begin_process() -> None:
    """Prepare a process. The interrupt is for the first process, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()
    return_large_blocks()
    load_plugins()


async def _next(
    results: "IMapIterator[StretchResult]", processes: Set[int | None]
) -> StretchResult:
    """Return the next result. The pool replaces a process that was killed, but not the work that it had taken."""
    while True:
        try:
            return await asyncio.to_thread(results.next, POLL_SECONDS)
        except MultiprocessingTimeoutError:
            if not processes <= {one.pid for one in active_children()}:
                failure = "a process was killed"
                return StretchResult(Counts(), Head(0, "", 0), failure=failure)


def _end(pool: Pool) -> None:
    pool.terminate()
    pool.join()


def _replay(work: tuple[str, Stretch]) -> StretchResult:
    """Replay a stretch, in a process of its own."""
    return asyncio.run(_replay_stretch(*work))


async def _replay_stretch(url: str, stretch: Stretch) -> StretchResult:
    try:
        log = await open_log(url)
        try:
            return await replay_stretch(log, stretch)
        finally:
            await log.close()
    except (MusterError, ApplyError) as error:
        # The replay in one process raises it, or finds a divergence before it.
        return StretchResult(Counts(), Head(stretch.begin, "", 0), failure=str(error))


async def replay_stretch(log: ReadableLog, stretch: Stretch) -> StretchResult:
    """Replay a stretch, and compare the facts at its end with the snapshot there."""
    replay = await _begin(log, stretch)
    at_end: StretchResult | None = None
    async for batch in batches(log, replay.head.position):
        if batch[0].record.position > stretch.last:
            break
        if batch[-1].record.position < stretch.first:
            for entry in batch:
                replay.fold(entry.record, entry.content)
            continue
        for entry in batch:
            found = replay.take(entry.record, entry.content)
            if found is not None:
                return _result(replay, found)
        if stretch.end < stretch.last and replay.head.position == stretch.end:
            failure = await _differing(log, replay, stretch.end)
            at_end = structs.replace(_result(replay), failure=failure)
        # A cycle that was due before the end may be found missing behind it.
        if at_end is not None and (at_end.failure or not replay.is_cycle_due):
            break
    found = replay.finish()
    if found is not None or at_end is None:
        return _result(replay, found)
    return at_end


async def _begin(log: ReadableLog, stretch: Stretch) -> Replay:
    base = log.base.position
    if stretch.begin == base:
        return Replay(log.base, state=await first_state(log, {}))
    snapshot = await _snapshot_at(log, stretch.begin)
    state = await asyncio.to_thread(restored, snapshot)
    replay = Replay(snapshot.head, state=state)
    if stretch.first == stretch.begin + 1 and stretch.begin > base:
        cycle = None
        if state.cycle > base:
            record = (await entry_at(log, state.cycle)).record
            event = event_of(record)
            assert isinstance(event, CycleOpened)
            cycle = (record, event)
        replay.go_on((await entry_at(log, stretch.begin)).record, cycle)
    return replay


async def _snapshot_at(log: ReadableLog, position: int) -> Snapshot:
    snapshot = await log.latest_snapshot(code_key(), before=position)
    if snapshot is None or snapshot.position != position:
        raise MusterError(f"the snapshot at position {position} cannot be used")
    return snapshot


async def _differing(log: ReadableLog, replay: Replay, position: int) -> str:
    """Return how the facts of a replay differ from those of a snapshot; empty if they do not."""
    snapshot = await _snapshot_at(log, position)
    if replay.head.digest != snapshot.digest:
        return f"the record at position {position} has another digest than the snapshot there"
    replay.state.settle()
    facts = take(replay.state)
    # What is computed again when a snapshot is restored may come in another order.
    if facts == facts_of(snapshot.payload) or take(restore(facts, FEATURES)) == take(
        restored(snapshot)
    ):
        return ""
    return f"the snapshot at position {position} has other facts than the records before it"


def _result(replay: Replay, found: Divergence | None = None) -> StretchResult:
    return StretchResult(structs.replace(replay.counts), replay.head, found)
