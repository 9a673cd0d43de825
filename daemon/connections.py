"""Bounds on the connections of an HTTP server: how many, how many per peer, and how long each may take.

The server behind it parses HTTP; this accepts the connections, so that one counts from the moment it is
accepted, before its TLS handshake, and one too many is closed before anything is made for it. At each moment a connection is in its handshake, waits for a whole
request head, or is being answered, and each of these ends by a deadline. Where all places are taken, the connection that has
waited longest (of the peer that has most of them) makes room for the new one: a probe, which sends its request at once, is
always answered.
"""

import asyncio
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import clear_frames
from typing import Final

import structlog
from msgspec import Struct

from daemon.log_rate_limit import LogRateLimit

CONNECTIONS_MAX: Final = 128
"""Connections open at a time. Kubelet, Prometheus and a few people need less than ten."""

PER_PEER_MAX: Final = 32
"""Of these from one address; behind a proxy or NAT many clients share one."""

HANDSHAKE_SECONDS: Final = 5.0
"""Seconds from the connection to the end of its TLS handshake, and again for the end of TLS when it is closed."""

HANDSHAKES_PER_SECOND: Final = 50
"""TLS handshakes that are begun in a second: one takes about a millisecond of the event loop, which also runs the scheduler."""

HEAD_SECONDS: Final = 10.0
"""Seconds from the connection, or the end of its TLS handshake, to the end of the first request's head."""

IDLE_SECONDS: Final = 75.0
"""Seconds from one answer to the end of the next request's head: longer than a scrape interval."""

ANSWER_SECONDS: Final = 30.0
"""Seconds from the head of a request until it has been answered."""

REQUEST_SECONDS: Final = 0.05
"""Shortest time between two requests of one connection; one that comes earlier waits. Heads that are sent in a row without waiting
for answers would otherwise be answered in a row, and everything else in this process would wait."""

BACKLOG: Final = 1024
"""Connections that the kernel holds until they are accepted. A probe behind fewer that come at once need not try again."""

ACCEPTED_AT_ONCE: Final = 16
"""Connections that are accepted in one turn of the event loop. From the accept to its answer a request takes some four turns: much fewer
must come in these than there are places, or it would have to make room before it was read."""

ACCEPT_RETRY_SECONDS: Final = 0.1
"""Pause after the kernel could not accept a connection, as for want of a descriptor."""

RESERVED_DESCRIPTORS: Final = 256
"""File descriptors kept free for the log, the API client and connections that are being closed."""

DESCRIPTORS_WANTED: Final = 4096
"""The soft limit on descriptors is raised to this where the hard one allows it."""

CONNECTIONS_MIN: Final = 8
"""At least so many connections, however few descriptors there are."""

_SECOND_NS: Final = 1_000_000_000

logger: Final = structlog.get_logger("muster")


