"""All watches together, as the loop sees them: one stream of sightings, in arrival order."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from daemon.cluster.client.calls import WATCHED, Resource
from daemon.cluster.watching.audit import FULL_LIST_SECONDS, Audit
from daemon.cluster.watching.discovery import discover, features
from daemon.cluster.watching.health import Standing, WatchHealth, logger
from daemon.cluster.watching.intake import Intake, Outlet
from daemon.cluster.watching.pace import Pace, now
from daemon.cluster.watching.reflector import NOTHING, Kept, Reflector
from daemon.cluster.watching.server import Server, watched
from daemon.cluster.watching.turns import Turns
from events.errors import ClusterError
from events.messages import ResumePoint, WatchMessage
from events.watch import WENT_BACK, ServerDiscovered

DISCOVERY: Final = "discovery"
"""The turn of what the server says of itself: before all kinds."""


class Watches:
    """Lists and watches all kinds, again and again from what is durable.

    `run` is a task of the caller's; `sightings` reads what it finds. Kinds are taken in for the first time
    in the given order, later as they come. One that fails for good does not end the others.
    """

    def __init__(
        self,
        server: Server,
        jitter: Callable[[], float],
        *,
        resources: Sequence[Resource] = WATCHED,
        streams_lists: bool = False,
        full_list_seconds: float = FULL_LIST_SECONDS,
    ) -> None:
        self._server = server
        self._watched = [watched(resource) for resource in resources]
        self._kept = {
            one.name: Kept(Pace(jitter), Standing(one.name, one.is_required), streams_lists)
            for one in self._watched
        }
        self._discovery_pace = Pace(jitter)
        self._discovered: ServerDiscovered | None = None
        self._intake = Intake()
        self._progress: Mapping[str, ResumePoint] = {}
        self._wanted = asyncio.Event()
        self._reflectors: list[Reflector] = []
        self._doubted = asyncio.Event()
        self._full_list_seconds = full_list_seconds

    def show_since(self, progress: Mapping[str, ResumePoint]) -> None:
        """Begin again: each kind from its last durable revision on, or with a list where it has none."""
        self._progress = dict(progress)
        for kept in self._kept.values():
            kept.highest = ""
        self._intake.close()
        self._intake = Intake()
        self._wanted.set()

    def doubt(self, reason: str) -> None:
        """Something else suggests that the server's data was set back: find out, for each kind."""
        logger.warning("the API server may have been set back", reason=reason)
        self._doubted.set()

    def _list_anew(self, message: str) -> None:
        """The server's data was set back: there is a gap in every kind, and all of them are listed."""
        logger.warning("the API server was set back: everything is listed again", reason=message)
        for reflector in self._reflectors:
            reflector.give_up(WENT_BACK, message)
        self._reflectors = []
        self._progress = {}
        for kept in self._kept.values():
            kept.highest = ""
        self._wanted.set()

    async def sightings(self) -> AsyncGenerator[list[WatchMessage], None]:
        """Everything that is there at once, in arrival order; a whole list always in one piece (K2.5)."""
        while True:
            intake = self._intake
            if (taken := await intake.take()) and intake is self._intake:
                yield taken

    async def run(self) -> None:
        """Until cancelled; nothing is asked before `show_since` says what is known."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            async with asyncio.TaskGroup() as tasks:
                running = self._start(tasks)
                await self._wanted.wait()
                for task in running:
                    task.cancel()

    def health(self) -> list[WatchHealth]:
        """How the watch of each kind stands."""
        moment = now()
        return [kept.standing.at(moment, kept.pace.requests) for kept in self._kept.values()]

    def _start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        self._reflectors = []
        turns = Turns([DISCOVERY, *self._kept])
        outlet = Outlet(DISCOVERY, self._intake, turns)
        running = [tasks.create_task(self._discover(outlet), name=DISCOVERY)]
        for one in self._watched:
            kept = self._kept[one.name]
            kept.standing.become("starting")
            kept.standing.is_listed = False
            outlet = Outlet(one.name, self._intake, turns)
            progress = self._progress.get(one.name, NOTHING)
            reflector = Reflector(self._server, one, outlet, kept, self._list_anew, progress)
            self._reflectors.append(reflector)
            running.append(tasks.create_task(reflector.run(), name=f"watch {one.name}"))
        audit = Audit(self._reflectors, self._doubted, self._full_list_seconds)
        running.append(tasks.create_task(audit.run(), name="audit of watches"))
        return running

    async def _discover(self, outlet: Outlet) -> None:
        """Ask the server once what it is and serves (K19), however often that takes."""
        while self._discovered is None:
            try:
                self._discovered = found = await discover(self._server, self._discovery_pace)
            except ClusterError as error:
                outlet.failed()
                logger.debug("discovery failed", error=str(error))
                await asyncio.sleep(self._discovery_pace.after_failure())
            else:
                logger.info("server", version=found.version, features=features(found.served))
        await outlet.show([self._discovered])
