"""One kind, listed and watched for ever, whatever the server does (rules K2, K3, K4)."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from msgspec import Struct

from daemon.cluster.client.availability import RECOVERING_PAUSE_SECONDS
from daemon.cluster.client.errors import ForbiddenError, InvalidError, StalledError
from daemon.cluster.watching.client_protocol import (
    ENDED,
    ApiClient,
    End,
    RevisionWentBackError,
    WatchedKind,
    end_of,
)
from daemon.cluster.watching.continuity import check, is_too_large
from daemon.cluster.watching.discovery import is_served
from daemon.cluster.watching.health import WatchState, logger
from daemon.cluster.watching.listing import fetch, pages_at
from daemon.cluster.watching.message_buffer import KindSink
from daemon.cluster.watching.rate_limit import RateLimit, now
from daemon.cluster.watching.stall_timeout import ResponseChunks
from daemon.cluster.watching.watch_decoder import Reading, WatchStream, whole_list
from daemon.cluster.watching.watch_event import Failure
from events.errors import ClusterError
from events.messages import (
    DeletionSeen,
    FullListEnded,
    FullListPage,
    FullListStarted,
    ListCompleted,
    ListStarted,
    ObjectRevision,
    ObjectSeen,
    ResumePoint,
    WatchMessage,
)
from events.revision import is_older
from events.watch import WENT_BACK, WatchClosed, WatchOpened, WatchProgressed

OPENING_SECONDS: Final = 30.0
"""Seconds within which the server must have begun to answer a watch."""

STALL_SECONDS: Final = 30.0
"""Seconds by which a watch may overstay the time at which the server was to end it (K3.12)."""

PROGRESS_SECONDS: Final = 10.0
"""Seconds between two watch messages of progress of a kind, at least: each becomes a record."""

SILENT_SECONDS: Final = 90.0
"""A watch that showed nothing at all for longer than this may be of a revision that is not there yet: servers
show a bookmark each minute."""

CHECKED_SECONDS: Final = 10.0
"""After the server's history was found to be ours, a watch that the server ended in order is opened again without
asking: a server that is set back is restarted first, which takes longer."""

PAGE_PAUSE_SECONDS: Final = 0.2
"""Between two pages of a full list beside a watch: at most 2,500 objects a second are asked for."""

SIZED_EVENTS: Final = 32
"""Events over which the size of objects is averaged, about."""

BAD_IN_A_ROW_MAX: Final = 3
"""Errors inside of watches, with nothing new between them, after which a list is asked for (K3.8)."""


DOUBTED_MAX: Final = 5
"""So many refusals in a row are not believed where the same was allowed before: a server that has just begun
refuses everything until it has read its rules."""


NOTHING: Final = ResumePoint("")
"""The resume point of a kind of which the log holds nothing."""


class KindState(Struct):
    """The state of a kind that outlives a restart of its reflector."""

    rate_limit: RateLimit
    standing: WatchState
    streams_lists: bool = False
    """Whether lists are asked for as streams (K3.13); given up when the server refuses one."""
    highest: str = ""
    """The last revision that was sent."""
    object_bytes: int = 0
    """The average size of the latest objects of watches; 0 before the first."""


class Reflector:
    """Hands over all of a kind, then what changes, without a gap that it does not tell of.

    `progress` is where to go on: everything up to there is durable. Without, all of it is listed. Should the
    server turn out not to have that history any more, `went_back` is called, and has to begin again with
    lists of every kind.
    """

    def __init__(
        self,
        server: ApiClient,
        watched: WatchedKind,
        sink: KindSink,
        kept: KindState,
        went_back: Callable[[str], None],
        progress: ResumePoint = NOTHING,
    ) -> None:
        self._server = server
        self._watched = watched
        self._name = watched.name
        self._sink = sink
        self._rate_limit = kept.rate_limit
        self._standing = kept.standing
        self._kept = kept
        self._went_back = went_back
        self._revision = revision = progress.resource_version
        self._newest = progress.newest
        """Objects that changed last up to this revision."""
        self._is_resuming = bool(revision)
        self._doubted_at = float("-inf")
        self._checked_at = float("-inf")
        """When the server's history was last found to be the one that was handed over."""
        self._has_ended = False
        """Whether the last watch ended in order after events."""
        self._stream: WatchStream | None = None
        """The watch whose `watch_opened` was sent."""
        self._opened_at = 0.0
        self._closed_cause = ""
        """The last cause sent in a `watch_closed`: one record for a change, not for each try."""
        self._bad_in_a_row = 0
        self._progressed_at = float("-inf")
        self._is_absent = False
        self._doubts = DOUBTED_MAX if revision else 0
        """Refusals that are still not believed."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            end = await self._once()
            if await self._server.pause(await self._rest(end)):
                self._rate_limit.reset()

    # List and watch

    async def _once(self) -> End:
        """List where there is nothing to go on from, then watch until the watch ends."""
        try:
            is_fresh = now() - self._checked_at < CHECKED_SECONDS
            if self._revision and not (self._has_ended and is_fresh):
                await self.check()
            if not self._revision and self._kept.streams_lists:
                return await self._stream_list()
            if not self._revision:
                await self._list()
            return await self._watch()
        except ClusterError as error:
            return end_of(error)

    async def _list(self) -> None:
        if self._standing.state in {"starting", "watching"}:
            self._standing.become("listing")
        whole = await fetch(self._server, self._watched, self._rate_limit, self._kept.object_bytes)
        if is_older(whole.resource_version, self._kept.highest):
            raise RevisionWentBackError(
                f"a list is of revision {whole.resource_version}, and {self._kept.highest} was seen"
            )
        messages = whole_list(self._name, whole.resource_version, whole.raws)
        await self._sink.send(messages, sum(map(len, whole.raws)))
        self._go_on_from(whole.resource_version, whole.newest)

    async def _stream_list(self) -> End:
        """A watch that begins with all there is; a list, where the server has no such thing (K3.13)."""
        try:
            return await self._watch()
        except (ForbiddenError, InvalidError) as error:
            self._kept.streams_lists = False
            reason = str(error)
        logger.info("lists are not streamed", resource=self._name, reason=reason)
        await self._list()
        return await self._watch()

    async def _watch(self) -> End:
        seconds = self._rate_limit.timeout_seconds()
        stream = WatchStream(self._name, self._revision)
        await self._rate_limit.admit()
        async with AsyncExitStack() as stack:
            stall = seconds + STALL_SECONDS
            watch = self._server.watch(self._watched.watch, self._query(seconds), stall + 5)
            try:
                async with asyncio.timeout(OPENING_SECONDS):
                    chunks = ResponseChunks(await stack.enter_async_context(watch), stall)
            except TimeoutError:
                raise StalledError(f"no answer within {OPENING_SECONDS:.0f} seconds") from None
            self._opened_at = now()
            return await self._follow(chunks, stream)

    def _query(self, seconds: int) -> dict[str, str]:
        """As K3.1 has it; or K3.13, for a watch that begins with all there is."""
        query = {
            **self._watched.query,
            "watch": "1",
            "resourceVersion": self._revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if not self._revision:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return query

    async def _follow(self, chunks: ResponseChunks, stream: WatchStream) -> End:
        """Hand over what the watch shows, until it ends."""
        if self._is_resuming:
            chunk = await chunks.first(lambda: self._open(stream))
        else:
            if stream.revision:
                await self._open(stream)
            chunk = await chunks.next()
        while chunk is not None:
            reading = stream.read(chunk)
            await self._show(reading, stream)
            if reading.is_alive:
                chunks.alive()
            if reading.is_doubtful and now() - self._doubted_at >= SILENT_SECONDS:
                self._doubted_at = now()
                await self.check()
            if isinstance(reading.end, Failure):
                return self._failed(reading.end)
            if reading.end is not None:
                return self._bad(str(reading.end))
            chunk = await chunks.next()
        if not stream.is_between_lines:
            return End("cut", "the watch ended in the middle of a line")
        return ENDED

    # Whether the history is still the server's

    async def check(self) -> None:
        """Make sure that the server has what was handed over. WentBackError where it has not."""
        progress = ResumePoint(self._revision, self._newest)
        await check(self._server, self._watched, self._rate_limit, progress)
        self._checked_at = now()

    async def check_in_doubt(self, *, always: bool = False) -> None:
        """The same beside an open watch that is silent, or `always`."""
        silent_since = max(self._opened_at, self._standing.last_event or 0.0)
        is_open = self._stream is not None and bool(self._revision)
        if not is_open or not (always or now() - silent_since >= SILENT_SECONDS):
            return
        try:
            await self.check()
        except RevisionWentBackError as error:
            self._went_back(str(error))
        except ClusterError as error:
            logger.debug("check failed", resource=self._name, error=str(error))

    async def compare(self) -> bool:
        """List all of the kind beside its watch, for the loop to compare; whether that was possible.

        Of the revision up to which everything has been handed over, so that what comes meanwhile is newer.
        """
        revision = self._revision
        if not revision or self._stream is None:
            return False
        self._sink.append(FullListStarted(self._name, revision))
        is_whole = False
        try:
            pages = pages_at(
                *(self._server, self._watched, self._rate_limit), revision, self._kept.object_bytes
            )
            async for raws in pages:
                page = FullListPage(self._name, tuple(raws))
                await self._sink.send([page], sum(map(len, raws)))
                await asyncio.sleep(PAGE_PAUSE_SECONDS)
            is_whole = True
        except ClusterError as error:
            if is_too_large(error):
                self._went_back(f"the server has not come to revision {revision}")
            logger.debug("full list failed", resource=self._name, error=str(error))
        finally:
            self._sink.append(FullListEnded(self._name, revision, is_whole))
        return is_whole

    def give_up(self, cause: str, message: str) -> None:
        """Tell of a gap: another reflector lists the kind."""
        self._standing.restarts[cause] += 1
        self._sink.append(
            WatchClosed(
                resource=self._name,
                resource_version=self._revision,
                cause=cause,
                message=message,
                has_gap=True,
            )
        )
        self._forget()

    # What is handed over

    async def _open(self, stream: WatchStream) -> None:
        """Tell that the watch is open."""
        opened = WatchOpened(
            resource=self._name, resource_version=self._revision, is_resumed=self._is_resuming
        )
        await self._sink.send([opened])
        self._is_open(stream)

    def _is_open(self, stream: WatchStream) -> None:
        self._stream = stream
        self._doubts = DOUBTED_MAX
        self._closed_cause = ""
        self._is_resuming = False
        self._standing.is_listed = True
        self._standing.become("watching")

    async def _show(self, reading: Reading, stream: WatchStream) -> None:
        """Hand over what a chunk said, and count it."""
        if reading.is_alive:
            self._standing.last_event = now()
            if self._is_resuming:
                await self._open(stream)
        messages = reading.messages
        if messages and self._standing.state == "watching":
            self._standing.lag.sample(messages, now())
        if stream.is_bookmarked and now() - self._progressed_at >= PROGRESS_SECONDS:
            stream.is_bookmarked = False
            self._progressed_at = now()
            messages.append(WatchProgressed(resource=self._name, resource_version=stream.revision))
        if messages:
            await self._sink.send(messages, reading.size)
        self._count(reading)
        if stream.revision != self._revision:
            self._bad_in_a_row = 0
            if not self._revision:
                self._is_open(stream)
            self._go_on_from(stream.revision, stream.newest)

    def _count(self, reading: Reading) -> None:
        shown = sum(isinstance(one, ObjectSeen | DeletionSeen) for one in reading.messages)
        self._standing.events += shown
        if shown:
            share = min(shown, SIZED_EVENTS)
            average = reading.line_bytes // shown
            self._kept.object_bytes += (average - self._kept.object_bytes) * share // SIZED_EVENTS
        self._standing.dropped += reading.dropped
        self._standing.malformed += reading.malformed

    def _go_on_from(self, revision: str, newest: ObjectRevision | None) -> None:
        """All of the kind up to a revision has been handed over."""
        self._revision = self._kept.highest = revision
        if newest is not None:
            self._newest = (newest,)
        self._is_absent = False
        self._doubts = DOUBTED_MAX
        self._standing.is_listed = True

    # Ends

    def _failed(self, failure: Failure) -> End:
        """What an ERROR event means."""
        message = f"{failure.code} {failure.reason}: {failure.message}"
        if failure.is_expired:
            return End("expired", message, has_gap=True)
        return self._bad(message, failure.retry_after_seconds)

    def _bad(self, message: str, retry_after_seconds: float | None = None) -> End:
        """A watch was good until it said something else than events. A third time, list (K3.8)."""
        self._bad_in_a_row += 1
        has_gap = self._bad_in_a_row >= BAD_IN_A_ROW_MAX
        return End("failed", message, has_gap, retry_after_seconds)

    async def _rest(self, end: End) -> float:
        """Tell how it ended; seconds to wait before going on."""
        if end.cause == WENT_BACK:
            self._went_back(end.message)
            return SILENT_SECONDS  # This reflector is over: another one takes its place.
        if end.cause == "absent":
            end = await self._missing(end)
            if self._is_absent:
                return self._rate_limit.while_absent()
        has_shown = self._stream is not None and self._stream.count > 0
        self._has_ended = has_shown and end.cause == "ended"
        if end.has_gap and not self._revision:
            end = End(end.cause, end.message)  # A list that failed leaves no gap: none was closed.
        self._standing.restarts[end.cause] += 1
        await self._close(end)
        self._sink.let_others_pass()
        if end.has_gap:
            self._forget()
        if end.cause == "ended":
            return self._rate_limit.after_end(has_shown=has_shown)
        if end.cause == "forbidden":
            self._standing.become("forbidden", end.cause, end.message)
            self._doubts -= 1
            return (
                self._rate_limit.after_failure()
                if self._doubts >= 0
                else self._rate_limit.after_refusal()
            )
        self._standing.become("waiting", end.cause, end.message)
        wait = self._rate_limit.after_failure(end.retry_after_seconds)
        return min(wait, RECOVERING_PAUSE_SECONDS) if end.is_recovering else wait

    def _forget(self) -> None:
        """There is nothing to go on from: the kind has to be listed."""
        self._revision = ""
        self._newest = ()
        self._is_resuming = False
        self._bad_in_a_row = 0

    async def _close(self, end: End) -> None:
        """Tell that a watch is closed; of one that could not even be opened, only what is new."""
        stream, self._stream = self._stream, None
        if stream is None and not end.has_gap and end.cause == self._closed_cause:
            return
        self._closed_cause = end.cause
        lived = now() - self._opened_at if stream else 0.0
        closed = WatchClosed(
            resource=self._name,
            resource_version=self._revision,
            cause=end.cause,
            message=end.message,
            count=stream.count if stream else 0,
            duration_ns=int(lived * 1_000_000_000),
            has_gap=end.has_gap,
        )
        await self._sink.send_now(closed)

    async def _missing(self, end: End) -> End:
        """A 404: the kind is not served, if discovery says so too; else something else is wrong."""
        if self._is_absent:
            return end
        try:
            if self._watched.is_required or await is_served(
                self._server, self._rate_limit, self._watched.resource
            ):
                return End("failed", end.message)
        except ClusterError as error:
            return End("failed", f"{end.message}; {error}")
        listed: list[WatchMessage] = [
            ListStarted(self._name),
            ListCompleted(self._name, "", 0, served=False),
        ]
        await self._sink.send(listed)
        self._forget()
        self._is_absent = self._standing.is_listed = True
        self._standing.become("absent")
        return end
