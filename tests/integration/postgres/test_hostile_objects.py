"""Logs that hold objects made to stop a daemon, in PostgreSQL: a daemon starts on them and serves others."""

from pathlib import Path

import msgspec
import pytest

from daemon.fold import fold
from daemon.log.contract import Log
from daemon.log.copying import copy_whole
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.verify import verify
from events.chain import Draft, seal
from events.errors import UsageError
from events.record import GENESIS, Head, Record
from tests.histories.test_hostile_objects import LOGS, served

ATTACKED = {path.stem: path for path in LOGS}
NAMES = ATTACKED.pop("names")
"""Only SQLite can hold it: two of its subjects contain a NUL."""


async def assert_serves(log: Log) -> None:
    """Fold it; decide, and write what was decided with the views; fold it again."""
    before = await fold(log)
    before.validate()
    ended = await served(log)
    pods = {pod.key: pod.node for pod in ended.state.cluster.pods.values()}
    assert pods == {"default/canary": "canaries"}
    again = await fold(log)
    again.validate()
    assert again.position == ended.state.position > before.position
    assert (await verify(log)).head.position == again.position


@pytest.mark.parametrize("stem", ATTACKED)
async def test_a_daemon_starts_on_an_attacked_log_in_postgres(stem: str, url: str) -> None:
    log = await open_log(url, "write")
    await copy_whole(await open_log(str(ATTACKED[stem])), log)
    await assert_serves(log)
    await log.close()


async def test_a_daemon_starts_on_a_log_with_names_of_9000_characters_in_postgres(url: str) -> None:
    """As release 0.1 left it in PostgreSQL, which takes such names as far as they can be compressed."""
    log = await open_log(url, "write")
    await copy_whole(await without_nul(NAMES), log)
    longest = max([len(one.record.subject) async for part in log.read() for one in part])
    assert longest > 9_000
    await assert_serves(log)
    await log.close()


async def test_a_log_with_a_nul_in_a_subject_is_refused_by_its_position(url: str) -> None:
    log = await open_log(url, "write")
    with pytest.raises(UsageError, match=r"position 2\d: its subject contains a NUL .*SQLite"):
        await copy_whole(await open_log(str(NAMES)), log)
    await log.close()


async def without_nul(path: Path) -> MemoryLog:
    """A log without the records whose subjects contain a NUL; the others keep their order."""
    source, log = await open_log(str(path)), MemoryLog()
    head: Head = GENESIS
    records: list[Record] = []
    async for entries in source.read():
        for entry in entries:
            if entry.content is not None:
                log.memory.contents[entry.record.object or ""] = entry.content
            if "\0" in entry.record.subject:
                continue
            fields = msgspec.structs.asdict(entry.record)
            del fields["digest"]
            records.append(seal(head.digest, Draft(**{**fields, "position": head.position + 1})))
            head = Head(records[-1].position, records[-1].digest, records[-1].epoch)
    await log.take_over("history", epoch=head.epoch)
    await log.append_stored(records, [])
    return log
