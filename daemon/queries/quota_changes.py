"""Who changed the quota of a queue last: from the observations of its object, newest first."""

from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.moments import entries_at, recorded_at_ns
from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.json_value import Json, JsonObject
from projections.cards import QUOTA_ANNOTATION
from replay.log_time import format_time
from replay.object_diff import object_diff
from replay.why_answer import QuotaChange

QUOTA_FIELDS: Final = ("capability", "guarantee", "deserved", "weight")
"""Fields of the spec of a Queue that state a quota; the annotation `volcano.sh/card.quota` does, too."""

OBSERVATIONS_MAX: Final = 2_000
"""Observations of a queue that are read, newest first: controllers update its status often."""

BLOCK: Final = 50
"""Observations that are read at once."""


async def last_quota_change(log: ReadableLog, queue: str, until: int) -> QuotaChange | None:
    """Return the last change of the quota of a queue up to a position. None if the queue has no object then, if its object was left out
    of the log, or if its last `OBSERVATIONS_MAX` observations state the same quota."""
    last: tuple[Entry, ObjectObserved, JsonObject] | None = None
    count = 0
    before: JsonObject | None = None
    async for entry in _newest_first(log, f"Queue//{queue}", until):
        event = event_of(entry.record)
        if isinstance(event, ObjectDeleted):
            break
        count += 1
        if not isinstance(event, ObjectObserved) or entry.content is None:
            return None
        quota = _quota(entry.content)
        if last is not None and (quota != last[2] or event.uid != last[1].uid):
            before = quota if event.uid == last[1].uid else None
            break
        last = (entry, event, quota)
    else:
        if count >= OBSERVATIONS_MAX:
            return None
    if last is None:
        return None
    record, event = last[0].record, last[1]
    start_ns = await recorded_at_ns(log, log.base.position + 1)
    return QuotaChange(
        position=record.position,
        at=format_time(record.recorded_at_ns, start_ns),
        at_ns=record.recorded_at_ns,
        what="seen" if before is None else "changed",
        manager="" if event.changed_by is None else event.changed_by.text,
        changed_at="" if event.changed_by is None else event.changed_by.time,
        fields=tuple(object_diff(before or _quota(b"{}"), last[2])),
    )


async def _newest_first(log: ReadableLog, subject: str, until: int) -> AsyncIterator[Entry]:
    kinds = (ObjectObserved.kind, ObjectDeleted.kind)
    positions = (await log.positions_of([subject], until, kinds))[-OBSERVATIONS_MAX:]
    for end in range(len(positions), 0, -BLOCK):
        for entry in reversed(await entries_at(log, positions[max(end - BLOCK, 0) : end])):
            yield entry


def _quota(content: bytes) -> JsonObject:
    """Return the parts of a Queue that state its quota, at their places."""
    manifest = msgspec.json.decode(content)
    spec, annotations = _part(manifest, "spec"), _part(_part(manifest, "metadata"), "annotations")
    return {
        "metadata": {"annotations": _named(annotations, (QUOTA_ANNOTATION,))},
        "spec": _named(spec, QUOTA_FIELDS),
    }


def _named(part: JsonObject, names: Iterable[str]) -> JsonObject:
    return {name: part[name] for name in names if name in part}


def _part(manifest: Json, name: str) -> JsonObject:
    found = manifest.get(name) if isinstance(manifest, dict) else None
    return found if isinstance(found, dict) else {}
