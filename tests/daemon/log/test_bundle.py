"""Bundles: one file that holds a log, or a part of one."""

# ruff: noqa: ASYNC240
# A test may wait for a disk.

import os
import tracemalloc
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
import zstandard

from daemon.limits import InputLimitError, Limits
from daemon.log import bundle
from daemon.log.bundle import BundleReader, Header, ObjectLine
from daemon.log.bundle_log import BundleLog
from daemon.log.copying import copy_whole, export
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.verify import verify
from events.codec import FORMAT
from events.errors import DamagedLogError, LogUnavailableError, NewerRecordError, UsageError
from events.record import GENESIS
from tests.daemon.log.contract import entries, filled
from tests.histories.recorded import load, record


@pytest.fixture
async def source() -> MemoryLog:
    """Five batches of three."""
    log = MemoryLog()
    await log.take_over("me")
    await filled(log, count=5, size=3)
    return log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "incident.muster"


def lines(path: Path) -> bytes:
    """A bundle, uncompressed."""
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


async def test_a_part_holds_whole_batches_and_the_digest_before_it(
    source: MemoryLog, path: Path
) -> None:
    await export(source, path, first=5, last=10)
    part = BundleLog(path)
    found = await entries(part)
    assert [entry.record.position for entry in found] == list(range(4, 13))
    assert part.base.digest == (await entries(source))[2].record.digest
    assert (await verify(part)).batches == 3
    with pytest.raises(UsageError, match="cannot be imported"):
        await copy_whole(part, MemoryLog())


async def test_a_part_of_a_part_can_be_taken(source: MemoryLog, path: Path) -> None:
    await export(source, path, first=4)
    await export(BundleLog(path), path.with_name("less.muster"), first=8, last=8)
    less = await open_log(str(path.with_name("less.muster")))
    assert [entry.record.position for entry in await entries(less)] == [7, 8, 9]


async def test_a_range_outside_the_log_is_refused(source: MemoryLog, path: Path) -> None:
    with pytest.raises(UsageError, match="positions 1 to 15, not 9 to 16"):
        await export(source, path, first=9, last=16)
    assert not list(path.parent.iterdir())


async def test_an_empty_log_makes_an_empty_bundle(path: Path) -> None:
    await export(MemoryLog(), path)
    assert (await verify(await open_log(str(path)))).head == GENESIS


async def test_a_range_of_a_bundle_is_read(source: MemoryLog, path: Path) -> None:
    await export(source, path)
    log = BundleLog(path)
    assert [entry.record.position for entry in await entries(log, 4, 7)] == [5, 6, 7]


async def test_objects_that_were_forgotten_are_written_again(
    source: MemoryLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "OBJECTS_HELD", 2)
    await filled(source, count=2, size=3)  # The first six objects once more.
    await export(source, path)
    assert lines(path).count(b'["object"') == 21
    assert await entries(BundleLog(path)) == await entries(source)


async def test_only_the_named_kinds_are_redacted(source: MemoryLog, path: Path) -> None:
    await export(source, path, redact=frozenset({"Node"}))
    assert not any(entry.redacted for entry in await entries(BundleLog(path)))
    await export(source, path, redact=frozenset({"Pod"}), notes={"why": "test"}, replaces=True)
    log = BundleLog(path)
    assert all(entry.redacted for entry in await entries(log))
    assert (log.header.redacted, log.header.notes) == (("Pod",), {"why": "test"})
    assert b"schedulerName" not in lines(path)


async def test_a_torn_bundle_is_named_with_its_last_position(source: MemoryLog, path: Path) -> None:
    await export(source, path)
    plain = lines(path)
    for end in (len(plain) // 2, plain.rindex(b"\n", 0, -1)):
        path.write_bytes(plain[:end])
        with pytest.raises(DamagedLogError, match=r"damaged after position \d+"):
            await verify(BundleLog(path))


async def test_every_changed_byte_of_a_bundle_is_found(source: MemoryLog, path: Path) -> None:
    """Except in notes: these are for people, and not covered by the chain."""
    await export(source, path)
    whole = lines(path)
    start = whole.index(b"\n") + 1
    for index in range(start, len(whole) - 1, 7):
        changed = bytearray(whole)
        changed[index] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(DamagedLogError):
            await verify(BundleLog(path))


async def test_a_bundle_reads_the_same_uncompressed(source: MemoryLog, path: Path) -> None:
    await export(source, path)
    path.write_bytes(lines(path))
    assert await entries(BundleLog(path)) == await entries(source)


async def test_a_bundle_of_a_newer_format_is_refused(source: MemoryLog, path: Path) -> None:
    await export(source, path)
    newer = lines(path).replace(b'"muster_bundle":1', b'"muster_bundle":4,"more":[]')
    path.write_bytes(newer)
    with pytest.raises(NewerRecordError):
        await open_log(str(path))


@pytest.mark.parametrize("content", [b"", b"a note", b"\x28\xb5\x2f\xfdnot zstd", b'{"a": 1}\n'])
async def test_a_file_that_is_no_bundle_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a muster log"):
        await open_log(str(path))


async def test_a_bundle_is_not_written_to(source: MemoryLog, path: Path) -> None:
    await export(source, path)
    with pytest.raises(UsageError, match="read only"):
        await open_log(str(path), "write")


async def test_an_export_that_fails_leaves_what_was_there(
    source: MemoryLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"an older export")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LogUnavailableError, match="No space left"):
        await export(source, path, replaces=True)
    assert [path.read_bytes() for path in path.parent.iterdir()] == [b"an older export"]


