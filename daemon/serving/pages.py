"""What is answered: `/livez`, `/readyz`, `/metrics`; and `/healthz`, the same as `/livez`, for probes written for Volcano."""

import asyncio

import msgspec
from aiohttp import web

from daemon.health import Health
from daemon.metrics.export import CONTENT_TYPE, Metrics, text_of
from daemon.serving.guard import guard
from daemon.serving.listening import served_application

_OK = 200
_UNAVAILABLE = 503


class Probes:
    """Handlers around the health and the metrics of this process."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics

    async def livez(self, _request: web.Request) -> web.Response:
        """Whether everything that has to move does: else kill me."""
        still = self._health.still
        return _json({"live": not still, "still": still}, is_good=not still)

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether I do what I am for, and why not."""
        health = self._health
        body = {"ready": health.is_ready, "role": health.role, "reasons": health.reasons}
        if notes := health.notes:
            body["notes"] = notes
        return _json(body, is_good=health.is_ready)

    async def metrics(self, _request: web.Request) -> web.Response:
        """All figures, for Prometheus."""
        families = await self._metrics.scrape()
        # The loop goes on meanwhile.
        body = await asyncio.to_thread(text_of, families)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


def application(
    health: Health, metrics: Metrics, *, token: str | None, is_loopback: bool
) -> web.Application:
    """Everything that is served."""
    probes = Probes(health, metrics)
    app = served_application()
    app.middlewares.append(guard(token, is_loopback=is_loopback))
    app.add_routes([*_of_probes(probes), web.get("/metrics", probes.metrics)])
    return app


def probing(health: Health, metrics: Metrics) -> web.Application:
    """Probes alone, which ask for no token."""
    app = served_application()
    app.add_routes(_of_probes(Probes(health, metrics)))
    return app


def _of_probes(probes: Probes) -> list[web.RouteDef]:
    return [
        web.get("/livez", probes.livez),
        web.get("/healthz", probes.livez),
        web.get("/readyz", probes.readyz),
    ]


def _json(body: dict[str, object], *, is_good: bool) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body) + b"\n",
        status=_OK if is_good else _UNAVAILABLE,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
