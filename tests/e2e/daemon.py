"""`muster run` on an API server, as a process of its own."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.checkout import ROOT
from tests.control_plane.program import free_ports

POLL_SECONDS: Final = 0.02
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 40.0
TOLD: Final = 3_000
UNCOUNTED: Final = ("leases", "selfsubjectaccessreviews")
"""What is asked for again and again, whatever happens in the cluster."""


def _changes(labels: Mapping[str, str]) -> bool:
    return labels["verb"] in ("POST", "PUT", "PATCH") and labels["resource"] not in UNCOUNTED


class Daemon:
    """One daemon. It may be started again, and then goes on with its log."""

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        log: str,
        options: Sequence[str] = (),
        **settings: object,
    ) -> None:
        self.log = log
        self._options = options
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._config = folder / "settings.yaml"
        self._config.write_text(json.dumps(settings))
        self._port = 0
        self._starts = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def told(self) -> str:
        """What the present process has said so far."""
        path = self._stderr
        return path.read_text() if path.exists() else ""

    async def start(self) -> None:
        """Start it."""
        self._starts += 1
        (self._port,) = free_ports(1)
        command = ["-m", "daemon", "run", "--kubeconfig", str(self._kubeconfig), "--log", self.log]
        command += ["--config", str(self._config), "--listen", f"127.0.0.1:{self._port}"]
        command += self._options
        with self._stderr.open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    async def until_ready(self, role: str = "leader") -> None:
        """Until it is ready in its role."""
        last: object = None
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    last = await self.readiness()
                    if last.get("ready") and last.get("role") == role:
                        return
                    assert self._running.returncode is None, f"it is gone: {self.told[-TOLD:]}"
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"not a ready {role}: {last}: {self.told[-TOLD:]}") from None

    async def readiness(self) -> dict[str, Any]:
        """The answer of `/readyz`; empty while the daemon does not answer."""
        try:
            async with (
                asyncio.timeout(5.0),
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self._port}/readyz") as response,
            ):
                said: dict[str, Any] = await response.json()
                return said
        except (OSError, aiohttp.ClientError, TimeoutError):
            return {}

    async def writes(self) -> dict[str, float]:
        """How many requests have changed something, by call, those for the Lease left out."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._port}/metrics") as response,
        ):
            text = await response.text()
        counted: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "muster_api_requests_total" and _changes(sample.labels):
                    resource = f"{sample.labels['resource']}/{sample.labels['subresource']}"
                    call = f"{sample.labels['verb']} {resource.rstrip('/')}"
                    counted[call] = counted.get(call, 0.0) + sample.value
        return counted

    async def until_told(self, text: str, seconds: float = 30.0) -> None:
        """Until it has said something."""
        try:
            async with asyncio.timeout(seconds):
                while text not in self.told:
                    assert self._running.returncode is None, f"it is gone: {self.told[-TOLD:]}"
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"never said {text!r}: {self.told[-TOLD:]}") from None

    def pause(self) -> None:
        """Stop it where it is, as a machine that stalls."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._running.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """Ask it to leave; it must do so in good order."""
        self._running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            code = await self._running.wait()
        assert code == 0, f"ended with {code}: {self.told[-TOLD:]}"
        assert "Traceback" not in self.told

    @property
    def port(self) -> int:
        """Where it serves probes and metrics."""
        return self._port

    def memory_bytes(self) -> int:
        """Its resident memory."""
        status = Path(f"/proc/{self._running.pid}/status").read_text()
        (line,) = [one for one in status.splitlines() if one.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def starved_seconds(self) -> float:
        """How long its threads, taken together, were ready to run and got no CPU, since it was started; 0 where unknown.

        The event loop and the deciding thread wait for each other, so this is little more than the time that the process lost.
        """
        waited_ns = 0
        for path in Path(f"/proc/{self._running.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # A thread may end meanwhile.
                waited_ns += int(path.read_text().split()[1])
        return waited_ns / 1e9

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.returncode is None

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    @property
    def _stderr(self) -> Path:
        return self._folder / f"stderr-{self._starts}.txt"
