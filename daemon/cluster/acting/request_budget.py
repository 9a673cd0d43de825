"""The requests for one effect, bounded in number and in time.

An effect may need several requests: the server is overloaded, or an answer was lost. Each pause is longer than the one
before, with jitter, honours `Retry-After` (K12.2), and ends with the time of the effect. Without time or requests left
the outcome is unknown; the effect is then requested again later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from daemon.cluster.client.availability import RECOVERING_PAUSE_SECONDS
from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import ApiError, RecoveringError
from events.errors import ClusterError

EFFECT_SECONDS: Final = 25.0
"""The longest duration of an effect; less than the deadline of its caller."""

REQUEST_SECONDS: Final = 10.0
"""The longest duration of one request."""

SHORTEST_REQUEST_SECONDS: Final = 1.0
"""The least timeout of the last request: an outcome is worth a second."""

PAUSES_MAX: Final = 8
"""Pauses within one effect. Between two of them a binding or an eviction makes at most two requests."""

REQUESTS_MAX: Final = 2 * (PAUSES_MAX + 1)
"""The most requests of a binding or an eviction."""

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 8.0

NO_QUERY: Final[Mapping[str, str]] = {}

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class Requester(Protocol):
    """The client as needed here. Errors are those of `daemon/cluster/client/errors.py`."""

    async def request(  # as the client has it; all but the call are named
        self,
        call: Call,
        *,
        name: str = "",
        namespace: str = "",
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = JSON,
        deadline_seconds: float = 30.0,
        tries: int = 1,
    ) -> bytes:
        """Make a request, and return the body of its answer."""


class Pacing(Struct, frozen=True):
    """How effects wait."""

    jitter: Callable[[], float]
    """From 0 to less than 1."""
    elapsed_seconds: Callable[[], float]
    """Monotonic time in seconds."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    """Returns whether it ended early because the server is available again."""
    effect_seconds: float = EFFECT_SECONDS


class RequestBudget:
    """The requests of one effect on one object."""

    def __init__(self, client: Requester, pacing: Pacing, name: str, namespace: str = "") -> None:
        self._client = client
        self._pacing = pacing
        self._name = name
        self._namespace = namespace
        self._until = pacing.elapsed_seconds() + pacing.effect_seconds
        self._pauses = 0
        self.attempts = 0
        """Requests made so far."""

    async def request(
        self,
        call: Call,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Make one request about the object. Errors of the server are raised."""
        self.attempts += 1
        left = self._until - self._pacing.elapsed_seconds()
        return await self._client.request(
            call,
            # An object that is created is named in its document.
            name="" if call.verb == "create" and not call.subresource else self._name,
            namespace=self._namespace,
            body=body,
            content_type=content_type,
            deadline_seconds=max(SHORTEST_REQUEST_SECONDS, min(REQUEST_SECONDS, left)),
        )

    async def pause(self, error: ClusterError) -> bool:
        """Wait before another request; return whether time and requests are left for one.

        If the server asks for a longer pause than the time left, the time left is waited all the same: an effect
        that gives up at once would be requested again at once.
        """
        self._pauses += 1
        wait = _pause_seconds(self._pauses, self._pacing.jitter(), error)
        left = self._until - self._pacing.elapsed_seconds()
        if await self._pacing.sleep(max(0.0, min(wait, left))) is True:
            self._pauses = 0
            return self._until > self._pacing.elapsed_seconds()
        return wait < left and self._pauses <= PAUSES_MAX


def _pause_seconds(pauses: int, jitter: float, error: ClusterError) -> float:
    """Full jitter below a doubling bound, after the pause that the server asked for."""
    asked = error.retry_after_seconds if isinstance(error, ApiError) else None
    bound = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (pauses - 1))
    if isinstance(error, RecoveringError):
        bound = min(bound, RECOVERING_PAUSE_SECONDS)
    return max(0.0, asked or 0.0) + jitter * bound
