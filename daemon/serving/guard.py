"""Access to HTTP paths: probes and metrics are open, everything else needs a token."""

import hmac
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

OPEN: Final = frozenset({"/livez", "/healthz", "/readyz", "/metrics"})
"""What kubelets and Prometheus ask for, which bring no token; nothing there is a secret."""


def guard(token: str | None, *, is_loopback: bool) -> Middleware:
    """Answers 401 to a request without the token.

    Without a token, requests to a loopback address may see everything, and others only
    the open paths.
    """
    expected = None if token is None else f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN or (expected is None and is_loopback):
            return await handler(request)
        if expected is None:
            raise web.HTTPForbidden(text="no token is set, so this is answered on loopback only\n")
        given = request.headers.get("Authorization", "").encode()
        # Takes as long however much of it is right.
        if not hmac.compare_digest(given, expected):
            raise web.HTTPUnauthorized(
                headers={"WWW-Authenticate": "Bearer"}, text="a bearer token is needed\n"
            )
        return await handler(request)

    return check
