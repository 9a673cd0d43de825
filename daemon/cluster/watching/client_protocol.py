"""What reflectors need of a client, and how they read its errors."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct

from daemon.cluster.client.calls import LIST, REQUIRED, WATCH, Call
from daemon.cluster.client.errors import (
    ApiError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    RecoveringError,
    StalledError,
    UnansweredError,
    UnauthorizedError,
    UnreachableError,
)
from events.errors import ClusterError
from events.watch import WENT_BACK
from projections.api_resource import Resource


class ApiClient(Protocol):
    """The client of the API server, as far as watches use it."""

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float, namespace: str = ""
    ) -> bytes:
        """Return the body of a successful response. A list may be limited to one namespace."""

    async def get(self, path: str) -> bytes:
        """Return the body of a successful response about the server itself."""

    def watch(
        self, call: Call, query: Mapping[str, str], stall_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch and yield its chunks as they arrive."""

    async def pause(self, seconds: float) -> bool:
        """Wait. Return True, before the time is over, if the server was unavailable and is available again."""


class WatchedKind(Struct, frozen=True):
    """A resource that is listed and watched, with its calls."""

    resource: Resource
    list: Call
    watch: Call
    query: Mapping[str, str] = {}
    """Selectors of the list and the watch."""
    is_required: bool = False
    """Whether every cluster serves it; the definition of a custom resource need not be installed."""

    @property
    def name(self) -> str:
        """Return the kind as records name it."""
        return self.resource.name


def watched_kind(resource: Resource) -> WatchedKind:
    """Return a resource with its calls."""
    selection = resource.selection
    return WatchedKind(
        resource,
        LIST[resource.name],
        WATCH[resource.name],
        {} if selection is None else selection.query,
        resource in REQUIRED,
    )


class RevisionWentBackError(ClusterError):
    """The server does not have the history that was handed over: its data was restored from an older copy."""


class ExpiredHistoryError(ClusterError):
    """The server has forgotten what would tell whether its history is the one that was handed over."""


class End(Struct, frozen=True):
    """Why a watch ended, a list failed, or neither could be begun."""

    cause: str
    """As `Closed.cause`; `absent` where the kind may not be served."""
    message: str = ""
    has_gap: bool = False
    retry_after_seconds: float | None = None
    is_recovering: bool = False
    """Whether the server has just come back, and needs a few seconds."""


ENDED: Final = End("ended")


def end_of(error: ClusterError) -> End:
    """What an error means for a watch."""
    match error:
        case ExpiredError() | ExpiredHistoryError():
            return End("expired", str(error), has_gap=True)
        case RevisionWentBackError():
            return End(WENT_BACK, str(error), has_gap=True)
        case RecoveringError():
            return End("failed", str(error), is_recovering=True)
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
