"""What the tests of the reflectors begin with."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from daemon.cluster.watching.health import WatchHealth
from daemon.cluster.watching.watches import Watches
from events.messages import ResumePoint
from projections.api_resource import Resource
from tests.daemon.cluster.watching.api import BASIC, Api, Follower


def middling() -> float:
    """Chance that is always the same."""
    return 0.5


def since(revisions: Mapping[str, str]) -> dict[str, ResumePoint]:
    """Progress of which only the revisions are known."""
    return {kind: ResumePoint(revision) for kind, revision in revisions.items()}


class Daemon:
    """Watches with a reader."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches
        self.seen = Follower()
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def read(self) -> None:
        """Take in what comes, while allowed to."""
        async for taken in self.watches.messages():
            self.seen.take(taken)
            await self.may_read.wait()

    def health(self, name: str = "Pod") -> WatchHealth:
        """How the watch of a kind stands."""
        return next(one for one in self.watches.health() if one.resource == name)

    def again(self, progress: Mapping[str, str]) -> None:
        """Show everything since what is durable, to a reader who knows nothing else."""
        self.seen.lists.clear()
        self.watches.resume_from(since(progress))


@asynccontextmanager
async def running(
    api: Api,
    progress: Mapping[str, str] | None = None,
    *,
    jitter: Callable[[], float] = middling,
    resources: tuple[Resource, ...] = BASIC,
    streams_lists: bool = False,
) -> AsyncGenerator[Daemon, None]:
    """Watches that run, and have had ten seconds to begin."""
    watches = Watches(api, jitter, resources=resources, streams_lists=streams_lists)
    daemon = Daemon(watches)
    watches.resume_from(since(progress or {}))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(watches.run()), tasks.create_task(daemon.read())]
        await asyncio.sleep(10)
        yield daemon
        for task in running:
            task.cancel()
