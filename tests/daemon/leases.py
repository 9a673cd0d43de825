"""A lease on a server that is slow, loses what is on the way, and fails: as its plan says."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import cycle

from msgspec import Struct
from msgspec.structs import replace

from daemon.cluster.lease import Lease
from events.errors import ClusterError
from tests.daemon.processes import Universe


class Fate(Struct, frozen=True):
    """What becomes of one request."""

    there: float = 0.01
    """Seconds on its way."""
    back: float = 0.01
    """Seconds until its answer is there."""
    is_lost: bool = False
    """Whether it never arrives."""
    is_answer_lost: bool = False
    """Whether it is carried out and never answered."""
    fails: bool = False
    """Whether the answer is an error, although it may have been carried out."""


class Server:
    """What everyone agrees on: one lease, with optimistic locking, in true time."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.lease: Lease | None = None
        self.holders: list[tuple[float, str]] = []
        """When the holder changed, in true time, and the new holder."""
        self.requests: list[tuple[float, str]] = []
        """When a request was made, in true time, and which."""
        self._version = 0

    def read(self) -> Lease | None:
        return self.lease

    def create(self, lease: Lease) -> Lease:
        if self.lease is not None:
            raise ClusterError("create leases: 409 AlreadyExists")
        return self._keep(lease)

    def update(self, lease: Lease) -> Lease:
        if self.lease is None:
            raise ClusterError("update leases: 404 NotFound")
        if lease.version != self.lease.version:
            raise ClusterError("update leases: 409 Conflict")
        return self._keep(lease)

    def delete(self) -> None:
        """An operator deletes it."""
        self.lease = None
        self.holders.append((self.universe.now, "(deleted)"))

    def _keep(self, lease: Lease) -> Lease:
        before = self.lease.holder if self.lease is not None else ""
        self._version += 1
        self.lease = replace(lease, version=str(self._version))
        if lease.holder != before:
            self.holders.append((self.universe.now, lease.holder))
        return self.lease


class Wire:
    """One process's way to the server."""

    def __init__(self, server: Server, fates: list[Fate] | None = None) -> None:
        self.is_cut = False
        """Whether nothing gets through any more."""
        self._server = server
        self._fates: Iterator[Fate] = cycle(fates or [Fate()])

    async def read(self) -> Lease | None:
        return await self._ask("read", self._server.read)

    async def create(self, lease: Lease) -> Lease:
        made = await self._ask("create", lambda: self._server.create(lease))
        assert made is not None
        return made

    async def update(self, lease: Lease) -> Lease:
        made = await self._ask("update", lambda: self._server.update(lease))
        assert made is not None
        return made

    async def _ask(self, what: str, carry_out: Callable[[], Lease | None]) -> Lease | None:
        universe = self._server.universe
        answer: asyncio.Future[Lease | None] = asyncio.get_running_loop().create_future()
        fate = Fate(is_lost=True) if self.is_cut else next(self._fates)
        self._server.requests.append((universe.now, what))

        def arrives() -> None:
            result, error = None, None
            try:
                result = carry_out()
            except ClusterError as caught:
                error = caught
            if fate.fails:
                error = ClusterError("500")
            if not fate.is_answer_lost:
                universe.at(universe.now + fate.back, lambda: answered(result, error))

        def answered(result: Lease | None, error: ClusterError | None) -> None:
            if answer.done() or answer.get_loop().is_closed():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        if not fate.is_lost:
            universe.at(universe.now + fate.there, arrives)
        return await answer