async def test_a_history_is_a_bundle_that_people_can_read(source: MemoryLog, path: Path) -> None:
    await record(source, path)
    assert path.read_bytes().startswith(b'{"line":"header"')
    assert await entries(await load(path)) == await entries(source)


async def test_a_file_that_comes_while_a_bundle_is_written_is_not_replaced(
    source: MemoryLog, path: Path
) -> None:
    writer = bundle.BundleWriter(path, Header(1, FORMAT, GENESIS, GENESIS))
    path.write_bytes(b"from elsewhere")
    with pytest.raises(UsageError, match="is there already; --force replaces it"):
        writer.finish()
    writer.abandon()
    assert [path.read_bytes() for path in path.parent.iterdir()] == [b"from elsewhere"]


def bomb(path: Path, *parts: bytes) -> None:
    """A bundle of a sound header and what follows, packed."""
    header = msgspec.json.encode(Header(1, FORMAT, GENESIS, GENESIS))
    with path.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as stream:
        for part in (header, b"\n", *parts):
            stream.write(part)


async def refused(path: Path, limits: Limits) -> str:
    """Why a bundle is refused, which must be with exit code 2 and before it is read far."""
    with pytest.raises(InputLimitError) as caught:
        for _ in BundleReader(path, limits).entries():
            pass
    assert caught.value.exit_code == 2
    return str(caught.value)


async def test_a_bundle_of_one_long_line_is_not_unpacked_whole(path: Path) -> None:
    """66 KB that unpack to 4 GB took all memory."""
    bomb(path, *[b"x" * (1 << 20)] * 1024)
    assert path.stat().st_size < 70_000
    tracemalloc.start()
    try:
        said = await refused(path, Limits(bundle_line_bytes=1 << 20))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said == (
        f"{path}: line 2 is longer than 1,048,576; MUSTER_LIMITS=bundle-line-bytes=... allows more"
    )
    assert most < 8 << 20


async def test_a_bundle_of_one_long_line_ends_before_its_header(path: Path) -> None:
    path.write_bytes(zstandard.ZstdCompressor().compress(b"{" + b" " * (3 << 20)))
    with pytest.raises(InputLimitError, match="line 1 is longer than"):
        BundleReader(path, Limits(bundle_line_bytes=1 << 20))


def object_line(content: str, digest: str = "") -> bytes:
    digest = digest or sha256(content.encode()).hexdigest()
    return msgspec.json.encode(ObjectLine(digest, content)) + b"\n"


async def test_what_a_bundle_may_hold_is_bounded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "RATIO_FROM_BYTES", 100_000)
    lines = [object_line(f"{index:05}" + "x" * 995) for index in range(2_000)]
    bomb(path, *lines)
    assert "unpacks to more bytes than 50,000; MUSTER_LIMITS=bundle-bytes=..." in await refused(
        path, Limits(bundle_bytes=50_000)
    )
    assert "for each of its own than 10; MUSTER_LIMITS=bundle-ratio=..." in await refused(
        path, Limits(bundle_ratio=10)
    )
    assert "is longer than 999; MUSTER_LIMITS=bundle-object-bytes=..." in await refused(
        path, Limits(bundle_object_bytes=999)
    )
    assert "its last 51 objects take more bytes than 50,000;" in await refused(
        path, Limits(bundle_held_bytes=50_000)
    )


async def test_an_object_that_many_records_share_is_held_and_checked_once(
    source: MemoryLog, path: Path
) -> None:
    await filled(source, count=2, size=3)
    await export(source, path)
    by_digest: dict[str | None, set[int]] = {}
    for entry in BundleReader(path).entries():
        by_digest.setdefault(entry.record.object, set()).add(id(entry.content))
    assert all(len(contents) == 1 for contents in by_digest.values())


async def test_a_reader_holds_what_a_writer_took_it_to_hold(
    source: MemoryLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that forgets by bytes writes an object again that its reader still has."""
    monkeypatch.setattr(bundle, "HELD_BYTES", 1_000)
    monkeypatch.setattr(bundle, "OBJECTS_HELD", 6)
    for _ in range(4):
        await filled(source, count=3, size=3)
    await export(source, path)
    assert await entries(BundleLog(path)) == await entries(source)


@pytest.mark.parametrize("depth", [2_000, 200_000])
async def test_a_line_that_nests_deep_is_damage(path: Path, depth: int) -> None:
    bomb(path, b'["record",' + b"[" * depth)
    with pytest.raises(DamagedLogError, match="damaged after position 0"):
        list(BundleReader(path).entries())


async def test_what_is_no_regular_file_is_no_bundle(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        BundleReader(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="not a regular file"):
        BundleReader(path)
