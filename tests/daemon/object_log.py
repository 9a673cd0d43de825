"""A log of what the API server shows of one object."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon.log.opening import open_log
from engine.batch import Batch
from events.chain import Draft, seal
from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import encode
from events.json_value import Json
from events.normalize import normalize
from events.record import Record, StoredObject

SECOND_NS = 1_000_000_000


async def write_object_log(path: Path, subject: str, shown: Iterable[Json], start_ns: int) -> Path:
    """Record a manifest a second, each at one position; None stands for a deletion."""
    log = await open_log(str(path), "write")
    head = await log.take_over("test")
    records: list[Record] = []
    objects: dict[str, StoredObject] = {}
    digest = head.digest
    for index, manifest in enumerate(shown):
        event: ObjectObserved | ObjectDeleted = ObjectDeleted(uid="u1", resource_version="9")
        stored = None
        if manifest is not None:
            seen = normalize(msgspec.json.encode(manifest))
            event = ObjectObserved(
                uid="u1", resource_version=str(index), changed_by=seen.changed_by
            )
            stored = seen.stored
            objects[stored.digest] = stored
        draft = Draft(
            *(index + 1, 1, head.epoch, start_ns + index * SECOND_NS, None, None),
            *(event.kind, subject, encode(event), None if stored is None else stored.digest),
        )
        records.append(seal(digest, draft))
        digest = records[-1].digest
    await log.append(Batch(before=head, records=records, objects=list(objects.values()), views={}))
    await log.close()
    return path
