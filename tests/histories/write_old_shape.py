"""How `v0.1/cycles_without_decider.muster` was made: `python -m tests.histories.write_old_shape BUNDLE`.

A run is recorded, and its cycles are rewritten in the shape from before the decider version was recorded. The
file in the repository stays as it is; this is kept to show where it came from.
"""

import asyncio
import sys
from pathlib import Path

import msgspec
from msgspec import structs

from daemon.log.copying import export
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.chain import Draft, seal
from events.record import Head, Record, StoredObject
from projections.batch import Batch
from simulator.scenario import parse_scenario

SCENARIO = Path(__file__).parent / "v0.1" / "cycles_without_decider.yaml"


def aged(record: Record, previous: Head) -> Record:
    """The record as it would have been written then, chained to what is before it."""
    kind, body = record.kind, record.body
    if kind == "cycle_opened.v2":
        fields: dict[str, object] = msgspec.json.decode(body)
        del fields["decider"]
        kind, body = "cycle_opened.v1", msgspec.json.encode(fields)
    fields = structs.asdict(structs.replace(record, kind=kind, body=body))
    del fields["digest"]
    return seal(previous.digest, msgspec.convert(fields, Draft))


async def write(scenario: str, path: Path) -> None:
    """Record the run in its old shape."""
    log, old = MemoryLog(), MemoryLog()
    await simulate(parse_scenario(scenario, SCENARIO.name), log, with_views=False)
    head = old.head
    batches: dict[int, list[Record]] = {}
    objects: dict[int, list[StoredObject]] = {}
    async for entries in log.read():
        for entry in entries:
            record = aged(entry.record, head)
            head = Head(position=record.position, digest=record.digest, epoch=record.epoch)
            batches.setdefault(record.batch, []).append(record)
            if record.object is not None and entry.content is not None:
                stored = StoredObject(digest=record.object, content=entry.content)
                objects.setdefault(record.batch, []).append(stored)
    await old.take_over("history")
    before = old.head
    for first, records in batches.items():
        batch = Batch(before=before, records=records, objects=objects.get(first, []))
        await old.append(batch)
        before = batch.after
    await export(old, path, notes={"release": "0.1", "shape": "cycle_opened.v1"})


if __name__ == "__main__":
    asyncio.run(write(SCENARIO.read_text(encoding="utf-8"), Path(sys.argv[1])))
