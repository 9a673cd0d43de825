"""HTTP around the API of a simulated cluster: it transfers bytes, keeps time, and injects faults.

Responses are decided in `simulator/api_server`, not here.
"""

import asyncio
from collections import defaultdict
from typing import Final, Protocol

from aiohttp import web

from daemon.cluster.server.fault_injection import FAILED, BrokenError, StruckLines, apply_fault
from daemon.cluster.server.request_log import Entry, Journal
from events.duration import SECOND
from simulator.api_server.api import Api
from simulator.api_server.faults import UNDER_WAY, Fault, FaultContext, FaultKind, Faults, NoFaults
from simulator.api_server.http_message import JSON, Request, Response
from simulator.api_server.request_target import Address, address_of
from simulator.api_server.watch import Watch

BODY_MAX: Final = 16 * 1024 * 1024
"""The most bytes of a request that are read."""
LONGEST_TICK_SECONDS: Final = 1.0
STALL_SECONDS: Final = 600.0
"""How long a stalled server keeps the connection open."""
WRITE_SECONDS: Final = 60.0
"""How long a client may read nothing before it is disconnected."""


class Clock(Protocol):
    """The source of the server's time."""

    def elapsed_ns(self) -> int:
        """Monotonic time."""
        ...


class Shell:
    """Answers HTTP requests with the responses of the API."""

    def __init__(self, api: Api, clock: Clock, faults: Faults | None = None) -> None:
        self.api = api
        self.faults: Faults = faults or NoFaults()
        self.journal = Journal()
        self.is_ending = False
        self.stall_seconds = STALL_SECONDS
        self._clock = clock
        self._begun_ns = clock.elapsed_ns() - api.simulated.now_ns
        self._wakers: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._timer: asyncio.TimerHandle | None = None
        self._is_stirred = False
        self._open: dict[int, web.Request] = {}
        api.versions.listen(self._note)

    @property
    def now_ns(self) -> int:
        """Time since the cluster began."""
        return self._clock.elapsed_ns() - self._begun_ns

    def start(self) -> None:
        """Let the cluster advance without requests from now on."""
        self._tick()

    def wake(self) -> None:
        """Wake all waiting watches: time was moved, or the server is closing."""
        self._tick()
        for wakers in self._wakers.values():
            for waker in wakers:
                waker.set()

    def end(self) -> None:
        """End all watches."""
        self.is_ending = True
        self.wake()

    def break_connections(self) -> None:
        """Break every waiting connection, like a server that is killed."""
        for http in list(self._open.values()):
            _break_off(http)

    async def answer(self, http: web.Request) -> web.StreamResponse:
        """Answer one HTTP request."""
        request = await read_request(http)
        address = address_of(request.method, request.path, is_watch=self.api.is_watch(request))
        index = self.journal.next_index()
        fault = self._fault(index, address)
        if address is not None and address.verb in ("list", "watch"):
            self.journal.note_watching(_qualified(address), self.now_ns / SECOND)
        self.api.advance(self.now_ns)
        status = 0
        self._open[index] = http
        try:
            answer = await self._answer(http, request, fault)
            status = answer.status
        except (BrokenError, ConnectionError):  # Cancelled by us, or by a client that disconnected.
            _break_off(http)
            answer = web.Response()
        finally:
            del self._open[index]
            self._record(index, address, request, (status, fault))
        return answer

    async def _answer(
        self, http: web.Request, request: Request, fault: Fault | None
    ) -> web.StreamResponse:
        if fault is not None and (early := await apply_fault(fault, self.api)) is not None:
            return _written(early)
        if self.api.is_watch(request):
            return await self._watch(http, request, fault)
        if fault is not None and fault.kind is FaultKind.TWICE:
            self.api.handle(request)
        response = self.api.handle(request)
        match None if fault is None else fault.kind:
            case FaultKind.LOSE:
                raise BrokenError
            case FaultKind.FAIL_AFTER:
                return _written(FAILED)
            case FaultKind.EMPTY:
                return _written(Response(response.status))
            case FaultKind.CUT:
                await _half(http, response)
                raise BrokenError
            case FaultKind.STALL:
                await _half(http, response)
                await self._silence(http)
            case _:
                pass
        return _written(response)

    async def _watch(
        self, http: web.Request, request: Request, fault: Fault | None
    ) -> web.StreamResponse:
        watch = self.api.watch(request)
        if isinstance(watch, Response):
            return _written(watch)
        if fault is not None and fault.kind is FaultKind.EMPTY:
            return _written(Response(200))
        struck = StruckLines(fault) if fault and fault.kind in UNDER_WAY else None
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        answer.enable_chunked_encoding()
        await answer.prepare(http)
        waker = asyncio.Event()
        wakers = self._wakers[watch.served.resource]
        wakers.add(waker)
        try:
            await self._pump(answer, watch, waker, struck)
        except (ConnectionError, TimeoutError):
            raise BrokenError from None
        finally:
            wakers.discard(waker)
        if struck is not None and struck.has_struck and struck.kind is not FaultKind.GONE_EVENT:
            if struck.kind is FaultKind.STALL:
                await self._silence(http)
            raise BrokenError
        return answer

    async def _pump(
        self,
        answer: web.StreamResponse,
        watch: Watch,
        waker: asyncio.Event,
        struck: StruckLines | None,
    ) -> None:
        while True:
            waker.clear()
            chunk = watch.take(self.now_ns)
            if struck is not None:
                chunk = struck.feed(chunk)
            if chunk:
                async with asyncio.timeout(WRITE_SECONDS):
                    await answer.write(chunk)
            if struck is not None and struck.has_struck:
                return
            if chunk:
                continue
            if watch.is_over or self.is_ending or not self.api.is_served(watch.served):
                return
            await _wait(waker, max(0.0, (watch.next_ns - self.now_ns) / SECOND))

    async def _silence(self, http: web.Request) -> None:
        """Send a watch until the client disconnects."""
        waker = asyncio.Event()
        self._wakers[""].add(waker)
        try:
            async with asyncio.timeout(self.stall_seconds):
                while not self.is_ending and http.transport is not None:
                    waker.clear()
                    await _wait(waker, LONGEST_TICK_SECONDS)
        except TimeoutError:
            pass
        finally:
            self._wakers[""].discard(waker)
        raise BrokenError

    def _fault(self, index: int, address: Address | None) -> Fault | None:
        if address is None:
            return self.faults.pick(FaultContext(index, "get", ""))
        return self.faults.pick(FaultContext(index, address.verb, address.plural, address.part))

    def _record(
        self,
        index: int,
        address: Address | None,
        request: Request,
        came: tuple[int, Fault | None],
    ) -> None:
        status, fault = came
        target = address or Address("", "", request.path, "", "", "", "get")
        self.journal.note(
            Entry(
                index=index,
                at_seconds=self.now_ns / SECOND,
                verb=target.verb,
                resource=target.plural + (f"/{target.part}" if target.part else ""),
                namespace=target.namespace,
                name=target.name,
                status=status,
                fault=fault.kind.value if fault is not None else "",
            )
        )

    def _tick(self) -> None:
        """Run due events, and schedule the next run."""
        if self._timer is not None:
            self._timer.cancel()
        self._is_stirred = False
        if self.is_ending:
            return
        self.api.advance(self.now_ns)
        wait = LONGEST_TICK_SECONDS
        if (due := self.api.next_event_ns) is not None:
            wait = min(wait, max(0.0, (due - self.now_ns) / SECOND))
        self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _note(self, resource: str) -> None:
        if not self._is_stirred and self._timer is not None:
            # A change may have made something due earlier.
            self._is_stirred = True
            asyncio.get_running_loop().call_soon(self._tick)
        for waker in self._wakers[resource]:
            waker.set()


