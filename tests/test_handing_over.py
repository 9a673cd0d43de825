"""The page on handing an incident over: a daemon serves and schedules the simulated cluster, and each command is typed."""

import asyncio
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import muster
from tests.test_operator_questions import LEFT_OUT, TYPED, shows

PAGE: Final = (ROOT / "docs/handing-over.md").read_text(encoding="utf-8")
EXAMPLES: Final = "docs/examples/handing-over"
OVER: Final = b'"restart ended"'
SECONDS: Final = 60.0

NAMED: Final = re.compile(r"^([a-z]+[0-9]+-[0-9a-f]{12}x\S*)\t(\S+)$", re.MULTILINE)
"""A line of the table of names."""
CODES: Final = re.compile(r"[a-z]+[0-9]+-[0-9a-f]{12}x|[0-9a-f]{64}|[0-9]+")
"""What differs from run to run: pseudonyms, digests and numbers."""


def comparable(text: str) -> str:
    """The text without numbers and codes, and the spaces and rules that their widths make."""
    return re.sub(r" +", " ", CODES.sub("#", text))


async def recorded(words: list[str], folder: Path) -> str:
    """What the daemon of the page prints until the job has been restarted and Ctrl-C is pressed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "daemon", *words),
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = b""
    try:
        async with asyncio.timeout(SECONDS):
            while OVER not in told:
                line = await process.stderr.readline()
                assert line, told.decode()
                told += line
            process.send_signal(signal.SIGINT)
            told += await process.stderr.read()
            assert await process.wait() == 0, told.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return told.decode()


async def test_each_command_of_the_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / EXAMPLES, tmp_path / EXAMPLES)
    monkeypatch.chdir(tmp_path)
    (run, _), *typed = [(found[1], found[2]) for found in TYPED.finditer(PAGE)]
    told = await recorded(shlex.split(run)[1:], tmp_path)
    shown = [
        line.strip(f"{LEFT_OUT} ") for line in PAGE.splitlines() if line.startswith('... "event"')
    ]
    assert len(shown) == 4
    assert all(line in told for line in shown), told
    assert len(typed) == 8
    for command, block in typed:
        done = await asyncio.to_thread(muster, *shlex.split(in_force(command))[1:])
        assert done.exit_code == 0, done.output
        assert shows(comparable(block), comparable(done.stdout)), f"{command}:\n{done.stdout}"


def in_force(command: str) -> str:
    """The command with the pseudonyms that the key of this run gives to what the page names."""
    path = Path("names.tsv")
    if not path.exists():
        return command
    made = {name: pseudonym for pseudonym, name in NAMED.findall(path.read_text("utf-8"))}
    for pseudonym, name in NAMED.findall(PAGE):
        command = command.replace(pseudonym, made[name])
    return command
