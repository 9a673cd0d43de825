"""All watches together, as the loop sees them: one stream of watch messages, in arrival order."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from daemon.cluster.client.calls import WATCHED
from daemon.cluster.watching.audit import FULL_LIST_SECONDS, Audit
from daemon.cluster.watching.client_protocol import ApiClient, watched_kind
from daemon.cluster.watching.discovery import discover, features
from daemon.cluster.watching.health import WatchHealth, WatchState, logger
from daemon.cluster.watching.lag import WatchLag
from daemon.cluster.watching.list_order import ListOrder
from daemon.cluster.watching.message_buffer import KindSink, MessageBuffer
from daemon.cluster.watching.rate_limit import RateLimit, now
from daemon.cluster.watching.reflector import NOTHING, KindState, Reflector
from events.errors import ClusterError
from events.messages import ResumePoint, WatchMessage
from events.watch import WENT_BACK, ServerDiscovered
from projections.api_resource import Resource

DISCOVERY: Final = "discovery"
"""List order of the facts about the server itself: before all kinds."""


class Watches:
    """Lists and watches all kinds, again and again from what is durable.

    `run` is a task of the caller's; `messages` reads what it finds. Kinds are taken in for the first time
    in the given order, later as they come. One that fails for good does not end the others.
    """

    def __init__(
        self,
        server: ApiClient,
        jitter: Callable[[], float],
        *,
        resources: Sequence[Resource] = WATCHED,
        streams_lists: bool = False,
        full_list_seconds: float = FULL_LIST_SECONDS,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """With `now_ns`, the time of this machine since the epoch, it is found out how far watches are behind."""
        self._server = server
        self._watched = [watched_kind(resource) for resource in resources]
        self._kept = {
            one.name: KindState(
                RateLimit(jitter),
                WatchState(one.name, one.is_required, lag=WatchLag(now_ns)),
                streams_lists,
            )
            for one in self._watched
        }
        self._discovery_pace = RateLimit(jitter)
        self._discovered: ServerDiscovered | None = None
        self._buffer = MessageBuffer()
        self._progress: Mapping[str, ResumePoint] = {}
        self._wanted = asyncio.Event()
        self._reflectors: list[Reflector] = []
        self._doubted = asyncio.Event()
        self._full_list_seconds = full_list_seconds

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Begin again: each kind from its last durable revision on, or with a list where it has none."""
        self._progress = dict(progress)
        for kept in self._kept.values():
            kept.highest = ""
        self._buffer.close()
        self._buffer = MessageBuffer()
        self._wanted.set()

    def doubt(self, reason: str) -> None:
        """Something else suggests that the server's data was set back: find out, for each kind."""
        logger.warning("the API server may have been set back", reason=reason)
        self._doubted.set()

    def _relist(self, message: str) -> None:
        """The server's data was set back: there is a gap in every kind, and all of them are listed."""
        logger.warning("the API server was set back: everything is listed again", reason=message)
        for reflector in self._reflectors:
            reflector.give_up(WENT_BACK, message)
        self._reflectors = []
        self._progress = {}
        for kept in self._kept.values():
            kept.highest = ""
        self._wanted.set()

    async def messages(self) -> AsyncGenerator[list[WatchMessage], None]:
        """Everything that is there at once, in arrival order; a whole list always in one piece (K2.5)."""
        while True:
            buffer = self._buffer
            if (taken := await buffer.take()) and buffer is self._buffer:
                yield taken

    async def run(self) -> None:
        """Until cancelled; nothing is asked before `resume_from` says what is known."""
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
        return [kept.standing.at(moment, kept.rate_limit.requests) for kept in self._kept.values()]

    def _start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        self._reflectors = []
        list_order = ListOrder([DISCOVERY, *self._kept])
        sink = KindSink(DISCOVERY, self._buffer, list_order)
        running = [tasks.create_task(self._discover(sink), name=DISCOVERY)]
        for one in self._watched:
            kept = self._kept[one.name]
            kept.standing.become("starting")
            kept.standing.is_listed = False
            sink = KindSink(one.name, self._buffer, list_order)
            progress = self._progress.get(one.name, NOTHING)
            reflector = Reflector(self._server, one, sink, kept, self._relist, progress)
            self._reflectors.append(reflector)
            running.append(tasks.create_task(reflector.run(), name=f"watch {one.name}"))
        audit = Audit(self._reflectors, self._doubted, self._full_list_seconds)
        running.append(tasks.create_task(audit.run(), name="audit of watches"))
        return running

    async def _discover(self, sink: KindSink) -> None:
        """Ask the server once what it is and serves (K19), however often that takes."""
        while self._discovered is None:
            try:
                self._discovered = found = await discover(self._server, self._discovery_pace)
            except ClusterError as error:
                sink.let_others_pass()
                logger.debug("discovery failed", error=str(error))
                await asyncio.sleep(self._discovery_pace.after_failure())
            else:
                logger.info("server", version=found.version, features=features(found.served))
        await sink.send([self._discovered])
