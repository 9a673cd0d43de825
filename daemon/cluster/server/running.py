"""A server on a port: started, taken down and brought back, with a kubeconfig that leads to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from daemon.clock import WallClock
from daemon.cluster.server.shell import BODY_MAX, Clock, Shell
from events.errors import ClusterError
from replay.world.api.access import Access
from replay.world.api.faults import Faults
from replay.world.api.front import Api, Behaviour
from replay.world.scenario import Scenario

LOOPBACK: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 2.0


class Listening(Struct, frozen=True, kw_only=True):
    """Where and how a server listens."""

    host: str = LOOPBACK
    port: int = 0
    """0: any that is free."""
    tls: ssl.SSLContext | None = None


class LoopClock:
    """The time of the event loop, so that a loop in which time flies has a server that keeps up."""

    def elapsed_ns(self) -> int:
        """Time that only ever goes forward."""
        return int(asyncio.get_running_loop().time() * 1_000_000_000)


class Server:
    """A simulated cluster behind HTTP."""

    def __init__(self, shell: Shell, listening: Listening) -> None:
        self.shell = shell
        self._listening = listening
        self._runner: web.AppRunner | None = None
        self.port = listening.port

    @property
    def api(self) -> Api:
        """What it answers with."""
        return self.shell.api

    @property
    def access(self) -> Access:
        """Its tokens and what is denied."""
        return self.shell.api.access

    @property
    def url(self) -> str:
        """Where it is."""
        scheme = "https" if self._listening.tls is not None else "http"
        return f"{scheme}://{self._listening.host}:{self.port}"

    async def go_up(self) -> None:
        """Listen; again on the same port, if it did before."""
        application = web.Application(client_max_size=BODY_MAX)
        application.router.add_route("*", "/{path:.*}", self.shell.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        site = web.TCPSite(
            runner,
            self._listening.host,
            self.port,
            ssl_context=self._listening.tls,
            reuse_address=True,
        )
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            where = f"{self._listening.host}:{self.port}"
            raise ClusterError(f"cannot listen on {where}: {error.strerror}") from error
        self._runner = runner
        self.port = int(runner.addresses[0][1])

    async def go_down(self) -> None:
        """Break all connections and listen no more, as a server that is killed. Nothing is lost."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for site in list(runner.sites):
                await site.stop()
            self.shell.break_connections()
            await runner.cleanup()

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """Write a kubeconfig that leads here."""
        cluster: dict[str, object] = {"server": self.url}
        if self._listening.tls is not None:
            cluster["insecure-skip-tls-verify"] = True
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "simulated", "cluster": cluster}],
            "users": [{"name": "simulated", "user": {"token": token} if token else {}}],
            "contexts": [
                {"name": "simulated", "context": {"cluster": "simulated", "user": "simulated"}}
            ],
            "current-context": "simulated",
        }
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        return path


@asynccontextmanager
async def running_server(
    scenario: Scenario,
    *,
    behaviour: Behaviour | None = None,
    faults: Faults | None = None,
    clock: Clock | None = None,
    listening: Listening | None = None,
) -> AsyncIterator[Server]:
    """A server as long as the context is open."""
    api = Api(scenario, WallClock().now_ns(), behaviour)
    shell = Shell(api, clock or LoopClock(), faults)
    server = Server(shell, listening or Listening())
    shell.start()
    try:
        await server.go_up()
        yield server
    finally:
        shell.end()
        await server.go_down()
