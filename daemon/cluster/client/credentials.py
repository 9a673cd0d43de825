"""Client credentials and trusted CAs, renewed while the process runs (rules K15.1, K15.2)."""

import asyncio
import ssl
from pathlib import Path
from typing import Final, Protocol

import structlog
from msgspec import Struct

from events.errors import MusterError

RENEW_SECONDS: Final = 60.0
"""Files are looked at again after so long, and on any 401."""

logger: Final = structlog.get_logger("muster")


class Access(Struct, frozen=True):
    """What was said about how to reach the API server."""

    kubeconfig: Path | None = None
    """A kubeconfig file; None for what the environment says, in a cluster the cluster's own."""
    context: str | None = None
    """A context of it; None for its current one."""


class Identity(Struct, frozen=True, eq=False):
    """All that one request needs to reach the server and to be let in. Equal only to itself."""

    server: str
    """`https://host:port`, perhaps with a path, without a slash at its end."""
    authorization: str = ""
    """The header's value; empty with a client certificate or without credentials."""
    tls: ssl.SSLContext | None = None
    """None only for plain HTTP."""
    server_name: str | None = None
    """The name the certificate must be for, where it is not the host's."""
    proxy: str | None = None
    namespace: str = "default"


class Reading(Struct, frozen=True):
    """What a context of a kubeconfig said."""

    identity: Identity
    files: tuple[Path, ...] = ()
    """Files it named, beside the kubeconfig itself."""
    expires_ns: int | None = None
    """When a plug-in's credentials expire; None for never."""
    has_plugin_certificate: bool = False


class Source(Protocol):
    """Where credentials come from."""

    async def load(self, known: Identity | None, *, is_refused: bool) -> Identity:
        """The present identity; `known` itself where nothing has changed.

        With `is_refused` the server did not accept it, and nothing kept from before may be used.
        """
        ...


class Credentials:
    """The present identity. The first request after it expired renews it."""

    def __init__(self, source: Source, first: Identity) -> None:
        self._source = source
        self._identity = first
        self._renewed_at = asyncio.get_running_loop().time()
        self._entry = asyncio.Lock()
        self._trouble = ""

    @classmethod
    async def load(cls, source: Source) -> "Credentials":
        """The first time: what is wrong with them is an error, not a warning."""
        return cls(source, await source.load(None, is_refused=False))

    @property
    def identity(self) -> Identity:
        """The present one, however old."""
        return self._identity

    def is_due(self, now: float) -> bool:
        """Whether the present one is older than `RENEW_SECONDS`, in the event loop's time."""
        return now - self._renewed_at >= RENEW_SECONDS

    async def current(self) -> Identity:
        """The present one, not older than `RENEW_SECONDS`."""
        now = asyncio.get_running_loop().time()
        if self.is_due(now):
            # Others go on with what there is; the server will say if it is too old.
            self._renewed_at = now
            async with self._entry:
                await self._renew(is_refused=False)
        return self._identity

    async def refused(self, used: Identity) -> Identity:
        """The server did not accept this one: the one after it, or itself if there is no other."""
        async with self._entry:
            if self._identity is used:
                await self._renew(is_refused=True)
        return self._identity

    async def _renew(self, *, is_refused: bool) -> None:
        """Where that fails, what is known stays in use: the files may just be being replaced."""
        self._renewed_at = asyncio.get_running_loop().time()
        try:
            self._identity = await self._source.load(self._identity, is_refused=is_refused)
            self._trouble = ""
        except MusterError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("credentials cannot be renewed", error=self._trouble)
