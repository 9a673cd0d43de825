"""An archive and what is left of its log: each answers for itself, and joined they are the log as before."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.fold import fold
from daemon.log.bundle_log import BundleLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.archive import archive, join
from daemon.queries.history import History, write_snapshots
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from daemon.simulation import simulate
from daemon.view_rebuild import write_views_anew
from events.errors import DamagedLogError, UsageError
from projections import snapshot
from replay.why_text import lines_of
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.cli.builders import error_of, muster

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")
RECORDS = 98
STEPS = ("written", "verified", "named", "moved", "deleted")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of 98 records: a gang whose node stops twice."""
    path = tmp_path_factory.mktemp("recorded") / "a.db"

    async def record() -> None:
        log = await open_log(str(path), "write")
        await simulate(parse_scenario(SCENARIO, "test"), log, with_views=True)
        await log.close()

    asyncio.run(record())
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, recorded: bytes) -> Path:
    path = tmp_path / "a.db"
    path.touch(mode=0o600)
    path.write_bytes(recorded)
    return path


async def opened(path: Path) -> SqlLog:
    log = await open_log(str(path), "write")
    assert isinstance(log, SqlLog)
    return log


async def answers(log: SqlLog | BundleLog, positions: tuple[int, ...]) -> list[object]:
    """The facts at positions, and whether every decision is made again."""
    history = History(log)
    found: list[object] = [snapshot.take(await history.facts_at_position(one)) for one in positions]
    return [*found, (await replay_log(log)).divergence]


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def test_both_parts_answer_and_joined_they_are_the_log_as_before(path: Path) -> None:
    log = await opened(path)
    whole, before, head = (
        await answers(log, (45, 70, 98)),
        rows(path, "SELECT * FROM log"),
        log.head,
    )
    objects = rows(path, "SELECT * FROM objects ORDER BY digest")
    first, second = path.with_name("1.muster"), path.with_name("2.muster")
    await archive(log, first, 50)
    await archive(log, second, 80)
    assert log.head == head
    assert [row[0] for row in rows(path, "SELECT position FROM log")] == list(
        range(log.base.position + 1, RECORDS + 1)
    )
    assert len(rows(path, "SELECT * FROM objects")) < len(objects)
    assert (await verify(log)).records == RECORDS - log.base.position
    assert await answers(log, (98,)) == whole[2:]
    assert await answers(BundleLog(first), (45,)) == [whole[0], None]
    assert await answers(BundleLog(second), (70,)) == [whole[1], None]
    with pytest.raises(UsageError, match=r"1.muster ends at position .* begins behind position"):
        await join(log, BundleLog(first))
    await join(log, BundleLog(second))
    await join(log, BundleLog(first))
    assert await answers(log, (45, 70, 98)) == whole
    assert (await verify(log)).head == head
    assert rows(path, "SELECT * FROM log") == before
    assert rows(path, "SELECT * FROM objects ORDER BY digest") == objects
    await log.close()


async def test_a_log_goes_on_behind_an_archive(path: Path) -> None:
    """A start after archiving: views stand, and a rebuild from the facts gives the rows of State."""
    log = await opened(path)
    await archive(log, path.with_name("1.muster"), 80)
    await log.close()
    log = await opened(path)
    stood = await log.view_rows("queue_quota"), await log.view_rows("pod_group")
    assert {one.position for one in await log.projections()} == {RECORDS}
    await write_views_anew(log)
    await log.check_rest()
    again = await log.view_rows("queue_quota"), await log.view_rows("pod_group")
    assert [sorted(row[:-1] for row in one) for one in again] == [
        sorted(row[:-1] for row in one) for one in stood
    ]
    await log.close()


async def test_a_base_that_was_changed_is_found(path: Path) -> None:
    log = await opened(path)
    await archive(log, path.with_name("1.muster"), 50)
    await log.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE log_base SET records = CAST(x'00' || records AS BLOB)")
    log = await opened(path)
    with pytest.raises(DamagedLogError, match="not those that were written"):
        await verify(log)
    await log.close()


