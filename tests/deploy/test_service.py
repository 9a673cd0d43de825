"""The daemon as its unit runs it, on a real API server: settings, roles and restrictions as shipped."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from msgspec import Struct

from daemon.cluster.client.calls import LEASES
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from tests.checkout import ROOT
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster
from tests.control_plane.manifests import node, pod
from tests.control_plane.program import free_ports
from tests.control_plane.setup import NAMESPACE
from tests.deploy.filtering import allowed, called, has_ended

pytestmark = pytest.mark.apiserver

SHIPPED: Final = ROOT / "deploy/systemd"
SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1

# As under MemoryDenyWriteExecute; kernels before 6.3 do not know the request and go on.
RESTRICTED: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
AS_ROOT: Final = {"fchown"}
"""What SQLite asks for only where the tests run as root."""
HARMLESS: Final = {"mbind"}
"""What numpy's library tries and does without."""


class Service(Struct, frozen=True):
    """A daemon that runs."""

    process: subprocess.Popen[bytes]
    notified: socket.socket
    url: str

    def told(self) -> str:
        """What the supervisor was told since it was last asked."""
        messages = []
        while True:
            try:
                messages.append(self.notified.recv(4096).decode())
            except BlockingIOError:
                return "\n".join(messages)


@pytest.fixture
def service(own_cluster: Cluster, tmp_path: Path) -> Iterator[Service]:
    """The unit's command with the unit's files, moved into a folder."""
    (port,) = free_ports(1)
    for name in ("muster.yaml", "policy.yaml"):
        text = (SHIPPED / name).read_text(encoding="utf-8")
        moved = text.replace("/var/lib/muster", str(tmp_path)).replace(":8080", f":{port}")
        (tmp_path / name).write_text(moved, encoding="utf-8")
    shutil.copy(own_cluster.muster, tmp_path / "kubeconfig")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        started(tmp_path) as process,
    ):
        notified.bind(str(tmp_path / "notify"))
        notified.setblocking(False)
        yield Service(process, notified, f"http://127.0.0.1:{port}")


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon in a folder. Where strace is present, what the unit's filter refuses is refused."""
    strace = shutil.which("strace")
    refused = f"inject={','.join(sorted(AS_ROOT | HARMLESS))}:error=EPERM"
    traced = [strace, "-D", "-f", "-o", folder / "trace", "-e", refused] if strace else []
    command = [
        sys.executable,
        "-c",
        RESTRICTED,
        "-m",
        "daemon",
        "run",
        "--config",
        folder / "muster.yaml",
    ]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own daemon
            [str(word) for word in (*traced, *command)],
            cwd=ROOT,
            env={**kept, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "2000000"},
            stderr=stderr,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_the_service_gets_ready_binds_and_stops_in_order(
    service: Service, own_cluster: Cluster, tmp_path: Path
) -> None:
    """Rules K15.3 and K14.5: the roles suffice; a clean stop gives the Lease back."""
    async with Api.of(own_cluster.admin) as admin:
        await admin.create(NODES, node("n1"))
        await admin.create(PODS, pod("default", "p1"))

        async def is_bound() -> bool:
            assert service.process.poll() is None
            found = (await admin.get(PODS.object_path("p1", "default"))).expect(200)
            return "nodeName" in found["spec"]

        await until(is_bound)
        assert (await probed(service, "livez"))[0] == 200
        assert "\nmuster_leader 1.0\n" in (await probed(service, "metrics"))[1]
        told = await until_told(service, "STATUS=leader, ready")
        assert (await probed(service, "readyz"))[0] == 200
        assert "READY=1" in told
        assert "WATCHDOG=1" in told
        service.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(service.process.wait, SECONDS) == 0
        assert "STOPPING=1" in service.told()
        lease = (await admin.get(LEASES.object_path("muster", NAMESPACE))).expect(200)
        assert lease["spec"]["holderIdentity"] == ""
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    await until(lambda: asyncio.to_thread(has_ended, tmp_path / "trace"))
    assert called(tmp_path / "trace") - allowed() - AS_ROOT - HARMLESS == set()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something, within a bound."""
    async with asyncio.timeout(SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(POLL_SECONDS)


async def until_told(service: Service, message: str) -> str:
    """Everything that the supervisor was told, up to a message."""
    told = ""
    async with asyncio.timeout(SECONDS):
        while message not in told:
            await asyncio.sleep(POLL_SECONDS)
            told += service.told()
    return told


async def probed(service: Service, path: str) -> tuple[int, str]:
    """What a probe answers."""
    async with aiohttp.ClientSession() as session, session.get(f"{service.url}/{path}") as answer:
        return answer.status, await answer.text()
