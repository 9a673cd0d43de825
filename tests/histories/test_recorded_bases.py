"""Logs that begin with a base, as recorded: they are read, asked, archived and continued as the whole logs that they were cut from."""

from pathlib import Path

import pytest
import zstandard

from daemon.first_state import state_at_base
from daemon.fold import fold
from daemon.log.bundle_log import BundleLog
from daemon.log.copying import copy_whole
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.archive import archive, join
from daemon.queries.bundles import export_redacted, export_stretch
from daemon.queries.history import History
from daemon.queries.objects import object_at
from daemon.queries.queues import all_queues
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from events.cycle import CycleOpened
from events.record import Record
from events.union import Event
from projections.state import State
from replay.redaction import ALL
from replay.why_text import lines_of
from scheduling.decide import DECIDER, Decider
from tests.histories.write_bases import BASES, RECORDED
from tests.projections.bases import differences

NAMES = tuple(RECORDED)
HOUR_NS = 3_600_000_000_000


def whole_of(name: str) -> BundleLog:
    """The whole log."""
    return BundleLog(BASES / f"{name}.muster")


def rest_of(name: str) -> BundleLog:
    """The stretch of it that begins with a base."""
    return BundleLog(BASES / f"{name}_from_the_middle.muster")


@pytest.fixture
async def database(tmp_path: Path, name: str) -> SqlLog:
    """The stretch in a database."""
    log = await open_log(str(tmp_path / "a.db"), "write")
    await copy_whole(rest_of(name), log)
    assert isinstance(log, SqlLog)
    return log


@pytest.mark.parametrize("name", NAMES)
async def test_what_stands_in_a_recorded_base_is_the_state_of_the_whole_log(name: str) -> None:
    rest = rest_of(name)
    await verify(rest)
    stands = await state_at_base(rest)
    assert stands is not None
    stands.validate()
    assert (
        differences(await History(whole_of(name)).facts_at_position(rest.base.position), stands)
        == []
    )
    assert differences(await fold(whole_of(name)), await fold(rest)) == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_base_answers_as_the_whole_log(name: str) -> None:
    whole, rest = whole_of(name), rest_of(name)
    at = rest.head.position
    assert await all_queues(rest, at) == await all_queues(whole, at)
    state = await fold(whole)
    for key in state.cluster.groups:
        asked, expected = await why(rest, key), await why(whole, key)
        assert lines_of(asked)[:2] == lines_of(expected)[:2]
    for pod in state.cluster.pods.values():
        subject = f"Pod/{pod.key}"
        one, other = await object_at(rest, [subject]), await object_at(whole, [subject])
        assert (one.manifest, one.recorded_at_ns >= other.recorded_at_ns) == (other.manifest, True)


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_base_is_imported_archived_and_joined(
    name: str, database: SqlLog, tmp_path: Path
) -> None:
    first, base = database.base.position + 1, await database.read_base()
    end = await fold(database)
    batches = [
        one.record.position
        async for entries in database.read()
        for one in entries
        if one.record.batch == one.record.position
    ]
    cut = batches[len(batches) // 2]
    await archive(database, tmp_path / "1.muster", cut)
    assert database.base.position == cut - 1
    assert differences(end, await fold(database)) == []
    assert (await replay_log(database)).divergence is None
    assert await BundleLog(tmp_path / "1.muster").read_base() == base
    await export_stretch(database, tmp_path / "2.muster")
    assert differences(end, await fold(BundleLog(tmp_path / "2.muster"))) == []
    await join(database, BundleLog(tmp_path / "1.muster"))
    assert (database.base.position, await database.read_base()) == (first - 1, base)
    assert (await replay_log(database)).divergence is None
    await database.close()


def decided_next(state: State) -> list[Event]:
    """What a cycle an hour after the last record decides."""
    cycle = state.position + 1
    at_ns = state.now_ns + HOUR_NS
    opened = CycleOpened(at_ns=at_ns, policy=state.policy_position, decider=DECIDER)
    state.apply(_record(cycle, opened), opened, None)
    decided: list[Event] = []
    for event in Decider(state).decide():
        state.apply(_record(state.position + 1, event), event, None)
        decided.append(event)
    return decided


def _record(position: int, event: Event) -> Record:
    return Record(position, position, 1, 0, None, None, event.kind, "Cycle//", b"", None, "")


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_base_is_continued_as_the_whole_log(name: str) -> None:
    whole, rest = await fold(whole_of(name)), await fold(rest_of(name))
    assert rest.next_deadline_ns == whole.next_deadline_ns
    assert decided_next(rest) == decided_next(whole)


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_base_gets_pseudonyms(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.muster"
    done = await export_redacted(rest_of(name), path, {"all": frozenset({ALL})}, b"k" * 32)
    await verify(BundleLog(path))
    replayed = await replay_log(BundleLog(path))
    assert (replayed.divergence is None) is (done.different == 0)
    stands, redacted = await state_at_base(rest_of(name)), await state_at_base(BundleLog(path))
    assert stands is not None
    assert redacted is not None
    redacted.validate()
    names = {done.names.get(one.facts.name, "") for one in redacted.cluster.pods.values()}
    assert names == {one.facts.name for one in stands.cluster.pods.values()}
    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes()) as reader:
        plain = reader.readall().decode()
    assert [one for one in names if f'"{one}"' in plain or f'/{one}"' in plain] == []
