"""Watch events to durable, beside bare `sqlite3` writing the same rows in the same transactions.

Ours splits and decodes the lines of a watch, normalizes, digests, seals, folds, computes view rows, compresses and writes. The bare library is
handed finished rows, so that what it needs is what the disk and SQLite cost.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from statistics import median
from time import perf_counter

import msgspec
from msgspec import Struct
from sqlalchemy.dialects.sqlite.aiosqlite import dialect

from benchmarks import manifests
from benchmarks.driving import append_all, begin, folder, nothing_of, take_in, timed
from benchmarks.figures import Figure
from benchmarks.manifests import PodLife, PodShape
from benchmarks.scale import Scale
from daemon.cluster.watching.watch_decoder import WatchStream
from daemon.log.contents import ObjectRow, Packer
from daemon.log.opening import open_log
from daemon.log.sqlite import WRITER_PRAGMAS
from daemon.log.statements import Statements, statements
from daemon.log.writing import LogRow, log_rows
from engine.batch import Batch
from engine.engine import Engine
from events.messages import ObjectSeen, WatchMessage
from projections.views.catalogue import VIEWS

BATCH = 1_000
"""Events taken in at a time: what comes while the batch before is being written."""
CHUNK = 65_536
"""Bytes that a connection hands over at a time."""
TOUCH_EVERY = 5
"""Every fifth pod is touched without a change of content, twice."""


class Prepared(Struct):
    """A batch as finished rows."""

    batch: Batch
    rows: list[LogRow]
    objects: list[ObjectRow]


def lives(count: int, node_count: int) -> Iterator[WatchMessage]:
    """Watch events of pods that come, are bound, run and end, a few hundred of them at a time."""
    for first in range(0, count, 500):
        shapes = [
            PodShape(name=f"pod-{index:06}", queue=index % manifests.QUEUES)
            for index in range(first, min(first + 500, count))
        ]
        for version, phase in enumerate(("", "Pending", "Running", "Running", "Succeeded"), 1):
            for index, shape in enumerate(shapes, first):
                node = f"node-{index % node_count:05}" if phase else ""
                if version == 4:
                    if index % TOUCH_EVERY == 0:
                        yield manifests.pod(shape, PodLife(node, phase, 3))
                        yield manifests.pod(shape, PodLife(node, phase, 3))
                    continue
                yield manifests.pod(shape, PodLife(node, phase or "Pending", version))


def cluster(node_count: int) -> list[WatchMessage]:
    """What is there before the events come."""
    return [
        *manifests.nodes(node_count),
        *nothing_of("PriorityClass", "PodGroup", "Namespace"),
        *manifests.queues(node_count, share=1),
        *nothing_of("Pod"),
    ]


def as_sent(events: list[WatchMessage]) -> list[bytes]:
    """The same events as a server sends them, in chunks that end anywhere. The chunks of one batch."""
    lines = [
        b'{"type":"MODIFIED","object":' + with_version(one.raw, number) + b"}\n"
        for number, one in enumerate(events, 1_000)
        if isinstance(one, ObjectSeen)
    ]
    sent = b"".join(lines)
    return [sent[at : at + CHUNK] for at in range(0, len(sent), CHUNK)]


def with_version(raw: bytes, version: int) -> bytes:
    """An object at a revision of its own, as each event of a server has."""
    manifest = msgspec.json.decode(raw)
    manifest["metadata"]["resourceVersion"] = str(version)
    encoded: bytes = msgspec.json.encode(manifest)
    return encoded


def shown(chunks: list[bytes]) -> Iterator[list[WatchMessage]]:
    """What a watch makes of them."""
    stream = WatchStream("Pod", "1")
    for chunk in chunks:
        reading = stream.read(chunk)
        assert reading.end is None
        if reading.messages:
            yield reading.messages


async def measure(scale: Scale) -> list[Figure]:
    """Best of several runs, ours and the bare library in turns."""
    events = list(lives(scale.watched_pods, scale.nodes[0]))
    sent = as_sent(events)
    raw = median(len(one.raw) for one in events if isinstance(one, ObjectSeen))
    ours: list[float] = []
    core: list[float] = []
    decoded: list[float] = []
    log: list[float] = []
    bare: list[float] = []
    per_event = stored = 0.0
    for _ in range(scale.repeats):
        with folder() as place:
            seconds, thinking = await _ours(place / "ours.db", scale, sent)
            ours.append(len(events) / seconds)
            decoding, _ = timed(lambda: sum(len(one) for one in shown(sent)))
            decoded.append(len(events) / decoding)
            core.append(len(events) / thinking)
            prepared = await _prepared(place / "bare.db", scale, events)
            copyfile(place / "bare.db", place / "log.db")
            log.append(len(events) / await _logged(place / "log.db", prepared))
            before = _size(place / "bare.db")
            bare.append(len(events) / _bare(place / "bare.db", prepared))
            per_event = _median_bytes(prepared)
            stored = (_size(place / "bare.db") - before) / len(events)
    return [
        Figure(
            benchmark="append",
            name="watch events to durable on SQLite",
            value=max(ours),
            unit="events/s",
            bound="at least",
            target=20_000,
            detail={"events": len(events), "raw_bytes_median": raw, "batch": BATCH},
        ),
        Figure(
            benchmark="append",
            name="the same without the log: split, decoded, observed, folded, views",
            value=max(core),
            unit="events/s",
        ),
        Figure(
            benchmark="append",
            name="of that, split and decoded only",
            value=max(decoded),
            unit="events/s",
        ),
        Figure(
            benchmark="append",
            name="bare sqlite3, the same rows",
            value=max(bare),
            unit="events/s",
        ),
        Figure(
            benchmark="append",
            name="the log alone: finished batches, packed and written",
            value=max(log),
            unit="events/s",
        ),
        Figure(
            benchmark="append",
            name="bare sqlite3 / the log alone",
            value=max(bare) / max(log),
            unit="x",
            bound="at most",
            target=1.5,
        ),
        Figure(
            benchmark="append",
            name="bare sqlite3 / the whole way from the watch event",
            value=max(bare) / max(ours),
            unit="x",
        ),
        Figure(
            benchmark="append",
            name="median of object and row on disk",
            value=per_event,
            unit="bytes",
            bound="at most",
            target=1_024,
        ),
        Figure(
            benchmark="append",
            name="file growth an event, with indexes and views",
            value=stored,
            unit="bytes",
        ),
    ]


async def _opened(path: Path, scale: Scale) -> Engine:
    """A database with a cluster in it, closed again; the step is at its head."""
    log = await open_log(str(path), "write")
    engine, first = begin(with_views=True, head=await log.take_over("benchmark"))
    await append_all(log, [first, *take_in(engine, cluster(scale.nodes[0]))])
    await log.close()
    return engine


def _taken_in(engine: Engine, chunks: list[bytes]) -> Iterator[Batch]:
    """Chunks through the watch and the step, so many events at a time."""
    waiting: list[WatchMessage] = []
    for messages in shown(chunks):
        waiting += messages
        if len(waiting) >= BATCH:
            yield from take_in(engine, waiting)
            waiting = []
    yield from take_in(engine, waiting)


async def _ours(path: Path, scale: Scale, chunks: list[bytes]) -> tuple[float, float]:
    """Seconds in all, and those of them that the core needs."""
    engine = await _opened(path, scale)
    log = await open_log(str(path), "write")
    thinking = 0.0
    began = perf_counter()
    batches = _taken_in(engine, chunks)
    while True:
        started = perf_counter()
        batch = next(batches, None)
        thinking += perf_counter() - started
        if batch is None:
            break
        await log.append(batch)
    seconds = perf_counter() - began
    await log.close()
    return seconds, thinking


async def _prepared(path: Path, scale: Scale, events: list[WatchMessage]) -> list[Prepared]:
    """A database before the events, and the rows that they are to become."""
    engine = await _opened(path, scale)
    pack = Packer().rows
    return [
        Prepared(batch=batch, rows=log_rows(batch.records), objects=pack(batch.objects))
        for batch in take_in(engine, events, BATCH)
    ]


async def _logged(path: Path, prepared: list[Prepared]) -> float:
    """Seconds that our log needs for batches that are finished but for packing."""
    log = await open_log(str(path), "write")
    began = perf_counter()
    for one in prepared:
        await log.append(one.batch)
    seconds = perf_counter() - began
    await log.close()
    return seconds


def _bare(path: Path, prepared: list[Prepared]) -> float:
    """Seconds that the bare library needs for the rows of every table."""
    sql = statements(dialect())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in WRITER_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        began = perf_counter()
        for one in prepared:
            connection.execute(sql.begin)
            _write(connection, sql, one)
            connection.execute("COMMIT")
        return perf_counter() - began


def _write(connection: sqlite3.Connection, sql: Statements, one: Prepared) -> None:
    before, after = one.batch.before, one.batch.after
    moved = connection.execute(
        sql.swap_head,
        (after.position, after.digest, after.epoch, before.position, before.digest, before.epoch),
    )
    assert moved.rowcount == 1
    if one.objects:
        connection.executemany(sql.insert_object, one.objects)
    connection.executemany(sql.insert_log, one.rows)
    connection.execute(sql.advance_views, (after.position, before.position))
    for view in VIEWS:
        if (change := one.batch.views.get(view.name)) is None:
            continue
        words = sql.views[view.name]
        for statement, rows in (
            (words.remove, change.removed),
            (words.upsert, change.upserted),
            (words.open, change.opened),
            (words.close, change.closed),
        ):
            if rows:
                connection.executemany(statement, rows)
        row = (view.name, view.version, after.position, f"{change.checksum:016x}")
        connection.execute(sql.mark_view, row)


def _size(path: Path) -> int:
    return path.stat().st_size


def _median_bytes(prepared: list[Prepared]) -> float:
    """Stored bytes of the rows of `log` and `objects`, numbers counted as eight."""
    sizes: list[int] = []
    for one in prepared:
        new = {row[0]: sum(map(len, row)) for row in one.objects}
        for row in one.rows:
            own = sum(len(cell) if isinstance(cell, str) else 8 for cell in row if cell is not None)
            sizes.append(own + new.pop(row[9] or "", 0))
    return median(sizes)