class Bounds(Struct, frozen=True):
    """How many connections a server holds, and seconds that each phase may take."""

    connections: int = CONNECTIONS_MAX
    per_peer: int = PER_PEER_MAX
    handshake_seconds: float = HANDSHAKE_SECONDS
    handshakes_per_second: int = HANDSHAKES_PER_SECOND
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
    """The open connections of one listener."""

    def __init__(
        self,
        bounds: Bounds,
        elapsed_ns: Callable[[], int],
        observe: Callable[[str], None] | None = None,
    ) -> None:
        self._bounds = bounds
        self._observe = observe
        self._elapsed_ns = elapsed_ns
        self._sparsely = LogRateLimit(elapsed_ns)
        self._handshakes = (0, 0)
        """A second, and the TLS handshakes that began in it."""
        self._open: dict[_Connection, None] = {}
        """In the order in which each began to wait: the oldest first."""
        self._per_peer: Counter[str] = Counter()
        self._sockets: list[socket.socket] = []
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        """Listener to the end of its pause after the kernel could not accept a connection."""

    @property
    def count(self) -> int:
        """Connections open now."""
        return len(self._open)

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
    ) -> int:
        """Accept connections on every address of a host, until `close`; return the port.

        `factory` makes the server's protocol of a connection, after its TLS handshake if there is one. Raises OSError.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((one[0], one[4]) for one in found):
                place = (address[0], port, *address[2:])
                listener = socket.create_server(place, family=family, backlog=BACKLOG)
                listener.setblocking(False)
                self._sockets.append(listener)
                port = int(listener.getsockname()[1])
        except OSError:
            self.close()
            raise
        for listener in self._sockets:
            self._accept_from(listener, factory, tls)
        return port

    def stop_listening(self) -> None:
        """Accept no more connections."""
        sockets, self._sockets = self._sockets, []
        pauses, self._pauses = self._pauses, {}
        for pause in pauses.values():
            pause.cancel()
        for listener in sockets:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()

    def close(self) -> None:
        """Accept no more connections, and break off those that are open."""
        self.stop_listening()
        for connection in list(self._open):
            self.release(connection)
            connection.abort()

    async def pace(self, transport: asyncio.BaseTransport | None) -> None:
        """Wait until a connection may be answered again."""
        found = None if transport is None else transport.get_protocol()
        if isinstance(found, _Connection):
            now = asyncio.get_running_loop().time()
            at = max(found.next_at, now)
            found.next_at = at + REQUEST_SECONDS
            if at > now:
                await asyncio.sleep(at - now)

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """A request on this connection has come in whole, and is answered while the block lasts."""
        found = None if transport is None else transport.get_protocol()
        if not isinstance(found, _Connection) or found not in self._open:
            yield
            return
        found.begin(self._bounds.answer_seconds, "answer", is_waiting=False)
        try:
            yield
        finally:
            if found in self._open:
                del self._open[found]
                self._open[found] = None
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

    def secured(self, connection: "_Connection") -> None:
        """The TLS handshake of a connection has ended."""
        connection.begin(self._bounds.head_seconds, "head", is_waiting=True)

    def release(self, connection: "_Connection") -> None:
        """The connection takes no place any more."""
        if connection in self._open:
            del self._open[connection]
            self._per_peer[connection.peer] -= 1
            if not self._per_peer[connection.peer]:
                del self._per_peer[connection.peer]

    def _accept_from(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._pauses.pop(listener, None)
        loop = asyncio.get_running_loop()
        # Not in a task: one that is cancelled in `sock_accept` can lose the socket that was just accepted.
        loop.add_reader(listener, self._accept, listener, factory, tls)

    def _accept(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Accept connections that wait; of more than may be in one turn the event loop reports the rest in the next."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # Closed by its peer meanwhile.
            except OSError as error:
                logger.warning("no connection can be accepted", error=str(error))
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                self._pauses[listener] = loop.call_later(
                    ACCEPT_RETRY_SECONDS, self._accept_from, listener, factory, tls
                )
                return
            accepted.setblocking(False)
            peer = str(address[0])
            if self._admits(peer, is_tls=tls is not None):
                connection = _Connection(peer, factory, self)
                self._open[connection] = None
                self._per_peer[peer] += 1
                self._begin(connection, accepted, tls)
            else:
                accepted.close()

    def _begin(
        self, connection: "_Connection", accepted: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        bounds = self._bounds
        if tls is None:
            connection.begin(bounds.head_seconds, "head", is_waiting=True)
            connection.open(accepted)
        else:
            connection.begin(bounds.handshake_seconds, "handshake", is_waiting=True)
            connection.open(accepted, tls, bounds.handshake_seconds)

    def _admits(self, peer: str, *, is_tls: bool) -> bool:
        """Return True if there is a place for a connection, be it another's that only waits."""
        bounds = self._bounds
        if is_tls and not self._begins_handshake():
            self.refused("handshakes", peer)
            return False
        if self._per_peer[peer] >= bounds.per_peer and not self._displace(peer, "peer"):
            self.refused("peer", peer)
            return False
        if len(self._open) >= bounds.connections and not self._displace(None, "connections"):
            self.refused("connections", peer)
            return False
        return True

    def _begins_handshake(self) -> bool:
        """Count a handshake; return False if there were as many in this second as may be."""
        now = self._elapsed_ns() // _SECOND_NS
        second, count = self._handshakes
        count = count + 1 if second == now else 1
        self._handshakes = (now, count)
        return count <= self._bounds.handshakes_per_second

    def _displace(self, peer: str | None, reason: str) -> bool:
        """Close the connection that has waited longest, of this peer or of the one that has most."""
        waiting = [one for one in self._open if one.is_waiting]
        if peer is None and waiting:
            # Of peers with as many, the one that comes first here: its connection has waited longest.
            held = Counter(one.peer for one in waiting)
            peer = max(held, key=lambda name: held[name])
        oldest = next((one for one in waiting if one.peer == peer), None)
        if oldest is None:
            return False
        oldest.close(reason)
        return True


class _Connection(asyncio.Protocol):
    """One connection: counted, timed, and otherwise the server's."""

    def __init__(
        self, peer: str, factory: Callable[[], asyncio.Protocol], connections: Connections
    ) -> None:
        self.peer = peer
        self.is_waiting = True
        """Whether it waits for its handshake or for the head of a request."""
        self.next_at = 0.0
        """When its next request may be answered, in the time of the event loop."""
        self._factory = factory
        self._connections = connections
        self._opening: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._inner: asyncio.Protocol | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(
        self, accepted: socket.socket, tls: ssl.SSLContext | None = None, seconds: float = 0.0
    ) -> None:
        """Make a transport of an accepted socket, with a TLS handshake of so many seconds if there is `tls`."""
        opening = self._open(accepted, tls, seconds)
        self._opening = asyncio.get_running_loop().create_task(opening, name="connection")
        self._opening.add_done_callback(lambda _: self._opened(accepted))

    def _opened(self, accepted: socket.socket) -> None:
        self._opening = None
        if self._transport is None:
            accepted.close()
            self._end()

    async def _open(
        self, accepted: socket.socket, tls: ssl.SSLContext | None, seconds: float
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            if tls is None:
                await loop.connect_accepted_socket(lambda: self, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: self,
                    accepted,
                    ssl=tls,
                    ssl_handshake_timeout=2 * seconds,  # The timer of the connection comes first.
                    ssl_shutdown_timeout=seconds,
                )
        except OSError as error:  # Errors of TLS are of this class, too.
            clear_frames(error.__traceback__)
        except asyncio.CancelledError as error:
            # The error and the frames of a handshake hold each other, and its buffers of half a megabyte.
            clear_frames(error.__traceback__)
            if self._transport is not None:
                self._transport.abort()  # Its handshake ended in the turn in which it was broken off.
            raise

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
        """Break the connection off, and count that."""
        self._connections.refused(reason, self.peer)
        self._connections.release(self)
        self.abort()

    def abort(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if transport.get_extra_info("sslcontext") is not None:
            self._connections.secured(self)
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
        self._end()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connections.release(self)

    def _expire(self, phase: str) -> None:
        if phase == "idle":
            # No refusal: a connection that is kept open for nothing is closed.
            self._connections.release(self)
            self.abort()
        else:
            self.close(phase)
