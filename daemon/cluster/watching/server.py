"""What reflectors need of a client, and how they read its errors."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct

from daemon.cluster.client.calls import LIST, REQUIRED, WATCH, Call, Resource
from daemon.cluster.client.errors import (
    ApiError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    StalledError,
    UnansweredError,
    UnauthorizedError,
    UnreachableError,
)
from events.errors import ClusterError


class Server(Protocol):
    """The client, as far as it is used here."""

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float
    ) -> bytes:
        """The body of a good answer."""

    async def get(self, path: str) -> bytes:
        """The body of a good answer about the server itself."""

    def watch(
        self, call: Call, query: Mapping[str, str], stall_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks of a watch, as they come."""


class Watched(Struct, frozen=True):
    """A kind that is listed and watched."""

    resource: Resource
    list: Call
    watch: Call
    is_required: bool = False
    """Whether every cluster serves it (DESIGN 6 names three)."""

    @property
    def name(self) -> str:
        """What records call it."""
        return self.resource.name


def watched(resource: Resource) -> Watched:
    """A resource with the calls for it."""
    return Watched(resource, LIST[resource.name], WATCH[resource.name], resource in REQUIRED)


class BehindError(ClusterError):
    """The server is at an earlier revision than the one that was handed over: its data was set back."""


class End(Struct, frozen=True):
    """Why a watch ended, a list failed, or neither could be begun."""

    cause: str
    """As `Closed.cause`; `absent` where the kind may not be served."""
    message: str = ""
    has_gap: bool = False
    retry_after_seconds: float | None = None


ENDED: Final = End("ended")


def end_of(error: ClusterError) -> End:
    """What an error means for a watch."""
    match error:
        case ExpiredError() | BehindError():
            return End("expired", str(error), has_gap=True)
        case UnauthorizedError():
            return End("unauthorized", str(error))
        case ForbiddenError():
            return End("forbidden", f"forbidden: {error.what}")
        case NotFoundError():
            return End("absent", str(error))
        case ApiError():
            return End("failed", str(error), retry_after_seconds=error.retry_after_seconds)
        case StalledError():
            return End("stalled", str(error))
        case UnreachableError() | UnansweredError():
            return End("cut", str(error))
        case _:
            return End("failed", str(error))
