"""Decide a recorded log again and compare it with the record, byte for byte."""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Struct

from daemon.first_state import state_at_base
from daemon.fold import restore_in_thread, under_policy
from daemon.log.code_key import code_key
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.log_state import check_complete
from daemon.queries.moments import entry_at
from daemon.view_rebuild import batches
from events.errors import UsageError
from events.record import Head
from projections.left_out import LeftOut, folded
from replay.log_replay import Counts, Divergence, Replay, Side
from scheduling.decide import DECIDER


class ReplayEnd(Struct, frozen=True):
    """Where a replay ended."""

    head: Head
    counts: Counts


class Replayed(Struct, frozen=True):
    """The result of a replay."""

    place: str
    first: int
    replay: ReplayEnd
    divergence: Divergence | None
    causes: tuple[Entry, ...]
    """The records that fed the divergence."""


async def replay_log(
    log: ReadableLog,
    first: int | None = None,
    last: int | None = None,
    *,
    policy: bytes | None = None,
    progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Replay a whole log, or a stretch of it. Records that State cannot apply are left out.

    A stretch begins at the newest snapshot before it, if there is one and the recorded policies are used. Another policy is in force
    from the first record on, or in what stands where the log begins.
    """
    check_stretch(log, first, last)
    stretch = (first or log.base.position + 1, last or log.head.position)

    async def attempt(left_out: LeftOut) -> Replayed:
        replay = await begin_replay(log, policy, left_out, stretch[0])
        return await _replayed(log, replay, *stretch, progress)

    return await folded(attempt)


async def begin_replay(
    log: ReadableLog, policy: bytes | None, left_out: LeftOut, first: int | None = None
) -> Replay:
    """Return a replay of a log from its beginning; under the recorded policies behind the newest
    snapshot before the position `first`."""
    if policy is None and first is not None:
        snapshot = await log.latest_snapshot(code_key(), before=first - 1)
        if snapshot is not None:
            return Replay(snapshot.head, state=await restore_in_thread(snapshot, left_out))
    state = await state_at_base(log)
    if state is None:
        return Replay(log.base, policy=policy, left_out=left_out)
    if policy is not None:
        state = await asyncio.to_thread(under_policy, state, policy)
    state.left_out = left_out
    return Replay(log.base, policy=policy, state=state)


async def _replayed(
    log: ReadableLog,
    replay: Replay,
    first: int,
    last: int,
    progress: Callable[[int], None] | None,
) -> Replayed:
    found: Divergence | None = None
    async for batch in batches(log, replay.head.position):
        if batch[0].record.position > last:
            break
        if batch[-1].record.position < first:
            for entry in batch:
                replay.fold(entry.record, entry.content)
        else:
            found = _compare(replay, batch)
        if found is not None:
            break
        if progress is not None:
            progress(replay.head.position)
    found = found or replay.finish()
    end = ReplayEnd(replay.head, replay.counts)
    return Replayed(log.place, first, end, found, await causes_of(log, found))


def replay_document(replayed: Replayed) -> dict[str, object]:
    """The result of a replay as a JSON document."""
    replay, found = replayed.replay, replayed.divergence
    return {
        "log": replayed.place,
        "equal": found is None,
        "from": replayed.first,
        "to": replay.head.position,
        "records": replay.counts.records,
        "cycles": replay.counts.cycles,
        "decisions": replay.counts.decisions,
        "digest": replay.head.digest,
        "decider": DECIDER,
        "divergence": None if found is None else _as_json(found),
    }


def check_stretch(log: ReadableLog, first: int | None, last: int | None) -> None:
    """Raise UsageError unless a log begins with the first record and holds the positions of --from and --to."""
    check_complete(log, ", and a log is decided again from its first record or from such facts")
    begin, end = log.base.position + 1, log.head.position
    for name, position in (("--from", first), ("--to", last)):
        if position is not None and not begin <= position <= end:
            raise UsageError(f"{name} {position}: {log.place} holds positions {begin} to {end}")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from {first} comes after --to {last}")


def _compare(replay: Replay, batch: list[Entry]) -> Divergence | None:
    for entry in batch:
        found = replay.take(entry.record, entry.content)
        if found is not None:
            return found
    return None


async def causes_of(log: ReadableLog, found: Divergence | None) -> tuple[Entry, ...]:
    """Return the records that fed a divergence, but for those before the first record of the log."""
    positions = () if found is None else found.causes
    return tuple([await entry_at(log, one) for one in positions if one > log.base.position])


def _as_json(found: Divergence) -> dict[str, object]:
    return {
        "position": found.position,
        "what": found.what,
        "cycle": found.cycle,
        "causes": list(found.causes),
        "decider": found.decider,
        "is_of_another_version": found.is_of_another_version,
        "recorded": _side_as_json(found.recorded),
        "decided": _side_as_json(found.decided),
    }


def _side_as_json(side: Side | None) -> dict[str, object] | None:
    if side is None:
        return None
    return {"kind": side.kind, "subject": side.subject, "body": msgspec.Raw(side.body)}
