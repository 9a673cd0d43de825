"""The Host header: only names that are ours are answered, against DNS rebinding.

A web page that a person in the cluster's network opens may have its own name resolve to this daemon's
address, and then read what is answered on loopback without a token. Its requests carry that name. Kubelets
and Prometheus ask by address; a number is always allowed, as no other page can be served under it.
"""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

LOCAL: Final = "localhost"
MISDIRECTED: Final = 421


def checks_host(allowed: Iterable[str], refused: Callable[[str, str], None]) -> Middleware:
    """Answers 421 to a request for a name that is neither an address, `localhost`, nor allowed.

    A request of HTTP/1.0 may have no Host, and then names nothing.
    """
    names = {LOCAL, *(name.lower().rstrip(".") for name in allowed)}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        name = host_name(host)
        if not host or is_address(name) or name in names:
            return await handler(request)
        refused("host", request.remote or "")
        return web.Response(
            status=MISDIRECTED,
            text="this host name is not in `allowed_hosts` of the settings\n",
        )

    return check


def host_name(host: str) -> str:
    """The name in a Host header, without port, brackets and a dot at the end, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def is_address(name: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
