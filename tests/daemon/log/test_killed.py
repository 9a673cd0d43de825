"""A process that dies in the middle of an append leaves a whole log."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.log.opening import open_log
from daemon.log.verify import verify
from tests.checkout import ROOT
from tests.daemon.log.contract import filled

PROGRAM = """
import asyncio, os, signal, sys
from daemon.log.opening import open_log
from tests.daemon.log.builders import batches
from tests.daemon.log.contract import filled

armed = False

def die(point):
    if armed and point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    global armed
    log = await open_log(sys.argv[1], "write", faults=die)
    await filled(log, count=1, size=3)
    armed = True
    made = batches(log.head, count=4, size=3)
    await asyncio.gather(*(log.append(one) for one in made))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("point", "kept"), [("before_commit", 3), ("inside_commit", 3), ("after_commit", 6)]
)
async def test_a_batch_is_there_whole_or_not_at_all(tmp_path: Path, point: str, kept: int) -> None:
    """One that waits behind a transaction, too: the first of four is written, the others share the next one."""
    path = str(tmp_path / "log.db")
    died = subprocess.run(  # noqa: ASYNC221, S603 - a program of this file, and nothing else to do
        [sys.executable, "-c", PROGRAM, path, point], cwd=ROOT, check=False, timeout=60
    )
    assert died.returncode == -signal.SIGKILL
    log = await open_log(path, "write")
    assert (await verify(log)).records == kept
    await filled(log)
    assert (await verify(log)).records == kept + 6
    await log.close()


def test_a_log_is_made_from_installed_packages_alone(tmp_path: Path) -> None:
    """As in site-packages: the migrations and the dictionary come with the packages."""
    for name in ("daemon", "events", "migrations", "projections"):
        (tmp_path / name).symlink_to(ROOT / name)
    program = (
        "import asyncio\n"
        "from daemon.log.opening import open_log\n"
        "async def main():\n"
        "    log = await open_log('new.db', 'write')\n"
        "    await log.close()\n"
        "asyncio.run(main())\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run(  # noqa: S603 - a program of this file
        [sys.executable, "-c", program],
        cwd=elsewhere,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        timeout=60,
    )
    assert (elsewhere / "new.db").exists()
