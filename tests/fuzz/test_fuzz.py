"""Objects from the OpenAPI schemas with hostile values: no crash, canaries are served, the log replays equal.

`MUSTER_FUZZ_SEEDS=FIRST:LAST` lets the long form go on where it stopped, or run a seed again; it prints its
progress with `-s`.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.fuzz.databases import databases
from tests.fuzz.generator import ROUNDS
from tests.fuzz.running import checked

SHORT: Final = 8
"""Cases of a test in the short form."""

SEEDS: Final = 19_000
"""Cases of the long form: with 53 objects each, a million."""

BLOCK: Final = 250
"""Cases that one process runs."""

BLOCK_SECONDS: Final = 3_600.0
"""After which a block is taken to stand still."""

CANARIES: Final = ROUNDS + 2
"""Pods of each case that are always placed."""

AT_ONCE: Final = 2
LOGS: Final = ("memory",) * 18 + ("sqlite", "postgresql")
"""Of twenty blocks, which run on what."""


@pytest.mark.parametrize("block", range(4))
def test_hostile_objects_in_memory(block: int, tmp_path: Path) -> None:
    run("memory", range(block * SHORT, (block + 1) * SHORT), tmp_path)


def test_hostile_objects_in_sqlite(tmp_path: Path) -> None:
    run("sqlite", range(1_000, 1_005), tmp_path)


@pytest.mark.postgres
def test_hostile_objects_in_postgresql(tmp_path: Path) -> None:
    run("postgresql", range(2_000, 2_003), tmp_path)


def run(kind: str, seeds: range, folder: Path) -> None:
    """Run cases; something must have been placed, or nothing is known."""
    placed = 0
    with databases(kind, folder) as fresh:
        for seed in seeds:
            placed += checked(seed, fresh).bound - CANARIES
    assert placed >= len(seeds)


@pytest.mark.soak
async def test_a_million_hostile_objects(tmp_path: Path) -> None:
    first, _, last = os.environ.get("MUSTER_FUZZ_SEEDS", f"0:{SEEDS}").partition(":")
    blocks = list(range(int(first), int(last), BLOCK))
    limit = asyncio.Semaphore(AT_ONCE)
    failed: list[str] = []

    async def run_block(begin: int) -> None:
        end = min(begin + BLOCK, int(last))
        log = LOGS[begin // BLOCK % len(LOGS)]
        async with limit:
            told = await _in_a_process(begin, end, log, tmp_path)
        print(f"seeds {begin}:{end} on {log}: {told.splitlines()[-1]}", flush=True)
        if "seed" in told:
            failed.append(told)

    async with asyncio.TaskGroup() as group:
        for begin in blocks:
            group.create_task(run_block(begin))
    assert not failed, "\n".join(failed)


async def _in_a_process(first: int, last: int, log: str, folder: Path) -> str:
    """What a block says. A process that stands still is killed, and that is a failure, too."""
    command = ["-m", "tests.fuzz", str(first), str(last), "--log", log, "--folder", str(folder)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(BLOCK_SECONDS):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"seeds {first} to {last} stand still"
    text = told.decode(errors="replace")
    return text if process.returncode == 0 or "seed" in text else f"seeds {first}: {text}"