async def test_a_log_that_does_not_say_what_stood_is_not_taken_for_one_in_which_nothing_did(
    path: Path,
) -> None:
    log = await opened(path)
    await archive(log, path.with_name("1.muster"), 50)
    await log.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE log_base SET base_digest = NULL, records = NULL")
    log = await opened(path)
    for work in (fold(log), write_views_anew(log)):
        with pytest.raises(UsageError, match=r"what led there is missing; `muster log join`"):
            await work
    await join(log, BundleLog(path.with_name("1.muster")))
    assert (await replay_log(log)).divergence is None
    await log.close()


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_loses_nothing(path: Path, step: str) -> None:
    """What the killed process leaves is a sound log with the same facts; repeating the command finishes the work."""
    log = await opened(path)
    (facts, _) = await answers(log, (98,))
    await log.close()
    bundle = path.with_name("1.muster")
    process = os.fork()
    if process == 0:
        asyncio.run(_archive_and_die(path, bundle, step))
        os._exit(1)
    _, status = os.waitpid(process, 0)  # noqa: ASYNC222  # nothing else to do
    assert os.WTERMSIG(status) == signal.SIGKILL
    is_moved = step in ("moved", "deleted")
    assert bundle.exists() is (is_moved or step == "named")
    log = await opened(path)
    assert (log.base.position > 0) is is_moved
    assert await answers(log, (98,)) == [facts, None]
    await archive(log, bundle, 50)
    assert (await verify(log)).records == RECORDS - log.base.position
    assert rows(path, "SELECT min(position) FROM log") == [(log.base.position + 1,)]
    await join(log, BundleLog(bundle))
    assert (await verify(log)).records == RECORDS
    assert await answers(log, (98,)) == [facts, None]
    assert sorted(one.name for one in path.parent.iterdir() if "muster" in one.name) == ["1.muster"]
    await log.close()


async def _archive_and_die(path: Path, bundle: Path, step: str) -> None:
    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    await archive(await opened(path), bundle, 50, reached=die)


async def test_a_join_that_was_broken_off_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await opened(path)
    bundle = path.with_name("1.muster")
    await archive(log, bundle, 50)

    async def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(log, "move_base", fail)
        with pytest.raises(KeyboardInterrupt):
            await join(log, BundleLog(bundle))
    assert (await verify(log)).records == RECORDS - log.base.position
    await join(log, BundleLog(bundle))
    assert (await verify(log)).records == RECORDS
    await log.close()


def test_the_commands_say_what_they_did_and_refuse_the_rest(path: Path) -> None:
    bundle = path.with_name("1.muster")
    taken = path.with_name("taken.muster")
    taken.write_text("mine", encoding="utf-8")
    result = muster("log", "archive", path, "--before", "50", "--file", taken)
    assert (result.exit_code, "taken.muster" in error_of(result)) == (2, True)
    assert taken.read_text(encoding="utf-8") == "mine"
    result = muster("log", "archive", path, "--before", "1", "--file", bundle)
    assert (result.exit_code, "has no batch before it" in error_of(result)) == (2, True)
    result = muster("log", "archive", path, "--before", "50", "--file", bundle)
    assert result.stdout.startswith(f"{bundle}: positions 1 to 49\n")
    result = muster("log", "archive", path, "--before", "80", "--file", bundle)
    assert "1.muster is there already; --force replaces it" in error_of(result)
    assert "since position 3 " in muster("object", "Node/n1", "--log", path).stdout
    result = muster("object", "Node/n9", "--log", path)
    assert "no Node/n9 from position 49 to 98" in error_of(result)
    assert muster("log", "snapshot", path, "--every", "10").exit_code == 0
    assert "equal: 49 records" in muster("replay", path).stdout
    for words in (("why", "Node/n1"), ("queue", "list"), ("usage",), ("log", "tail")):
        place = [path] if words == ("log", "tail") else ["--log", path]
        assert muster(*words, *place).exit_code == 0, words
    result = muster("log", "export", path, "--file", path.with_name("2.muster"), "--redact", "all")
    assert result.exit_code == 0
    result = muster("log", "join", bundle, "--log", path)
    assert "49 records" in result.stdout
    assert muster("rebuild", "--log", path).exit_code == 0


@pytest.mark.soak
async def test_what_is_left_is_replayed_in_two_processes(path: Path) -> None:
    log = await opened(path)
    await archive(log, path.with_name("1.muster"), 50)
    await write_snapshots(log, 10)
    await log.close()
    result = await asyncio.to_thread(muster, "replay", path, "--jobs", "2")
    assert "equal: 49 records" in result.stdout


@pytest.mark.parametrize("cut", [30, 60, 75])
async def test_a_pod_is_explained_whose_decisions_have_archived_causes(
    path: Path, cut: int
) -> None:
    log = await opened(path)
    try:
        whole = {name: await why(log, f"default/train-{name}") for name in range(3)}
        await archive(log, path.with_name("old.muster"), cut)
        for name, answer in whole.items():
            left = await why(log, f"default/train-{name}")
            assert lines_of(left)[0] == lines_of(answer)[0]
            kept = [one.position for one in answer.steps if one.position > log.base.position]
            assert [one.position for one in left.steps] == kept
    finally:
        await log.close()
