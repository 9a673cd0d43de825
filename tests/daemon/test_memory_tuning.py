"""Memory that large objects took goes back to the operating system; exit does not look for garbage."""

import subprocess
import sys

import pytest

from tests.checkout import ROOT

AT_EXIT = """
import atexit, gc
from daemon.memory_tuning import collect_rarely
atexit.register(lambda: print(gc.get_freeze_count() >= len(gc.get_objects())))
collect_rarely()
"""

BURST = """
from daemon.memory_tuning import return_large_blocks
return_large_blocks()

def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

before = resident()
kept = []
for size in (300_000, 1_000_000, 3_000_000):
    burst = []
    for index in range(30):
        burst.append(b"x" * size)
        kept.append(b"x" * 1_000)
    peak = resident()
    del burst
print((resident() - before) * 4096, (peak - before) * 4096)
"""


def test_the_last_collection_of_a_process_looks_at_next_to_nothing() -> None:
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", AT_EXIT],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "True\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_burst_of_large_objects_leaves_nothing_behind_although_small_ones_stay_between_them() -> (
    None
):
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", BURST],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    left, peak = map(int, done.stdout.split())
    assert left < 4_000_000
    assert peak > 80_000_000
