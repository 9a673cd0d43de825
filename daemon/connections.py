"""Bounds on the connections of an HTTP server: how many, how many per peer, and how long each may take.

The server behind it parses HTTP; this stands between it and the transport, so that a connection counts from
the moment it is accepted. At each moment a connection either waits for a whole request head or is being
answered, and both end by a deadline. Where all places are taken, the connection that has waited longest
(of the peer that has most of them) makes room for the new one: a probe, which sends its request at once, is
always answered.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from msgspec import Struct

from daemon.log_rate_limit import LogRateLimit

CONNECTIONS_MAX: Final = 128
"""Connections open at a time. Kubelet, Prometheus and a few people need less than ten."""

PER_PEER_MAX: Final = 32
"""Of these from one address; behind a proxy or NAT many clients share one."""

HEAD_SECONDS: Final = 10.0
"""Seconds from the connection to the end of the first request's head."""

IDLE_SECONDS: Final = 75.0
"""Seconds from one answer to the end of the next request's head: longer than a scrape interval."""

ANSWER_SECONDS: Final = 30.0
"""Seconds from the head of a request until it has been answered."""

BACKLOG: Final = 64
"""Connections that the kernel accepts ahead; as many are accepted in one turn of the event loop."""

RESERVED_DESCRIPTORS: Final = 256
"""File descriptors kept free for the log, the API client and connections that are being closed."""

DESCRIPTORS_WANTED: Final = 4096
"""The soft limit on descriptors is raised to this where the hard one allows it."""

CONNECTIONS_MIN: Final = 8
"""At least so many connections, however few descriptors there are."""

logger: Final = structlog.get_logger("muster")


class Bounds(Struct, frozen=True):
    """How many connections a server holds, and seconds that each phase may take."""

    connections: int = CONNECTIONS_MAX
    per_peer: int = PER_PEER_MAX
    head_seconds: float | None = HEAD_SECONDS
    idle_seconds: float | None = IDLE_SECONDS
    answer_seconds: float | None = ANSWER_SECONDS
    """None for a phase without a bound: an answer that is a stream has no end."""


def available_bounds() -> Bounds:
    """The bounds of a daemon, within what the limit on descriptors leaves over."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Bounds()
    most = max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, soft - RESERVED_DESCRIPTORS))
    return Bounds(connections=most, per_peer=min(PER_PEER_MAX, most))


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may want. Supervisors set a low soft limit for
    programs that use `select`, which this one does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = DESCRIPTORS_WANTED if hard == unlimited else min(DESCRIPTORS_WANTED, hard)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Connections:
    """The open connections of one listening socket."""

    def __init__(
        self,
        bounds: Bounds,
        elapsed_ns: Callable[[], int],
        observe: Callable[[str], None] | None = None,
    ) -> None:
        self._bounds = bounds
        self._observe = observe
        self._sparsely = LogRateLimit(elapsed_ns)
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        """In the order in which each began to wait: the oldest first."""
        self._per_peer: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Connections open now."""
        return len(self._open)

    def guarding(
        self, factory: Callable[[], asyncio.Protocol]
    ) -> Callable[[], asyncio.BaseProtocol]:
        """A protocol factory whose connections are counted and timed."""
        return lambda: _Connection(factory, self)

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """A request on this connection has come in whole, and is answered while the block lasts."""
        found = None if transport is None else self._open.get(transport)
        if found is None:
            yield
            return
        found.begin(self._bounds.answer_seconds, "answer", is_waiting=False)
        try:
            yield
        finally:
            if found.transport in self._open:
                self._open[found.transport] = self._open.pop(found.transport)
                found.begin(self._bounds.idle_seconds, "idle", is_waiting=True)

    def refused(self, reason: str, peer: str) -> None:
        """Count a refusal, and log one of many."""
        if self._observe is not None:
            self._observe(reason)
        left_out = self._sparsely.allows(reason)
        if left_out is not None:
            logger.warning(
                "HTTP refused", reason=reason, peer=peer, left_out=left_out, open=len(self._open)
            )

    def admit(self, connection: "_Connection") -> bool:
        """Whether there is a place for a connection, be it another's that only waits."""
        peer, bounds = connection.peer, self._bounds
        if self._per_peer[peer] >= bounds.per_peer and not self._displace(peer, "peer"):
            self.refused("peer", peer)
            return False
        if len(self._open) >= bounds.connections and not self._displace(None, "connections"):
            self.refused("connections", peer)
            return False
        self._open[connection.transport] = connection
        self._per_peer[peer] += 1
        connection.begin(bounds.head_seconds, "head", is_waiting=True)
        return True

    def release(self, connection: "_Connection") -> None:
        """The connection takes no place any more."""
        if self._open.pop(connection.transport, None) is not None:
            self._per_peer[connection.peer] -= 1
            if not self._per_peer[connection.peer]:
                del self._per_peer[connection.peer]

    def _displace(self, peer: str | None, reason: str) -> bool:
        """Close the connection that has waited longest, of this peer or of the one that has most."""
        waiting = [one for one in self._open.values() if one.is_waiting]
        if peer is None and waiting:
            held = Counter(one.peer for one in waiting)
            peer = max(held, key=lambda name: (held[name], name))
        oldest = next((one for one in waiting if one.peer == peer), None)
        if oldest is None:
            return False
        oldest.close(reason)
        return True


class _Connection(asyncio.Protocol):
    """One connection: counted, timed, and otherwise the server's."""

    transport: asyncio.Transport
    peer: str

    def __init__(self, factory: Callable[[], asyncio.Protocol], connections: Connections) -> None:
        self.is_waiting = True
        """Whether it waits for the head of a request."""
        self._factory = factory
        self._connections = connections
        self._inner: asyncio.Protocol | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float | None, phase: str, *, is_waiting: bool) -> None:
        """Enter a phase that must end within its time."""
        self.is_waiting = is_waiting
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._expire, phase)

    def close(self, reason: str) -> None:
        """Break the connection off."""
        self._connections.refused(reason, self.peer)
        self._connections.release(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        if not self._connections.admit(self):
            transport.abort()
            return
        self._inner = self._factory()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connections.release(self)
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)

    def _expire(self, phase: str) -> None:
        if phase == "idle":
            # No refusal: a connection that is kept open for nothing is closed.
            self._connections.release(self)
            self.transport.abort()
        else:
            self.close(phase)
