"""A server that was unavailable: which waits end when it returns, and which of its refusals are final."""

import asyncio

import pytest

from daemon.cluster.client.availability import RECOVERY_SECONDS, Availability
from daemon.cluster.client.errors import (
    ApiError,
    Cause,
    ForbiddenError,
    RecoveringError,
    UnauthorizedError,
)
from tests.daemon.cluster.watching.virtual import virtual

BIND = "create pods/binding"
REFUSED = ForbiddenError(BIND, 403, "Forbidden", "no")


def test_a_pause_ends_when_the_server_is_back() -> None:
    async def story() -> None:
        server, loop = Availability(), asyncio.get_running_loop()
        server.observe(BIND, 0)
        loop.call_later(2, server.observe, BIND, 503)
        loop.call_later(3, server.observe, BIND, 403)
        began = loop.time()
        assert await server.pause(30)
        assert loop.time() - began == 3
        assert not await server.pause(30)
        assert loop.time() - began == 33

    virtual(story())


@pytest.mark.parametrize(
    ("refused", "after", "is_believed"),
    [
        (REFUSED, 1.0, False),
        (UnauthorizedError(BIND, 401), 1.0, False),
        (REFUSED, RECOVERY_SECONDS + 1, True),
        (ForbiddenError("get pods", 403), 1.0, True),
        (ForbiddenError(BIND, 403, causes=(Cause(reason="NamespaceTerminating"),)), 1.0, True),
        (ApiError(BIND, 422), 1.0, True),
    ],
)
def test_a_refusal_is_believed_of_what_was_never_allowed_and_of_a_server_that_has_settled(
    refused: ApiError, after: float, is_believed: bool
) -> None:
    async def story() -> None:
        server = Availability()
        assert server.judged(refused) is refused
        server.observe(BIND, 201)
        server.observe("get nodes", 0)
        await asyncio.sleep(after)
        judged = server.judged(refused)
        assert (judged is refused) == is_believed
        assert is_believed or (isinstance(judged, RecoveringError) and judged.what == BIND)

    virtual(story())
