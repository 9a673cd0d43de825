"""Health of the API server: `/livez`, `/readyz` and the older `/healthz`, readable without a token."""

from collections.abc import Mapping
from typing import Final

from simulator.api_server.http_message import NO_SUCH_PATH, Request, Response
from simulator.api_server.status_errors import not_allowed

_CHECKS: Final[Mapping[str, tuple[str, ...]]] = {
    "livez": ("ping", "log"),
    "readyz": ("ping", "log", "shutdown"),
    "healthz": ("ping", "log"),
}


def health_response(request: Request) -> Response | None:
    """Answer a path of health, all checks or one of them; None for any other path.

    A server that answers is healthy: it has no etcd and no informers that could not be.
    """
    endpoint, *rest = request.path.strip("/").split("/")
    checks = _CHECKS.get(endpoint)
    if checks is None:
        return None
    if request.method not in ("GET", "HEAD"):
        return not_allowed().response
    if rest:
        return _text("ok") if rest in [[one] for one in checks] else NO_SUCH_PATH
    if "verbose" not in request.query:
        return _text("ok")
    lines = [f"[+]{one} ok" for one in checks]
    return _text("\n".join([*lines, f"{endpoint} check passed", ""]))


def _text(text: str) -> Response:
    return Response(200, text.encode(), "text/plain; charset=utf-8")
