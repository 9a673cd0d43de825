"""Verification: every byte counts."""

import hashlib
from importlib.resources import files

import msgspec
import pytest

from daemon.log.contents import Packer, Unpacker
from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.log.verify import Checker
from events.errors import DamagedLogError
from events.record import GENESIS, Record
from tests.daemon.log.builders import pod
from tests.daemon.log.contract import entries, filled


async def sound() -> MemoryLog:
    """Two batches of two records."""
    log = MemoryLog()
    await filled(log, count=2, size=2)
    return log


def check(log: MemoryLog, found: list[Entry]) -> None:
    """What verification does with entries."""
    checker = Checker(GENESIS)
    for entry in found:
        checker.take(entry)
    checker.finish(log.head)


def flips(record: Record) -> list[Record]:
    """The record with each byte of each column changed, one at a time."""
    changed: list[Record] = []
    for name in Record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, int):
            others: list[object] = [value ^ 1, value ^ 64]
        elif value is None:
            others = [1]
        elif isinstance(value, bytes):
            others = [value[:i] + bytes([b ^ 1]) + value[i + 1 :] for i, b in enumerate(value)]
        else:
            others = [f"{value[:i]}{chr(ord(c) ^ 1)}{value[i + 1 :]}" for i, c in enumerate(value)]
        changed += [msgspec.structs.replace(record, **{name: other}) for other in others]
    return changed


async def test_every_byte_of_every_column_is_covered() -> None:
    log = await sound()
    found = await entries(log)
    for index, entry in enumerate(found):
        for record in flips(entry.record):
            changed = [*found[:index], Entry(record=record), *found[index + 1 :]]
            with pytest.raises(DamagedLogError, match=f"position {index + 1}:"):
                check(log, changed)


async def test_a_row_that_is_gone_is_found_where_it_should_be() -> None:
    log = await sound()
    found = await entries(log)
    for index in range(len(found)):
        with pytest.raises(DamagedLogError, match=f"position {index + 1}:"):
            check(log, found[:index] + found[index + 1 :])


def test_every_byte_of_a_stored_object_is_covered() -> None:
    ((digest, codec, data),) = Packer().rows([pod(1).stored])
    for index in range(len(data)):
        changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        with pytest.raises(DamagedLogError, match="position 5: object"):
            Unpacker().content(5, digest, codec, changed)
    assert Unpacker().content(5, digest, codec, data).content == pod(1).stored.content


def test_the_dictionary_of_objects_never_changes() -> None:
    """Logs are unreadable without it: a better one is another codec."""
    dictionary = files("daemon.log").joinpath("dictionary_1.json").read_bytes()
    assert (
        hashlib.sha256(dictionary).hexdigest()
        == "2455b9557074a70e08cf47acfa1394cf0c1e7fbc8c70e8cc0b74f6416fdb9e77"
    )
