"""`muster` in a process that ends itself, as by SIGKILL, the N-th time that it reaches a named point.

    python -m tests.crash_injection POINT[:N] WORDS...

The command itself knows nothing of it: the log and the loop that it builds are given the crash point from here.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from daemon import app
from daemon.cli import run
from daemon.cli.app import main
from daemon.log.opening import open_log
from daemon.loop import Cluster, Loop
from events.messages import Reply, Request, ResumePoint, WatchMessage

POINTS: Final = ("inside_commit", "after_commit", "after_effect")
"""Before a commit is done; between it and the effect of what it holds; between an effect and the record of its outcome."""
KILLED: Final = 137


class CrashPoint:
    """Ends the process the N-th time that a point is reached."""

    def __init__(self, text: str) -> None:
        self.point, _, times = text.partition(":")
        assert self.point in POINTS, text
        self._left = int(times or 1)

    def __call__(self, point: str) -> None:
        """A point is reached."""
        if point == self.point:
            self._left -= 1
            if self._left == 0:
                os._exit(KILLED)


class CrashingCluster:
    """A cluster, after whose answer to a request the process may end."""

    def __init__(self, cluster: Cluster, crash: CrashPoint) -> None:
        self._cluster = cluster
        self._crash = crash

    def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """Return what the watches show."""
        return self._cluster.messages()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Begin the watches where the log ends."""
        self._cluster.resume_from(progress)

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out, and reach the point `after_effect`."""
        answered = await self._cluster.attempt(request)
        self._crash("after_effect")
        return answered


def install(crash: CrashPoint) -> None:
    """Give the crash point to every log and loop that the command builds."""

    def make_loop(log: Any, cluster: Cluster, *rest: Any) -> Loop:
        return Loop(log, CrashingCluster(cluster, crash), *rest)

    for module in (app, run):
        setattr(module, "open_log", partial(open_log, faults=crash))  # noqa: B010
        setattr(module, "Loop", make_loop)  # noqa: B010


if __name__ == "__main__":
    install(CrashPoint(sys.argv.pop(1)))
    main()
