"""Whether the API server answers, for everything that waits for its return, and how far a refusal is believed.

A server that was away is noticed by requests without an answer and by answers of 5xx. Its first answer of
another kind ends every wait that began meanwhile: back-off keeps a server that is down from being asked too
often, and has no purpose once it is up. A server that has just come back answers 401 and 403 until it has read
its roles, so for a while these are no refusals of what it allowed before.
"""

import asyncio
from typing import Final

from daemon.cluster.client.errors import (
    ApiError,
    ForbiddenError,
    RecoveringError,
    UnauthorizedError,
)

RECOVERY_SECONDS: Final = 30.0
"""Seconds after the last failure within which a refusal of an allowed call is taken for a start-up's."""

RECOVERING_PAUSE_SECONDS: Final = 1.0
"""The longest pause before a server that has just come back is asked again: it needs a few seconds."""

NO_ANSWER: Final = 0
"""The status of a request without an answer."""

SERVER_ERROR: Final = 500

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The cause of a 403 that is about the namespace, not about the identity of the client."""


class Availability:
    """What one client knows of its server. Times are those of the running event loop."""

    def __init__(self) -> None:
        self._failed_at = float("-inf")
        self._back: asyncio.Event | None = None
        """Set when the server is back; None while it is not away."""
        self._allowed: set[str] = set()
        """Calls that the server has allowed; there are as many as `CALLS` has."""

    def observe(self, what: str, status: int) -> None:
        """A request was answered with this status, or not at all."""
        if status == NO_ANSWER or status >= SERVER_ERROR:
            self._failed_at = asyncio.get_running_loop().time()
            self._back = self._back or asyncio.Event()
            return
        if status < 300:
            self._allowed.add(what)
        if self._back is not None:
            self._back.set()
            self._back = None

    async def pause(self, seconds: float) -> bool:
        """Wait so long; shorter, and true, where the server was away and comes back meanwhile."""
        if (back := self._back) is None:
            await asyncio.sleep(seconds)
            return False
        try:
            async with asyncio.timeout(seconds):
                await back.wait()
        except TimeoutError:
            return False
        return True

    def judged(self, error: ApiError) -> ApiError:
        """The same error; `RecoveringError` for a refusal that is not to be believed yet."""
        if not isinstance(error, ForbiddenError | UnauthorizedError):
            return error
        is_recent = asyncio.get_running_loop().time() - self._failed_at < RECOVERY_SECONDS
        if not is_recent or error.what not in self._allowed:
            return error
        if error.has_cause(NAMESPACE_TERMINATING):
            return error
        return RecoveringError(
            error.what,
            error.status,
            error.reason,
            error.message,
            error.causes,
            error.retry_after_seconds,
        )
