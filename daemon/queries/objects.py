"""Objects as they were at a moment of a log, and who changed them."""

import msgspec
from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.bases import past_at_base
from daemon.queries.moments import At, entries_at, position_at, position_from
from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.errors import UsageError
from events.field_manager import FieldChange
from events.json_value import JsonObject
from replay.object_diff import FieldDiff, object_diff


class PastObject(Struct, frozen=True):
    """An object as it was observed."""

    subject: str
    position: int
    """The observation that showed it so; later ones up to the moment are the same."""
    recorded_at_ns: int
    changed_by: FieldChange | None
    manifest: JsonObject


class ObjectChange(Struct, frozen=True):
    """One change of an object: an observation that differs from the one before."""

    position: int
    recorded_at_ns: int
    what: str
    """`created`, `changed`, `deleted`, or `seen` for the first observation of a log or stretch that was not a creation."""
    changed_by: FieldChange | None
    fields: list[FieldDiff]


async def object_at(log: ReadableLog, subjects: list[str], at: At = None) -> PastObject:
    """Return an object at a moment. `subjects` are what its name may mean, the likeliest first.

    Raises UsageError where the log does not hold it then.
    """
    until = await position_at(log, at)
    for subject in subjects:
        entries = await observations(log, subject, until)
        if not entries:
            continue
        last = entries[-1]
        if isinstance(event_of(last.record), ObjectDeleted):
            position = last.record.position
            before = f"; --at {position - 1} shows it" if len(entries) > 1 else ""
            raise UsageError(f"{subject} was deleted at position {position}{before}")
        return _past(_first_alike(entries))
    raise _not_found(log, subjects, until)


def _not_found(log: ReadableLog, subjects: list[str], until: int) -> UsageError:
    names = " or ".join(subject.replace("//", "/") for subject in subjects)
    base = log.base.position
    if base:
        return UsageError(
            f"{log.place} shows no {names} from position {base} to {until}; earlier ones are in its archive"
        )
    return UsageError(f"{log.place} shows no {names} up to position {until}")


async def object_changes(
    log: ReadableLog, subjects: list[str], first: At = None, last: At = None
) -> tuple[str, list[ObjectChange]]:
    """Return the subject and its changes between two moments, oldest first. Raises UsageError as `object_at` does."""
    until = await position_at(log, last, "--to")
    since = log.base.position + 1 if first is None else await position_from(log, first)
    for subject in subjects:
        entries = await observations(log, subject, until)
        if entries:
            return subject, [one for one in _changes(entries) if one.position >= since]
    raise _not_found(log, subjects, until)


async def observations(log: ReadableLog, subject: str, until: int) -> list[Entry]:
    """Return the observations of an object up to a position, in order. Those with which a log begins come first: if it stood
    there, the newest is among them."""
    kinds = (ObjectObserved.kind, ObjectDeleted.kind)
    positions = await log.positions_of([subject], until, kinds)
    found = [one for one in await past_at_base(log) if one.record.subject == subject]
    found += await entries_at(log, positions)
    return [one for one in found if one.record.kind in kinds]


def _first_alike(entries: list[Entry]) -> Entry:
    """Return the first observation of the content that the last one has, without another in between."""
    found = entries[-1]
    for one in reversed(entries):
        is_there = isinstance(event_of(one.record), ObjectObserved)
        if not is_there or one.record.object != found.record.object:
            break
        found = one
    return found


def _past(entry: Entry) -> PastObject:
    record, event = entry.record, event_of(entry.record)
    assert isinstance(event, ObjectObserved)
    return PastObject(
        record.subject, record.position, record.recorded_at_ns, event.changed_by, _manifest(entry)
    )


def _manifest(entry: Entry) -> JsonObject:
    if entry.content is None:
        position, subject = entry.record.position, entry.record.subject
        raise UsageError(f"position {position}: the object of {subject} was left out of this log")
    manifest = msgspec.json.decode(entry.content)
    assert isinstance(manifest, dict)
    return manifest


def _changes(entries: list[Entry]) -> list[ObjectChange]:
    found: list[ObjectChange] = []
    before: JsonObject | None = None
    digest, uid = "", ""
    for entry in entries:
        record, event = entry.record, event_of(entry.record)
        if isinstance(event, ObjectDeleted):
            change = ObjectChange(record.position, record.recorded_at_ns, "deleted", None, [])
            found.append(change)
            before, digest = None, ""
            continue
        assert isinstance(event, ObjectObserved)
        if record.object == digest and event.uid == uid:
            continue
        manifest = _manifest(entry)
        is_new = before is None or event.uid != uid
        what = ("created" if found else "seen") if is_new else "changed"
        fields = [] if before is None or is_new else object_diff(before, manifest)
        found.append(
            ObjectChange(record.position, record.recorded_at_ns, what, event.changed_by, fields)
        )
        before, digest, uid = manifest, record.object or "", event.uid
    return found
