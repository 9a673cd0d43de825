"""Pods that are like no other come and go; after each turn the resident memory of this process, in MiB.

python -m tests.projections.churn TURNS PODS TOLERATIONS
"""

import gc
import sys
from pathlib import Path

from benchmarks.driving import begin
from events.messages import DeletionSeen, ListCompleted, ObjectSeen
from projections.kind_table import REQUIRED
from tests.projections.test_freed_classes import unlike
from tests.scheduling.builders import SECOND, node

AT_ONCE = 20
"""Pods in one batch."""


def resident_mib() -> int:
    """Resident memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(found) // 1024


def main() -> None:
    """Play the turns."""
    turns, count, tolerations = map(int, sys.argv[1:])
    engine, _ = begin(with_views=True)
    engine.observe([ObjectSeen(node("n0"))], SECOND)
    engine.observe(
        [ListCompleted(resource=one, resource_version="1", count=0) for one in REQUIRED], SECOND
    )
    now_ns = SECOND
    sys.stdout.write(f"{resident_mib()}\n")
    for turn in range(turns):
        for begin_at in range(0, count, AT_ONCE):
            now_ns += SECOND
            numbers = range(begin_at, min(count, begin_at + AT_ONCE))
            engine.observe([ObjectSeen(unlike(turn, one, tolerations)) for one in numbers], now_ns)
            engine.cycle(now_ns)
        now_ns += SECOND
        engine.observe(
            [DeletionSeen(unlike(turn, one, tolerations)) for one in range(count)], now_ns
        )
        engine.cycle(now_ns)
        gc.collect()
        sys.stdout.write(f"{resident_mib()}\n")


if __name__ == "__main__":
    main()
