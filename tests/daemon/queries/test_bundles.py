"""Bundles of a stretch: what was before them is in the facts at their start."""

from pathlib import Path

import msgspec
import pytest
import zstandard

from daemon.first_state import state_at_base
from daemon.log.base_records import BaseWriter, entries_of, state_of_base
from daemon.log.bundle_log import BundleLog
from daemon.log.memory import MemoryLog
from daemon.log.verify import verify
from daemon.queries.bundles import export_redacted, export_stretch, redaction_key
from daemon.queries.history import History
from daemon.queries.queues import all_queues
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from daemon.simulation import simulate
from events.errors import DamagedLogError, UsageError
from events.standing.pods import PodGroupStands
from features.table import FEATURES
from projections import snapshot
from replay.redaction import ALL
from replay.why_text import lines_of
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")
KEY = b"k" * 32
NAMES = {"all": frozenset({ALL})}


@pytest.fixture
async def source() -> MemoryLog:
    """A log of 98 records: a gang whose node stops twice."""
    log = MemoryLog()
    await simulate(parse_scenario(SCENARIO, "test"), log, with_views=False)
    return log


def names_in(folder: Path) -> list[str]:
    """The files of a folder, hidden ones included."""
    return [one.name for one in folder.iterdir()]


def change(path: Path, *changes: tuple[bytes, bytes]) -> None:
    """Replace bytes in a bundle."""
    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes()) as reader:
        plain = reader.readall()
    for old, new in changes:
        assert old in plain
        plain = plain.replace(old, new, 1)
    path.write_bytes(plain)


async def test_a_stretch_is_replayed_like_the_whole_log(source: MemoryLog, tmp_path: Path) -> None:
    for first, last in ((20, 98), (50, 90), (52, 52), (2, 30)):
        path = tmp_path / f"{first}.muster"
        await export_stretch(source, path, first=first, last=last)
        log = BundleLog(path)
        replayed = await replay_log(log)
        assert replayed.divergence is None
        assert replayed.first == log.base.position + 1
        assert replayed.replay.counts.records == log.head.position - log.base.position


async def test_the_facts_are_those_of_the_log(source: MemoryLog, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    bundle = BundleLog(path)
    for position in (bundle.base.position, 60, 98):
        there = snapshot.take(await History(bundle).facts_at_position(position))
        assert there == snapshot.take(await History(source).facts_at_position(position))
    base = await bundle.read_base()
    assert base is not None
    assert (base.head, base.digest) == (bundle.base, bundle.base_digest)
    assert snapshot.take(state_of_base(base, FEATURES, "")) == snapshot.take(
        await History(source).facts_at_position(bundle.base.position)
    )


async def test_a_stretch_answers_as_the_whole_log(source: MemoryLog, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    bundle = BundleLog(path)
    assert await all_queues(bundle, 70) == await all_queues(source, 70)
    answer, whole = await why(bundle, "default/train-1"), await why(source, "default/train-1")
    assert lines_of(answer)[:8] == lines_of(whole)[:8]


async def test_a_stretch_of_a_stretch_is_replayed_too(source: MemoryLog, tmp_path: Path) -> None:
    one, other = tmp_path / "one.muster", tmp_path / "other.muster"
    await export_stretch(source, one, first=30)
    await export_stretch(BundleLog(one), other, first=60, last=90)
    assert (await replay_log(BundleLog(other))).divergence is None


async def test_a_whole_log_makes_a_bundle_that_earlier_releases_read(
    source: MemoryLog, tmp_path: Path
) -> None:
    await export_stretch(source, tmp_path / "a.muster")
    header = BundleLog(tmp_path / "a.muster").header
    assert (header.muster_bundle, header.base_digest) == (1, msgspec.UNSET)


async def test_facts_of_an_earlier_release_are_named(source: MemoryLog, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    change(path, (b'"base_digest":', b'"facts":{"version":25},"base_digest":'))
    with pytest.raises(UsageError, match="begins with the facts of an earlier release"):
        BundleLog(path)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b'"phase\\":\\"Running\\"', b'"phase\\":\\"Pending\\"'),
        (b'["base",', b'["record",'),
        (b"pod_stands.v1", b"pod_stands.v2"),
    ],
)
async def test_a_changed_base_is_found(
    source: MemoryLog, tmp_path: Path, was: bytes, now: bytes
) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    change(path, (was, now))
    with pytest.raises(DamagedLogError, match=r"not those that were written|has another content"):
        await replay_log(BundleLog(path))


async def test_a_forged_base_ends_in_one_error(source: MemoryLog, tmp_path: Path) -> None:
    """With digests that fit: only what is in it is wrong."""
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    base = await BundleLog(path).read_base()
    assert base is not None
    writer = BaseWriter(base.head, 0)
    for entry in entries_of(base, ""):
        if entry.record.kind != PodGroupStands.kind:
            writer.add(entry)
    forged = writer.finish()
    log = MemoryLog()
    await log.begin_behind(base.head, forged)
    with pytest.raises(DamagedLogError, match="cannot be folded: KeyError"):
        await state_at_base(log)


async def test_a_redacted_stretch_is_replayed(source: MemoryLog, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    done = await export_redacted(source, path, NAMES, KEY, first=50, last=90)
    assert done.objects == {"Node": 4, "Pod": 3, "PodGroup": 1, "StatefulSet": 1}
    assert done.different == 0
    replayed = await replay_log(BundleLog(path))
    assert (replayed.divergence, replayed.replay.counts.records) == (None, 41)
    assert "train" not in "".join(done.names)
    assert {"train", "n1"} <= set(done.names.values())
    assert names_in(tmp_path) == ["a.muster"]


async def test_a_kind_without_objects_is_an_error(source: MemoryLog, tmp_path: Path) -> None:
    named = {"pods": frozenset({"Pod"}), "hn": frozenset({"HyperNode"})}
    with pytest.raises(UsageError, match="--redact hn: the log holds no such objects"):
        await export_redacted(source, tmp_path / "a.muster", named, KEY)
    assert not names_in(tmp_path)


@pytest.mark.parametrize(("first", "last"), [(50, 98), (70, 90)])
async def test_a_stretch_is_redacted_later(
    source: MemoryLog, tmp_path: Path, first: int, last: int
) -> None:
    """Its base is a list of records: they get pseudonyms like all others."""
    await export_stretch(source, tmp_path / "a.muster", first=50)
    rest = BundleLog(tmp_path / "a.muster")
    path = tmp_path / "b.muster"
    done = await export_redacted(rest, path, NAMES, KEY, first=first, last=last)
    assert done.different == 0
    bundle = BundleLog(path)
    await verify(bundle)
    replayed = await replay_log(bundle)
    assert (replayed.divergence, replayed.replay.counts.records > 20) == (None, True)
    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes()) as reader:
        plain = reader.readall().decode()
    assert "train" in done.names.values()
    left = [name for name in done.names.values() if f'"{name}"' in plain or f"/{name}/" in plain]
    assert [name for name in left if not name.isdecimal()] == []


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "our.key"
    key = redaction_key(path)
    assert (len(key), redaction_key(path), path.stat().st_mode & 0o777) == (32, key, 0o600)
    for content in ("", "zz" * 32, "ab", "ab" * 33):
        path.write_text(content, encoding="ascii")
        with pytest.raises(UsageError, match="a key is 64 hexadecimal digits"):
            redaction_key(path)
