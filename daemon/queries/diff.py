"""Compare two logs: where they part, the objects and decisions that differ, and the figures of both."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.fold import fold
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.log_state import check_complete
from daemon.queries.moments import entry_at, recorded_at_ns
from events.chain import check_link
from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.daemon import PolicyChanged
from events.errors import UsageError
from events.record import Head, Record
from projections.left_out import LeftOut, folded
from replay.decision_differences import LATE_NS, DecisionDifference, decision_differences
from replay.log_time import VIRTUAL_UNTIL_NS
from replay.object_diff import FieldDiff, object_diff
from replay.what_if_figures import RunFigures

FIELDS_OF_MAX: Final = 100
"""Objects that differ whose fields are compared; further ones are only named."""

POLICY: Final = "Policy//"
"""Subject of the policy."""

Progress = Callable[[int], None]


class ComparedLog(Struct):
    """One of two logs, from the position behind which they are compared."""

    place: str
    head: Head
    start_ns: int
    end_ns: int
    """Up to when its figures are; that of its last record unless both logs are of virtual time."""
    figures: RunFigures
    objects: dict[str, tuple[int, str]]
    """Subject of each object that is there at the end to the position and digest of its last observation; the policy is among
    them, with its text in place of a digest."""


class Parting(Struct, frozen=True):
    """The first records that differ; None where a log has ended."""

    position: int
    one: Record | None
    other: Record | None


class ObjectDifference(Struct, frozen=True):
    """An object that is not the same at the ends of two logs."""

    subject: str
    what: str
    """`only in one`, `only in other` or `differs`."""
    fields: list[FieldDiff] = []
    """The first `FIELDS_OF_MAX` objects that differ have them."""


class LogDiff(Struct, frozen=True):
    """How two logs differ."""

    begins: int
    """The position behind which both are compared."""
    parting: Parting | None
    """None if the logs have no beginning in common: their positions have nothing to do with each other."""
    one: ComparedLog
    other: ComparedLog
    objects: list[ObjectDifference]
    decisions: list[DecisionDifference]


class Equal(Struct, frozen=True):
    """Two logs that hold the same records."""

    begins: int
    head: Head


async def diff_logs(
    one: ReadableLog, other: ReadableLog, progress: Progress | None = None
) -> LogDiff | Equal:
    """Compare two logs. One may begin behind the other: then both are compared from there on.

    The chains of both are checked. Raises UsageError for a log without records, or one that begins without the facts at its
    start.
    """
    for log in (one, other):
        check_complete(log)
        if log.head.position <= log.base.position:
            raise UsageError(f"{log.place} holds no records")
    begins = await _common_beginning(one, other)
    parting = None
    if begins is not None:
        parting = await _parting(one, other, begins)
        if parting is None:
            for log in (one, other):
                await _check_chain(log, begins, progress)
            return Equal(begins, one.head)
    compared = [
        await _read(log, log.base.position if begins is None else begins, progress)
        for log in (one, other)
    ]
    left, right = compared
    is_virtual = left.start_ns < VIRTUAL_UNTIL_NS and right.start_ns < VIRTUAL_UNTIL_NS
    if is_virtual and (parting is None or (parting.one is not None and parting.other is not None)):
        # In a simulation nothing happens behind the last record; neither log is a part of the other.
        length_ns = max(side.end_ns - side.start_ns for side in compared)
        for side in compared:
            side.end_ns = side.start_ns + length_ns
    for side in compared:
        side.figures.finish(side.end_ns)
    decisions = decision_differences(
        left.figures,
        right.figures,
        left.start_ns,
        right.start_ns,
        late_ns=0 if is_virtual else LATE_NS,
    )
    objects = await _objects(one, other, left.objects, right.objects)
    return LogDiff(begins or 0, parting, left, right, objects, decisions)


async def _common_beginning(one: ReadableLog, other: ReadableLog) -> int | None:
    """Return the position at which both logs hold the same chain; None if there is none."""
    first = max(one.base.position, other.base.position)
    digests = [await _digest(log, first) for log in (one, other)]
    return first if digests[0] == digests[1] and digests[0] is not None else None


async def _digest(log: ReadableLog, position: int) -> str | None:
    """Return the digest at a position, which stands for all records up to there; None outside of a log."""
    if position == log.base.position:
        return log.base.digest
    if not log.base.position < position <= log.head.position:
        return None
    return (await entry_at(log, position)).record.digest


async def _parting(one: ReadableLog, other: ReadableLog, begins: int) -> Parting | None:
    """Return the first records that differ, found by bisection: an equal digest means equal records up to there."""
    same, differs = begins, min(one.head.position, other.head.position)
    if await _digest(one, differs) == await _digest(other, differs):
        if one.head.position == other.head.position:
            return None
        same = differs
        differs += 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if await _digest(one, middle) == await _digest(other, middle):
            same = middle
        else:
            differs = middle
    records = [
        (await entry_at(log, differs)).record if differs <= log.head.position else None
        for log in (one, other)
    ]
    return Parting(differs, records[0], records[1])


async def _check_chain(log: ReadableLog, begins: int, progress: Progress | None) -> None:
    """Raise DamagedLogError if a record behind a position does not fit the digests of the chain."""
    head = Head(begins, await _digest(log, begins) or "", 0)
    async for entries in log.read(after=begins, until=log.head.position):
        for entry in entries:
            head = check_link(head, entry.record)
        if progress is not None:
            progress(head.position)


async def _read(log: ReadableLog, begins: int, progress: Progress | None) -> ComparedLog:
    """Fold a log and gather its figures behind a position."""
    start_ns = await recorded_at_ns(log, begins + 1)

    async def attempt(left_out: LeftOut) -> ComparedLog:
        state = await fold(log, begins)
        state.left_out = {**state.left_out, **left_out}
        figures = RunFigures(state, start_ns, {})
        objects: dict[str, tuple[int, str]] = {}
        head = Head(begins, await _digest(log, begins) or "", 0)
        end_ns = start_ns
        async for entries in log.read(after=begins, until=log.head.position):
            for entry in entries:
                record, event = entry.record, event_of(entry.record)
                head = check_link(head, record)
                figures.add(record, event, entry.content)
                end_ns = max(end_ns, record.recorded_at_ns)
                if isinstance(event, ObjectObserved) and record.object:
                    objects[record.subject] = (record.position, record.object)
                elif isinstance(event, ObjectDeleted):
                    objects.pop(record.subject, None)
                elif isinstance(event, PolicyChanged):
                    objects[POLICY] = (record.position, bytes(event.policy).decode())
            if progress is not None:
                progress(head.position)
        return ComparedLog(log.place, head, start_ns, end_ns, figures, objects)

    return await folded(attempt)


async def _objects(
    one: ReadableLog,
    other: ReadableLog,
    left: dict[str, tuple[int, str]],
    right: dict[str, tuple[int, str]],
) -> list[ObjectDifference]:
    """Return the objects that differ at the ends, by subject."""
    found: list[ObjectDifference] = []
    compared = 0
    for subject in sorted({**left, **right}):
        before, after = left.get(subject), right.get(subject)
        if before is None or after is None:
            what = "only in other" if before is None else "only in one"
            found.append(ObjectDifference(subject, what))
        elif before[1] != after[1]:
            fields: list[FieldDiff] = []
            if compared < FIELDS_OF_MAX:
                compared += 1
                pair = (await entry_at(one, before[0]), await entry_at(other, after[0]))
                fields = _fields(*pair)
            found.append(ObjectDifference(subject, "differs", fields))
    return found


def _fields(before: Entry, after: Entry) -> list[FieldDiff]:
    """Return the fields that differ; none where an object was left out of a log."""
    contents = [_content(one) for one in (before, after)]
    if contents[0] is None or contents[1] is None:
        return []
    return object_diff(msgspec.json.decode(contents[0]), msgspec.json.decode(contents[1]))


def _content(entry: Entry) -> bytes | None:
    event = event_of(entry.record)
    return bytes(event.policy) if isinstance(event, PolicyChanged) else entry.content
