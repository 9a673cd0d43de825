"""Someone who sits between a daemon and its API server, and does something before a binding gets there."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp
import yaml
from aiohttp import web

from tests.control_plane.api import trusted

HOP: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})
"""Headers that belong to one connection."""

FORBIDDEN: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Forbidden",
    "code": 403,
    "message": "pods is forbidden: no role allows it yet",
}

Deed: TypeAlias = Callable[[str], Awaitable[None]]
"""What to do before a binding; it is given the path of the pod."""


class Between:
    """Passes everything on. What is bound waits for `before`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self.before: Deed | None = None
        self.loses_answers = 0
        """Of so many bindings, the answer is lost after they were done (rule K8, outcome unknown)."""
        self.forbids = 0
        """So many bindings and readings of pods are refused once answers are no longer lost, as by a server that
        has just come back."""
        self.statuses: list[int] = []
        """What bindings were answered with."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Ask the server, and hand on what it says."""
        is_binding = request.path.endswith("/binding")
        if is_binding and self.before is not None:
            await self.before(request.path.removesuffix("/binding"))
        if self.forbids and not self.loses_answers and (is_binding or _reads_pod(request)):
            self.forbids -= 1
            return web.json_response(FORBIDDEN, status=403)
        headers = {key: text for key, text in request.headers.items() if key.lower() not in HOP}
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=headers,
            data=await request.read(),
        ) as asked:
            if is_binding:
                self.statuses.append(asked.status)
                if self.loses_answers:
                    self.loses_answers -= 1
                    assert request.transport is not None
                    request.transport.abort()
            return await _passed(request, asked)


def _reads_pod(request: web.Request) -> bool:
    return request.method == "GET" and "/namespaces/" in request.path and "/pods/" in request.path


async def _passed(request: web.Request, asked: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = {key: text for key, text in asked.headers.items() if key.lower() not in HOP}
    answer = web.StreamResponse(status=asked.status, headers=kept)
    await answer.prepare(request)
    async for chunk in asked.content.iter_any():
        await answer.write(chunk)
    return answer


@asynccontextmanager
async def between(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[Between, Path]]:
    """Someone between, and the kubeconfig that leads there."""
    url, context = trusted(kubeconfig)
    connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
    limits = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=limits, auto_decompress=False
    ) as session:
        one = Between(url, session)
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", one.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            here = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield one, _leading(kubeconfig, here, folder / "between.yaml")
        finally:
            await runner.cleanup()
    await asyncio.sleep(0.02)  # A cut TLS connection is gone some turns of the loop later.


def _leading(kubeconfig: Path, url: str, path: Path) -> Path:
    """The same kubeconfig, leading somewhere else."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for cluster in config["clusters"]:
        cluster["cluster"] = {"server": url}
    path.write_text(json.dumps(config))
    return path
