"""Bundles of a stretch: what was before them is in the facts at their start."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
import zstandard

from daemon.log.bundle import BundleReader, FactsHeader, Header
from daemon.log.bundle_log import BundleLog
from daemon.log.memory import MemoryLog
from daemon.log.snapshots import facts_of
from daemon.queries.bundles import export_redacted, export_stretch, redaction_key
from daemon.queries.history import History
from daemon.queries.queues import all_queues
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from daemon.simulation import simulate
from events.errors import DamagedLogError, UsageError
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
    facts = BundleReader(path).facts()
    assert facts is not None
    assert (facts.position, len(facts_of(facts.payload)) > 0) == (bundle.base.position, True)


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
    assert (header.muster_bundle, header.facts) == (1, msgspec.UNSET)


async def test_facts_of_another_release_are_named(
    source: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    monkeypatch.setattr(snapshot, "VERSION", snapshot.VERSION + 1)
    with pytest.raises(UsageError, match="and this release reads version"):
        await replay_log(BundleLog(path))


async def test_changed_facts_are_found(source: MemoryLog, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    change(path, (b'["facts","U', b'["facts","V'))
    with pytest.raises(DamagedLogError, match="not those that were written"):
        await replay_log(BundleLog(path))


@pytest.mark.parametrize("payload", [b"", b"not zstd", zstandard.compress(b"\0" * 100)])
async def test_forged_facts_end_in_one_error(
    source: MemoryLog, tmp_path: Path, payload: bytes
) -> None:
    """With a digest that fits: only what is in them is wrong."""
    path = tmp_path / "a.muster"
    await export_stretch(source, path, first=50)
    reader = BundleReader(path)
    facts, header = reader.facts(), reader.header
    assert facts is not None
    assert isinstance(header.facts, FactsHeader)
    forged = FactsHeader(header.facts.version, len(payload), sha256(payload).hexdigest())
    change(
        path,
        (msgspec.json.encode(header), _with(header, forged)),
        (b64encode(facts.payload), b64encode(payload)),
    )
    with pytest.raises(DamagedLogError, match="cannot be read"):
        await replay_log(BundleLog(path))


def _with(header: Header, facts: FactsHeader) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(header, facts=facts))


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


async def test_a_stretch_cannot_be_redacted_later(source: MemoryLog, tmp_path: Path) -> None:
    await export_stretch(source, tmp_path / "a.muster", first=50)
    with pytest.raises(UsageError, match="pseudonyms are given from the first record on"):
        await export_redacted(BundleLog(tmp_path / "a.muster"), tmp_path / "b.muster", NAMES, KEY)


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "our.key"
    key = redaction_key(path)
    assert (len(key), redaction_key(path), path.stat().st_mode & 0o777) == (32, key, 0o600)
    for content in ("", "zz" * 32, "ab", "ab" * 33):
        path.write_text(content, encoding="ascii")
        with pytest.raises(UsageError, match="a key is 64 hexadecimal digits"):
            redaction_key(path)
