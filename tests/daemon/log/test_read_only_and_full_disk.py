"""A sound log can be asked where nothing can be written beside it: on a full disk and on a read-only mount."""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.log import sqlite_reading
from daemon.log.opening import open_log
from daemon.log.sqlite_reading import SHARED, ReadingMode, has_commit, reading_mode
from daemon.log.tables import REVISIONS
from daemon.log.verify import verify
from events.errors import LogUnavailableError
from tests.daemon.cli.builders import SMALL_OPENB, muster, muster_apart, scenario
from tests.daemon.log.contract import filled

QUESTIONS = (
    ("log", "verify", "LOG"),
    ("replay", "LOG"),
    ("state", "LOG"),
    ("tell", "LOG", "--to", "20"),
    ("log", "tail", "LOG"),
    ("queue", "list", "--log", "LOG"),
    ("usage", "--log", "LOG"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose last records are in a write-ahead log beside it, as a daemon that was killed leaves it."""
    folder = tmp_path_factory.mktemp("made")
    whole, path = folder / "whole.db", folder / "a.db"
    text = scenario(folder, SMALL_OPENB)
    assert muster("simulate", text, "--log", whole).exit_code == 0
    with closing(sqlite3.connect(whole, isolation_level=None)) as source:
        source.execute("PRAGMA journal_mode=WAL")
        source.execute("PRAGMA wal_autocheckpoint=0")
        # Nothing of the log changes, and yet pages are rewritten.
        source.execute("UPDATE alembic_version SET version_num = 'changing'")
        source.execute("UPDATE alembic_version SET version_num = '0000'")
        source.execute("UPDATE alembic_version SET version_num = ?", (REVISIONS[-1],))
        shutil.copy(whole, path)
        shutil.copy(f"{whole}-wal", f"{path}-wal")
    assert has_commit(Path(f"{path}-wal"))
    return path


def copied(made: Path, folder: Path, *, with_wal: bool = True) -> Path:
    path = folder / "a.db"
    shutil.copy(made, path)
    if with_wal:
        shutil.copy(f"{made}-wal", f"{path}-wal")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if "fill" not in one.name}


def _mount(*words: str) -> None:
    mount = shutil.which(words[0])
    if mount is None:
        pytest.skip("no program `mount`")
    done = subprocess.run([mount, *words[1:]], capture_output=True, text=True, check=False)  # noqa: S603  # our own words
    if done.returncode:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    _mount("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder))
    yield folder
    _mount("umount", "-l", str(folder))


def fill(disk: Path) -> None:
    with (disk / "fill").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return


def make_read_only(disk: Path) -> None:
    _mount("mount", "-o", "remount,ro", str(disk))


def answers(path: Path) -> list[tuple[int, str]]:
    found = []
    for words in QUESTIONS:
        result = muster(*(path if one == "LOG" else one for one in words))
        found.append((result.exit_code, result.stdout.replace(str(path), "LOG") or result.stderr))
    return found


@pytest.mark.parametrize("hinder", [fill, make_read_only])
@pytest.mark.parametrize("with_wal", [True, False])
def test_every_question_is_answered_and_nothing_is_changed(
    made: Path,
    tmp_path: Path,
    disk: Path,
    hinder: Callable[[Path], None],
    with_wal: bool,
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    expected = answers(copied(made, elsewhere))
    assert {code for code, _ in expected} == {0}
    if not with_wal:
        with closing(sqlite3.connect(elsewhere / "a.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        made = elsewhere / "a.db"
    path = copied(made, disk, with_wal=with_wal)
    before = contents(disk)
    hinder(disk)
    assert answers(path) == expected
    after = contents(disk)
    assert {name: after[name] for name in before} == before


def test_a_file_that_may_not_grow_is_as_a_full_disk(made: Path, tmp_path: Path) -> None:
    """Where no file system can be mounted."""
    path = copied(made, tmp_path)
    before = contents(tmp_path)
    for words in QUESTIONS[:3]:
        named = [str(path) if one == "LOG" else one for one in words]
        result = muster_apart(*named, file_size=0, env={"PYTHONDONTWRITEBYTECODE": "1"})
        assert result.returncode == 0, result.stderr
    assert {name: contents(tmp_path)[name] for name in before} == before


@pytest.mark.parametrize("cut", [0, 10, 32, 40, 32 + 24 + 100])
def test_a_write_ahead_log_without_a_commit_is_left_out_and_kept(
    made: Path, disk: Path, cut: int
) -> None:
    path = copied(made, disk)
    wal = Path(f"{path}-wal")
    wal.write_bytes(wal.read_bytes()[:cut])
    assert not has_commit(wal)
    before = contents(disk)
    make_read_only(disk)
    assert muster("log", "tail", path).exit_code == 0
    assert contents(disk) == before


def test_a_torn_frame_is_not_a_commit(made: Path, tmp_path: Path) -> None:
    wal = tmp_path / "wal"
    content = bytearray(Path(f"{made}-wal").read_bytes())
    for at in (0, 17, 25, 32, 37, 45, 100, 4000):
        torn = content.copy()
        torn[at] ^= 1
        wal.write_bytes(torn)
        assert not has_commit(wal), at
    assert not has_commit(tmp_path / "absent")


async def test_a_file_that_changes_while_it_is_read_in_private_withdraws_the_answer(
    made: Path, disk: Path
) -> None:
    path = copied(made, disk)
    fill(disk)
    log = await open_log(str(path))
    await verify(log)
    (disk / "fill").unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with pytest.raises(LogUnavailableError, match="it was written while it was read; ask again"):
        await log.close()
    log = await open_log(str(path))
    await log.close()


async def test_a_log_that_is_written_is_never_read_in_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_readable(path: Path, mode: ReadingMode) -> bool:
        return mode is not SHARED

    monkeypatch.setattr(sqlite_reading, "_is_readable", is_readable)
    path = tmp_path / "a.db"
    log = await open_log(str(path), "write")
    try:
        await filled(log)
        assert reading_mode(path) is SHARED
    finally:
        await log.close()
    assert reading_mode(path) is not SHARED