async def read_request(http: web.Request) -> Request:
    """Convert an aiohttp request for the API."""
    body = await http.read() if http.can_read_body else b""
    scheme, _, token = http.headers.get("Authorization", "").partition(" ")
    return Request(
        method=http.method,
        path=http.path,
        query=dict(http.query),
        body=body,
        content_type=http.content_type if body else JSON,
        token=token.strip() if scheme == "Bearer" else "",
        user_agent=http.headers.get("User-Agent", ""),
        accept=",".join(http.headers.getall("Accept", [JSON])),
    )


def _qualified(address: Address) -> str:
    return f"{address.plural}.{address.group}" if address.group else address.plural


def _written(response: Response) -> web.Response:
    headers = {"Content-Type": response.content_type, **response.headers}
    return web.Response(status=response.status, body=response.body, headers=headers)


async def _half(http: web.Request, response: Response) -> None:
    """Send the first half of a body whose full length was announced."""
    answer = web.StreamResponse(status=response.status, headers={"Content-Type": JSON})
    answer.content_length = max(2, len(response.body))
    await answer.prepare(http)
    await answer.write(response.body[: len(response.body) // 2])


def _break_off(http: web.Request) -> None:
    """Close the connection, whatever the client waits for."""
    if http.transport is not None:
        http.transport.abort()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
