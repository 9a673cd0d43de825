"""Questions about any moment of a long log, and its replay in two processes.

    python -m benchmarks.history --records N [--log FILE] [--output FILE]

The log is made by repeating a real one. An hour of the openb workload is simulated once. Its records from the first pod on are
appended again and again, until there are so many: positions, cycles, causes, resource versions and times are shifted, pods get
other names and UIDs, and before each repetition the pods of the one before are deleted. The nodes and queues stay. So each
repetition holds the same decisions on the same cluster, and the log can be verified and replayed as any other. Views are not
kept. Snapshots are written at the end.
"""

import argparse
import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import msgspec
from msgspec import Struct

from benchmarks.driving import folder
from benchmarks.figures import Figure, show, write
from daemon.log.contents import ObjectRow, Packer
from daemon.log.contract import Log
from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.memory_tuning import collect_rarely
from daemon.queries.history import SNAPSHOT_EVERY, write_snapshots
from daemon.simulation import simulate
from events.chain import Draft, seal
from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.cycle import CycleOpened
from events.record import Record, StoredObject
from simulator.generated_workload import with_workload
from simulator.openb_table import shipped_table
from simulator.openb_workload import openb_workload
from simulator.scenario import Scenario, parse_scenario

START: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""When the log begins."""

PERIOD_SECONDS: Final = 4_000
"""From the beginning of one repetition to that of the next. The workload takes 3,600 of them."""

REVISIONS: Final = 100_000
"""Resource versions of one repetition; the last ones are those of deletions."""

RECORDS_AT_ONCE: Final = 20_000
"""Records of a transaction."""

FOLDED: Final = (
    "history of a queue for five minutes in the middle",
    "history of a card of a node for five minutes in the middle",
)
"""Questions for which every record of the stretch is folded."""

MINUTES_NS: Final = 150 * 1_000_000_000
"""Half of five minutes."""

_TIME: Final = re.compile(rb"1970-01-01T(\d\d):(\d\d):(\d\d)Z")
_POD: Final = re.compile(rb"(openb-pod-|uid-)")
_REVISION: Final = re.compile(rb'"resource_version":"(\d+)"')
_BEGAN: Final = re.compile(rb'"at_ns":(\d+)')


async def make_long_log(
    log: Log, records: int, percent: int = 100, progress: Callable[[int], None] | None = None
) -> None:
    """Write at least so many records into an empty log; `percent` is the size of the openb workload."""
    source = MemoryLog()
    await simulate(_scenario(percent), source, with_views=False)
    entries = [entry async for some in source.read() for entry in some]
    first = next(one.record.position for one in entries if one.record.subject.startswith("Pod/"))
    head = await log.take_over("benchmark")
    repeated = _Repeated(entries, first, head.epoch)
    for drafts in repeated.stretches(records):
        sealed: list[Record] = []
        digest = log.head.digest
        for draft in drafts:
            record = seal(digest, draft)
            digest = record.digest
            sealed.append(record)
        await log.append_stored(sealed, repeated.take_objects())
        if progress is not None:
            progress(log.head.position)


def _scenario(percent: int) -> Scenario:
    text = f"scenario: openb\nworkload: {{name: openb, scale: {percent / 100}, window: 3000s}}\nuntil: 3600s\n"
    scenario = parse_scenario(text, "benchmark")
    assert scenario.workload is not None
    return with_workload(scenario, openb_workload(scenario.workload, shipped_table()))


class _Repeated:
    """The records of a log, repeated from one position on."""

    def __init__(self, entries: list[Entry], first: int, epoch: int) -> None:
        self._before = entries[: first - 1]
        self._entries = entries[first - 1 :]
        self._first = first
        self._epoch = epoch
        self._packer = Packer()
        self._objects: list[StoredObject] = []
        self._digests: dict[str, str] = {}
        pods: dict[str, str] = {}
        for entry in self._entries:
            event = event_of(entry.record)
            if isinstance(event, ObjectObserved):
                pods[entry.record.subject] = event.uid
        self._pods = pods

    def take_objects(self) -> list[ObjectRow]:
        """Return the objects of the last stretch, packed."""
        objects, self._objects = self._objects, []
        return self._packer.rows(objects)

    def stretches(self, count: int) -> Iterator[list[Draft]]:
        """Yield records before they are sealed, in lists that end where a batch ends."""
        drafts: list[Draft] = []
        for draft in chain(self._beginning(), self._repetitions(count)):
            if len(drafts) >= RECORDS_AT_ONCE and draft.batch == draft.position:
                yield drafts
                drafts = []
            drafts.append(draft)
        yield drafts

    def _beginning(self) -> Iterator[Draft]:
        for entry in self._before:
            yield self._draft(entry, 0, 0)

    def _repetitions(self, count: int) -> Iterator[Draft]:
        number, position = 0, self._first - 1
        while position < count:
            if number:
                yield from self._deletions(number, position)
                position += len(self._pods)
            shift = position - self._first + 1
            for entry in self._entries:
                yield self._draft(entry, number, shift)
            position += len(self._entries)
            number += 1
            self._digests = {}

    def _deletions(self, number: int, position: int) -> Iterator[Draft]:
        """Yield the deletions of the pods of the repetition before, at the time of this one: one batch."""
        revision = number * REVISIONS - len(self._pods)
        for index, (subject, uid) in enumerate(self._pods.items()):
            gone = ObjectDeleted(uid=uid, resource_version=str(revision + index))
            renamed = _renamer(number - 1)
            yield Draft(
                position=position + 1 + index,
                batch=position + 1,
                epoch=self._epoch,
                recorded_at_ns=_shift_ns(number),
                cycle=None,
                cause=None,
                kind=ObjectDeleted.kind,
                subject=renamed(subject.encode()).decode(),
                body=renamed(msgspec.json.encode(gone)),
                object=None,
            )

    def _draft(self, entry: Entry, number: int, shift: int) -> Draft:
        record = entry.record
        is_pod = record.position >= self._first
        renamed = _renamer(number) if is_pod else _unchanged
        body = renamed(record.body)
        if record.kind == ObjectObserved.kind and number:
            body = _REVISION.sub(
                lambda found: b'"resource_version":"%d"' % (int(found[1]) + number * REVISIONS),
                body,
            )
        elif record.kind == CycleOpened.kind:
            body = _BEGAN.sub(
                lambda found: b'"at_ns":%d' % (int(found[1]) + _shift_ns(number)), body
            )
        return Draft(
            position=record.position + shift,
            batch=self._moved(record.batch, record.position + shift, shift),
            epoch=self._epoch,
            recorded_at_ns=record.recorded_at_ns + _shift_ns(number),
            cycle=None if record.cycle is None else record.cycle + shift,
            cause=record.cause and self._moved(record.cause, 0, shift),
            kind=record.kind,
            subject=renamed(record.subject.encode()).decode(),
            body=body,
            object=None if record.object is None else self._object(entry, renamed, number),
        )

    def _moved(self, position: int, before: int, shift: int) -> int:
        """Return a position in a repetition; `before` for one that is not repeated."""
        if not shift or position >= self._first:
            return position + shift
        return self._first + shift if before else position

    def _object(self, entry: Entry, renamed: Callable[[bytes], bytes], number: int) -> str:
        """Keep the renamed object of a record, and return its digest."""
        old = entry.record.object
        assert old is not None
        if (known := self._digests.get(old)) is not None:
            return known
        assert entry.content is not None
        content = _TIME.sub(_times(number), renamed(entry.content))
        digest = self._digests[old] = sha256(content).hexdigest()
        self._objects.append(StoredObject(digest=digest, content=content))
        return digest


def _renamer(number: int) -> Callable[[bytes], bytes]:
    """Return a function that renames pods, their UIDs and their pod groups in a text."""
    to = b"\\g<1>%04d-" % number
    return lambda text: _POD.sub(to, text)


def _unchanged(text: bytes) -> bytes:
    return text


def _shift_ns(number: int) -> int:
    return (int(START.timestamp()) + number * PERIOD_SECONDS) * 1_000_000_000


def _times(number: int) -> Callable[[re.Match[bytes]], bytes]:
    """Return a function that shifts a time found in an object."""
    begin = START + timedelta(seconds=number * PERIOD_SECONDS)

    def shifted(found: re.Match[bytes]) -> bytes:
        hours, minutes, seconds = map(int, found.groups())
        at = begin + timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return at.isoformat().replace("+00:00", "Z").encode()

    return shifted


async def write_log(place: str, records: int, percent: int, every: int) -> None:
    """Write a long log and its snapshots; what is there already is kept."""

    def progress(position: int) -> None:
        print(f"\r{position:,} records", end="", file=sys.stderr, flush=True)

    log = await open_log(place, "write")
    try:
        if not log.head.position:
            await make_long_log(log, records, percent, progress)
        await write_snapshots(log, every, progress)
    finally:
        await log.close()
        print(file=sys.stderr)


class Contents(Struct, frozen=True):
    """What a long log holds, as far as questions about it need it."""

    records: int
    snapshots: int
    snapshot_bytes: int
    log_bytes: int
    """Of the file, without snapshots."""
    pod: str
    """Bound in the middle of the log."""
    bound_at: int
    node: str
    """The one that the pod is bound to."""
    card: str
    """A card of that node, as `NODE/MODEL`."""
    minutes: tuple[str, str]
    """Two moments five minutes apart; the pod is bound in between."""
    noon: str
    """The last noon, if the log has one; else the middle."""
    stretch: tuple[int, int]
    """In the middle; it begins at a snapshot."""


def contents_of(place: str, stretch_records: int) -> Contents:
    """Look into a log."""
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as log:

        def ask(query: str, *given: int | str) -> Any:
            return log.execute(query, given).fetchone()

        (records,) = ask("select max(position) from log")
        count, size_bytes = ask("select count(*), coalesce(sum(length(payload)), 0) from snapshot")
        bound_at, bound_ns, subject, body = ask(
            "select position, recorded_at_ns, subject, body from log where position > ? and kind = 'pod_bound.v1' order by position limit 1",
            records // 2,
        )
        first_ns, last_ns = (
            ask("select recorded_at_ns from log where position = ?", one)[0] for one in (1, records)
        )
        node = json.loads(body)["node"]
        (content,) = ask(
            "select body from log where kind = 'gang_bind_decided.v1' and position < ? and body like ? "
            "and body like '%\"cards\"%' order by position desc limit 1",
            *(bound_at, f'%"node":"{node}","cards"%'),
        )
        placed = json.loads(content)["placements"]
        card = next(name for one in placed if one["node"] == node for name in one["cards"])
        (begin,) = ask(
            "select coalesce(max(position), 0) from snapshot where position < ?", bound_at
        )
    noon = datetime.fromtimestamp(last_ns / 1e9, UTC).replace(
        hour=12, minute=0, second=0, microsecond=0
    )
    if noon.timestamp() * 1e9 > last_ns:
        noon -= timedelta(days=1)
    has_noon = noon.timestamp() * 1e9 >= first_ns
    return Contents(
        records=records,
        snapshots=count,
        snapshot_bytes=size_bytes,
        log_bytes=Path(place).stat().st_size - size_bytes,
        pod=subject,
        bound_at=bound_at,
        node=node,
        card=f"{node}/{card}",
        minutes=(
            _moment(max(bound_ns - MINUTES_NS, first_ns)),
            _moment(min(bound_ns + MINUTES_NS, last_ns)),
        ),
        noon=noon.isoformat().replace("+00:00", "Z") if has_noon else str(records // 2),
        stretch=(begin + 1, min(begin + stretch_records, records)),
    )


def _moment(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")


def measure(place: str, stretch_records: int, repeats: int) -> list[Figure]:
    """Ask a log by commands, each a process of its own."""
    found = contents_of(place, stretch_records)
    size = f"{found.records:,} records"
    questions: dict[str, tuple[str, ...]] = {
        "why of a pod in the middle, at the end": ("why", found.pod, "--log", place),
        "why of a pod in the middle, just after it was bound": (
            *("why", found.pod, "--log", place, "--at", str(found.bound_at)),
        ),
        "queue list at the end": ("queue", "list", "--log", place),
        "queue list at noon": ("queue", "list", "--log", place, "--at", found.noon),
        "why of a node at the end": ("why", "Node/openb-node-0000", "--log", place),
        "why of a queue in the middle": (
            *("why", "Queue/ls", "--log", place, "--at", str(found.bound_at)),
        ),
    }
    between = ("--from", found.minutes[0], "--to", found.minutes[1], "--log", place)
    questions |= {
        "history of a node for five minutes in the middle": (
            *("history", f"Node/{found.node}", *between),
        ),
        "history of a queue for five minutes in the middle": ("history", "Queue/ls", *between),
        "history of a card of a node for five minutes in the middle": (
            *("history", f"Card/{found.card}", *between),
        ),
        "history of a pod in the middle, from its first record on": (
            *("history", found.pod, "--log", place),
        ),
    }
    figures = [
        Figure(
            benchmark="history",
            name=f"{name}, {size}",
            value=min(_seconds(words) for _ in range(repeats)),
            unit="s",
            bound="at most",
            target=4 if name in FOLDED else 2,
        )
        for name, words in questions.items()
    ]
    first, last = map(str, found.stretch)
    replay = ("replay", place, "--from", first, "--to", last)
    one, two = (
        min(_seconds((*replay, "--jobs", jobs)) for _ in range(repeats)) for jobs in ("1", "2")
    )
    figures += [
        Figure(
            benchmark="history",
            name=f"replay of {stretch_records:,} records in two processes: times as fast as in one",
            value=one / two,
            unit="times",
            bound="at least",
            target=1.8,
            detail={"one_seconds": one, "two_seconds": two},
        ),
        Figure(
            benchmark="history",
            name=f"snapshots, of the bytes of the log, {size}",
            value=found.snapshot_bytes / found.log_bytes,
            unit="",
            bound="at most",
            target=0.1,
            detail={"snapshots": found.snapshots, "log_bytes": found.log_bytes},
        ),
    ]
    return figures


def _seconds(words: Sequence[str]) -> float:
    """Return the wall time of a command."""
    began = perf_counter()
    subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "daemon", *words], check=True, stdout=subprocess.DEVNULL
    )
    return perf_counter() - began


def main() -> None:
    """Read the arguments, write the log if it is not there, and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history")
    parser.add_argument(
        "--log", type=Path, help="a SQLite file, which is kept; by default a temporary one"
    )
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--percent", type=int, default=100, help="of the openb workload")
    parser.add_argument(
        "--every", type=int, default=SNAPSHOT_EVERY, help="records between snapshots"
    )
    parser.add_argument("--stretch", type=int, default=200_000, help="records that are replayed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    collect_rarely()
    with folder() as temporary:
        place = str(given.log or temporary / "long.db")
        asyncio.run(write_log(place, given.records, given.percent, given.every))
        figures = measure(place, given.stretch, given.repeats)
    show(figures)
    if given.output is not None:
        write(given.output, figures, f"{given.records:,} records")


if __name__ == "__main__":
    main()
