"""The simulated API server on a port: start, stop, restart, and a kubeconfig for it."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from daemon.clock import WallClock
from daemon.cluster.server.http_server import BODY_MAX, Clock, Shell
from daemon.connections import Bounds, Connections
from daemon.private_files import write_whole
from events.errors import ClusterError, UsageError
from simulator.api_server.access_control import AccessControl
from simulator.api_server.api import Api, Behaviour
from simulator.api_server.faults import Faults
from simulator.object_store import Snapshot
from simulator.scenario import Scenario

LOOPBACK: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 2.0
KUBECONFIG_BYTES_MAX: Final = 65_536
"""The most bytes of a kubeconfig that are read before it is replaced; ours has some 500."""

BOUNDS: Final = Bounds(
    connections=1024,
    per_peer=1024,
    handshakes_per_second=1024,
    head_seconds=None,
    idle_seconds=None,
    answer_seconds=None,
)
"""Only numbers are limited: clients are local, watches have no end, and tests may accelerate time."""


class Listening(Struct, frozen=True, kw_only=True):
    """Where and how a server listens."""

    host: str = LOOPBACK
    port: int = 0
    """0: any free port."""
    tls: ssl.SSLContext | None = None


class LoopClock:
    """The event loop's time, so that a loop with accelerated time has a server that keeps up."""

    def elapsed_ns(self) -> int:
        """Monotonic time."""
        return int(asyncio.get_running_loop().time() * 1_000_000_000)


class Server:
    """A simulated cluster behind HTTP."""

    def __init__(self, shell: Shell, listening: Listening) -> None:
        self.shell = shell
        self._listening = listening
        self._runner: web.AppRunner | None = None
        self._connections: Connections | None = None
        self.port = listening.port

    @property
    def api(self) -> Api:
        """The API that answers."""
        return self.shell.api

    @property
    def access(self) -> AccessControl:
        """Its tokens and rules."""
        return self.shell.api.access

    @property
    def url(self) -> str:
        """The URL of the server."""
        scheme = "https" if self._listening.tls is not None else "http"
        return f"{scheme}://{self._listening.host}:{self.port}"

    async def go_up(self) -> None:
        """Listen; after a stop, on the same port."""
        application = web.Application(client_max_size=BODY_MAX)
        application.router.add_route("*", "/{path:.*}", self.shell.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        assert runner.server is not None
        connections = Connections(BOUNDS, WallClock().elapsed_ns)
        try:
            port = await connections.listen(
                self._listening.host, self.port, runner.server, self._listening.tls
            )
        except OSError as error:
            await runner.cleanup()
            where = f"{self._listening.host}:{self.port}"
            raise ClusterError(f"cannot listen on {where}: {error.strerror}") from error
        self._runner, self._connections, self.port = runner, connections, port

    async def go_down(self) -> None:
        """Break all connections and stop listening, like a server that is killed. No data is lost."""
        runner, self._runner = self._runner, None
        if runner is not None:
            assert self._connections is not None
            self._connections.stop_listening()
            self.shell.break_connections()
            await runner.cleanup()
            self._connections.close()

    def restore(self, kept: Snapshot) -> None:
        """Restore a snapshot, and restart: every connection breaks."""
        self.api.restore(kept)
        self.shell.break_connections()

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """Write a kubeconfig for this server; only one of a simulated cluster is replaced."""
        if os.path.lexists(path) and not _is_simulated(path):
            raise UsageError(f"{path} is there already, and no simulated cluster wrote it")
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
        write_whole(path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        return path


class _Kubeconfig(Struct, rename={"current_context": "current-context"}):
    current_context: str


def _is_simulated(path: Path) -> bool:
    """Return True if a kubeconfig is one of a simulated cluster, or empty."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            content = file.read(KUBECONFIG_BYTES_MAX)
        return not content or (
            msgspec.json.decode(content, type=_Kubeconfig).current_context == "simulated"
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


@asynccontextmanager
async def running_server(
    scenario: Scenario,
    *,
    behaviour: Behaviour | None = None,
    faults: Faults | None = None,
    clock: Clock | None = None,
    listening: Listening | None = None,
) -> AsyncIterator[Server]:
    """Run a server as long as the context is open."""
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
