"""A log is cut behind its past, works on, and is joined with it again."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from daemon.log.bundle_log import BundleLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.archive import archive, join
from daemon.queries.history import History
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from events.errors import DamagedLogError, UsageError
from projections import snapshot
from replay.why_text import lines_of
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, muster

CUT = 49
"""The end of the last whole batch before position 50."""

POINTS = {
    "verify": 0,
    "rename": 0,
    "delete": 0,
    "before_commit": 0,
    "inside_commit": 0,
    "after_commit": CUT,
    "done": CUT,
}
"""Where archiving is killed, to the position behind which the log begins then."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from daemon.log.opening import open_log
from daemon.queries.archive import archive

def killed_at(folder, point):
    reached = False

    def fault(name):
        if reached and name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def step(name):
        nonlocal reached
        reached = True
        fault(name)

    async def main():
        log = await open_log(f"{folder}/a.db", "write", faults=fault)
        await archive(log, 50, Path(folder, "old.muster"), on_step=step)

    asyncio.run(main())

for point in sys.argv[2:]:
    pid = os.fork()
    if pid == 0:
        killed_at(os.path.join(sys.argv[1], point), point)
        os._exit(1)
    print(point, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 98 records: a gang whose node stops twice."""
    path = tmp_path_factory.mktemp("archived") / "whole.db"
    scenario = ROOT / "docs" / "examples" / "node_fault.yaml"
    assert muster("simulate", scenario, "--log", path).exit_code == 0
    return path


@pytest.fixture
def path(simulated: Path, tmp_path: Path) -> Path:
    """A copy of that log."""
    return Path(shutil.copy(simulated, tmp_path / "a.db"))


async def opened(path: Path) -> SqlLog:
    """The log in a file, for writing."""
    log = await open_log(str(path), "write")
    assert isinstance(log, SqlLog)
    return log


@asynccontextmanager
async def open_log_at(path: Path) -> AsyncIterator[SqlLog]:
    """The log in a file, which is closed in the end."""
    log = await opened(path)
    try:
        yield log
    finally:
        await log.close()


async def answers(log: SqlLog) -> tuple[object, ...]:
    """What the log answers about its later half."""
    facts = [snapshot.take(await History(log).facts_at_position(one)) for one in (CUT, 60, 98)]
    replayed = await replay_log(log, 60)
    counts, head = replayed.replay.counts, replayed.replay.head
    return (
        facts,
        replayed.divergence,
        counts.decisions,
        head.digest,
        await log.view_rows("placement"),
    )


async def test_what_is_left_answers_as_before_and_joined_it_is_the_same_log(
    path: Path, tmp_path: Path
) -> None:
    log, bundle = await opened(path), tmp_path / "old.muster"
    try:
        before, whole = await answers(log), await verify(log)
        said = lines_of(await why(log, "default/train-0"))
        done = await archive(log, 50, bundle)
        assert (done.begin, done.base.position, log.base) == (1, CUT, done.base)
        left = await verify(log)
        assert (left.head, left.records) == (whole.head, 98 - CUT)
        assert left.objects < whole.objects
        assert (await answers(log))[0] == before[0]
        assert (await replay_log(log)).divergence is None
        assert lines_of(await why(log, "default/train-0"))[:3] == said[:3]
        archived = BundleLog(bundle)
        assert (archived.head, (await replay_log(archived)).divergence) == (done.base, None)
        await join(log, archived)
        assert await verify(log) == whole
        assert await answers(log) == before
        assert lines_of(await why(log, "default/train-0")) == said
    finally:
        await log.close()


@pytest.fixture(scope="module")
def killed(simulated: Path) -> Path:
    """A folder of folders, one for each of `POINTS`, in which archiving was killed there."""
    folder = simulated.parent / "killed"
    for point in POINTS:
        (folder / point).mkdir(parents=True)
        shutil.copy(simulated, folder / point / "a.db")
    done = subprocess.run(  # noqa: S603  # a program of this file
        [sys.executable, "-c", PROGRAM, str(folder), *POINTS],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [f"{point} {-signal.SIGKILL}" for point in POINTS]
    return folder


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_a_step_the_log_is_as_before_or_archived_and_goes_on(
    killed: Path, point: str
) -> None:
    folder, base = killed / point, POINTS[point]
    bundle = folder / "old.muster"
    log = await opened(folder / "a.db")
    try:
        assert log.base.position == base
        assert (await verify(log)).records == 98 - base
        if base == 0:
            await archive(log, 50, bundle)
        assert (await verify(log)).records == 98 - CUT
        names = await asyncio.to_thread(os.listdir, folder)
        assert [one for one in names if "muster" in one] == ["old.muster"]
        await join(log, BundleLog(bundle))
        assert (await verify(log)).records == 98
    finally:
        await log.close()


async def test_a_second_archive_begins_where_the_first_ended(path: Path, tmp_path: Path) -> None:
    log = await opened(path)
    first, second = tmp_path / "1.muster", tmp_path / "2.muster"
    try:
        whole = await verify(log)
        await archive(log, 50, first)
        done = await archive(log, 80, second)
        assert (done.begin, BundleLog(second).base.position) == (CUT + 1, CUT)
        assert (await replay_log(log)).divergence is None
        with pytest.raises(UsageError, match=r"1\.muster ends at position 49 .* begins behind"):
            await join(log, BundleLog(first))
        await join(log, BundleLog(second))
        await join(log, BundleLog(first))
        assert await verify(log) == whole
    finally:
        await log.close()


def test_views_of_an_archived_log_are_rebuilt_from_the_facts(path: Path, tmp_path: Path) -> None:
    """What holds now is the same; of history there is what the log holds."""
    names = ("node_card", "queue_quota", "pod_group", "topology_node")

    def rows(table: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            query = f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608  # names of ours
            return connection.execute(query).fetchall()

    before = {name: rows(name) for name in names}
    bundle = tmp_path / "old.muster"
    archived = muster("log", "archive", path, "--before", "50", "--file", bundle)
    assert archived.exit_code == 0
    assert {name: rows(name) for name in names} == before
    assert muster("rebuild", "--log", path).exit_code == 1
    assert {name: rows(name) for name in names} == before
    assert min(row[-2] for row in rows("pod_group_rows")) == CUT  # type: ignore[type-var]
    assert muster("rebuild", "--log", path).exit_code == 0


async def test_torn_facts_at_the_base_are_damage(path: Path, tmp_path: Path) -> None:
    log = await opened(path)
    await archive(log, 50, tmp_path / "old.muster")
    await log.run(lambda c: c.exec_driver_sql("UPDATE log_base SET facts = x'00'"))  # type: ignore[arg-type,return-value]
    await log.close()
    with pytest.raises(DamagedLogError, match="table log_base: the facts at position 49"):
        await open_log(str(path))


def test_a_stretch_is_imported_and_works(path: Path, tmp_path: Path) -> None:
    bundle, copy = tmp_path / "late.muster", tmp_path / "copy.db"
    assert muster("log", "export", path, "--file", bundle, "--from", "50").exit_code == 0
    (imported,) = documents(muster("log", "import", bundle, "--log", copy, "-o", "json"))
    (whole,) = documents(muster("log", "verify", path, "-o", "json"))
    assert (imported["digest"], imported["records"]) == (whole["digest"], 98 - CUT)
    assert muster("rebuild", "--log", copy).exit_code in (0, 1)
    questions: tuple[list[str | Path], ...] = (
        ["replay", copy],
        ["log", "verify", copy],
        ["log", "tail", copy],
        ["queue", "list", "--log", copy],
        ["usage", "--log", copy, "--by", "queue"],
        ["why", "default/train-0", "--log", copy],
    )
    for words in questions:
        result = muster(*words)
        assert result.exit_code == 0, result.output
    states = [muster("state", one).stdout.partition("\n")[2] for one in (copy, path)]
    assert states[0] == states[1] != ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--before", "1"], "no whole batch"),
        (["--before", "99"], "holds positions 1 to 98"),
        (["--before", "50"], "old.muster"),
    ],
)
def test_what_cannot_be_archived_is_refused(
    path: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    bundle = tmp_path / "old.muster"
    bundle.write_text("mine", encoding="utf-8")
    result = muster("log", "archive", path, *words, "--file", bundle)
    assert (result.exit_code, said in error_of(result)) == (2, True)
    assert bundle.read_text(encoding="utf-8") == "mine"
    (verified,) = documents(muster("log", "verify", path, "-o", "json"))
    assert verified["records"] == 98


@pytest.mark.parametrize("position", [30, 60, 75])
async def test_a_pod_is_explained_whose_decisions_have_archived_causes(
    path: Path, tmp_path: Path, position: int
) -> None:
    async with open_log_at(path) as log:
        whole = {name: await why(log, f"default/train-{name}") for name in range(3)}
        await archive(log, position, tmp_path / "old.muster")
        for name, answer in whole.items():
            left = await why(log, f"default/train-{name}")
            assert lines_of(left)[0] == lines_of(answer)[0]
            kept = [one for one in answer.steps if one.position > log.base.position]
            assert [one.position for one in left.steps] == [one.position for one in kept]
