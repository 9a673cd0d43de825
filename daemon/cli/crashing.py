"""Dying on purpose, for the tests that see what a death leaves behind."""

import os
from collections.abc import AsyncIterator, Mapping
from typing import Final

from daemon.loop import Cluster
from events.errors import UsageError
from events.sighting import Progress, Reply, Request, Sighting

POINTS: Final = ("inside_commit", "after_commit", "after_effect")
"""Where a daemon can be made to die on purpose: before a commit is done; between it and the effect of
what it holds; between an effect and the record of its outcome."""
KILLED: Final = 137


class Crash:
    """Dies the N-th time that a point is reached."""

    def __init__(self, told: str) -> None:
        self.point, _, times = told.partition(":")
        if self.point and self.point not in POINTS:
            raise UsageError(f"--crash-at {told}: known points are {', '.join(POINTS)}")
        if times and not times.isdecimal():
            raise UsageError(f"--crash-at {told}: {times} is not a number")
        self._left = int(times or 1)

    def __call__(self, point: str) -> None:
        """A point is reached."""
        if point == self.point:
            self._left -= 1
            if self._left == 0:
                os._exit(KILLED)


class DeadlyShore:
    """A cluster, on whose shore a daemon can be made to die."""

    def __init__(self, cluster: Cluster, crash: Crash) -> None:
        self._cluster = cluster
        self._crash = crash

    def sightings(self) -> AsyncIterator[list[Sighting]]:
        """As they are."""
        return self._cluster.sightings()

    def show_since(self, progress: Mapping[str, Progress]) -> None:
        """As it is."""
        self._cluster.show_since(progress)

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """As it is, and then it may be time to die."""
        answered = await self._cluster.attempt(request)
        self._crash("after_effect")
        return answered
