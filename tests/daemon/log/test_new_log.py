"""A log that a command makes is whole under its name, or not there."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.cli import log_commands, simulate
from daemon.log.new_log import new_log
from daemon.log.opening import open_log
from daemon.log.sqlite import BESIDE
from daemon.log.verify import verify
from daemon.private_files import write_whole
from daemon.queries import what_if
from events.errors import LogLockedError, UsageError
from events.record import GENESIS, Head
from tests.checkout import ROOT
from tests.daemon.cli.builders import QUOTA, muster
from tests.daemon.cli.test_run import until
from tests.daemon.log.contract import filled

WHY = "a new log goes elsewhere"


class Interrupted(BaseException):
    """What ends a command from outside."""


def names(folder: Path) -> list[str]:
    """The files of a folder, without the file of the lock."""
    return sorted(
        one.name for one in folder.iterdir() if one.name not in ("a.db.lock", "b.db.lock")
    )


async def make(
    path: Path,
    *,
    count: int = 3,
    replaces: bool = False,
    ends_with: type[BaseException] | None = None,
) -> Head:
    async with new_log(str(path), WHY, replaces=replaces) as log:
        head = await filled(log, count=count)
        if ends_with is not None:
            raise ends_with
        return head


async def head_of(path: Path) -> Head:
    log = await open_log(str(path))
    try:
        return (await verify(log)).head
    finally:
        await log.close()


async def test_a_log_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with new_log(str(path), WHY) as log:
        head = await filled(log)
        assert log.place == str(path)
        assert not path.exists()
    assert names(tmp_path) == ["a.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert await head_of(path) == head
    again = await open_log(str(path), "write")
    assert again.head == head
    await again.close()


@pytest.mark.parametrize("error", [Interrupted, asyncio.CancelledError, ValueError])
async def test_a_command_that_ends_early_leaves_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a.db"
    with pytest.raises(error):
        await make(path, ends_with=error)
    assert names(tmp_path) == []


async def test_what_a_killed_command_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
        (tmp_path / f".a.db.part{suffix}").write_text("half")
    head = await make(path)
    assert names(tmp_path) == ["a.db"]
    assert await head_of(path) == head


async def test_an_older_log_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first = await make(path)
    with pytest.raises(Interrupted):
        await make(path, count=5, replaces=True, ends_with=Interrupted)
    assert await head_of(path) == first
    assert set(names(tmp_path)) > {"a.db"}, "a reader leaves files beside it"
    second = await make(path, count=5, replaces=True)
    assert names(tmp_path) == ["a.db"]
    assert second != first
    assert await head_of(path) == second


async def test_only_an_empty_log_or_file_may_be_there(tmp_path: Path) -> None:
    path, empty, log_without_records = (tmp_path / name for name in ("a.db", "b.db", "c.db"))
    await make(path)
    with pytest.raises(UsageError, match=rf"a\.db is not empty: {WHY}"):
        await make(path)
    empty.touch()
    await make(empty)
    await (await open_log(str(log_without_records), "write")).close()
    await make(log_without_records)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("create table mine (id integer)")
    connection.close()
    with pytest.raises(UsageError, match="is not a muster log"):
        await make(other)
    text = tmp_path / "text.db"
    text.write_text("text")
    with pytest.raises(UsageError, match="is not a muster log"):
        await make(text)
    assert text.read_text() == "text"


async def test_the_name_is_locked_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with new_log(str(path), WHY):
        with pytest.raises(LogLockedError):
            await make(path)
        with pytest.raises(LogLockedError):
            await open_log(str(path), "write")
    await make(path)


async def test_a_link_stays_and_leads_to_the_new_log(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, target = tmp_path / "a.db", tmp_path / "elsewhere" / "b.db"
    link.symlink_to(target)
    head = await make(link)
    assert link.is_symlink()
    assert await head_of(target) == head


async def test_a_log_in_memory_needs_no_name(tmp_path: Path) -> None:
    async with new_log("memory:", WHY) as log:
        assert log.head == GENESIS
    with pytest.raises(UsageError, match="a bundle is read only"):
        async with new_log(str(tmp_path / "a.muster"), WHY):
            pass


def interrupted(*given: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_no_command_leaves_half_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is stopped when everything but the end is written."""
    log, bundle = tmp_path / "a.db", tmp_path / "a.muster"
    assert muster("simulate", QUOTA, "--log", log).exit_code == 0
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    change = tmp_path / "change.yaml"
    change.write_text("steps: []\n")
    for module, name, words in (
        (simulate, "_read_back", ("simulate", QUOTA, "--log", tmp_path / "b.db")),
        (log_commands, "copy_whole", ("log", "import", bundle, "--log", tmp_path / "b.db")),
        (
            what_if,
            "what_if",
            ("what-if", log, "--at", "17", "--change", change, "--out", tmp_path / "b.db"),
        ),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, interrupted)
            assert muster(*words).exit_code == 130, words
        assert not [one for one in names(tmp_path) if "b.db" in one]
        assert muster(*words).exit_code == 0, words
        assert muster("log", "verify", tmp_path / "b.db").exit_code == 0
        for suffix in ("", *BESIDE):
            Path(f"{tmp_path}/b.db{suffix}").unlink(missing_ok=True)


def test_a_signal_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    text = "scenario: long\nworkload: {name: openb, scale: 0.2}\nuntil: 120s\n"
    (tmp_path / "long.yaml").write_text(text)
    path = tmp_path / "a.db"
    words = ("simulate", str(tmp_path / "long.yaml"), "--log", str(path))
    process = subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "daemon", *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((tmp_path / ".a.db.part").exists)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    assert names(tmp_path) == ["long.yaml"]


def test_a_file_of_a_key_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_whole(path, "secret")
    assert names(tmp_path) == []
    write_whole(path, "secret", replaces=False)
    with pytest.raises(FileExistsError):
        write_whole(path, "other", replaces=False)
    assert path.read_text() == "secret"
    write_whole(path, b"other")
    assert path.read_text() == "other"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["key"]


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object, **named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    write_whole(tmp_path / "key", "secret", replaces=False)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "key", "other", replaces=False)
    assert (tmp_path / "key").read_text() == "secret"
    assert names(tmp_path) == ["key"]
