"""A daemon as a process of its own: started, killed, stopped, listened to."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from tests.checkout import ROOT

STARTED = "daemon started"
POLL_SECONDS = 0.01
START_SECONDS = 240.0
STOP_SECONDS = 120.0
SETTINGS = "snapshot_every: 100\nlisten: ''\n"
"""Often, so that starts from a snapshot are under fire too."""


class DaemonProcess:
    """`muster run`, against a simulated cluster or an API server, in a folder that holds all its files."""

    def __init__(
        self, folder: Path, log: str, cluster: list[str], settings: str = SETTINGS
    ) -> None:
        self.log = log
        self.world = folder / "world.db"
        self._folder = folder
        self._cluster = cluster
        self._config = folder / "settings.yaml"
        self._config.write_text(settings)
        self._starts = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the present process."""
        return self._running.pid

    @property
    def told(self) -> str:
        """What the present process has said so far."""
        return self._stderr.read_text()

    async def start(self, *options: str, crash_at: str = "") -> None:
        """Start it; it may end itself at a point."""
        self._starts += 1
        program = ["tests.crash_injection", crash_at] if crash_at else ["daemon"]
        command = ["-m", *program, "run", *self._cluster]
        command += ["--log", self.log, "--config", str(self._config)]
        with self._stderr.open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                *options,
                cwd=ROOT,
                stderr=stderr,
                stdout=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    async def until_told(self, text: str = STARTED, times: int = 1) -> None:
        """Until it has said something."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while self.told.count(text) < times:
                    assert self._running.returncode is None, f"it is gone: {self.told[-2000:]}"
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"never said {text!r}: {self.told[-2000:]}") from None

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()

    async def died(self) -> int:
        """Its exit code, when it dies by itself."""
        async with asyncio.timeout(START_SECONDS):
            return await self._running.wait()

    async def stop(self) -> int:
        """Ask it to leave; its exit code."""
        self._running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            return await self._running.wait()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    @property
    def _stderr(self) -> Path:
        return self._folder / f"stderr-{self._starts}.txt"


MakeDaemon: TypeAlias = Callable[[str, Path], DaemonProcess]
"""Makes a daemon out of a log and a scenario."""


def chance(seed: int, *which: object) -> float:
    """A number from 0 to 1 that hangs on nothing but these."""
    told = "/".join(map(str, (seed, *which)))
    return int.from_bytes(sha256(told.encode()).digest()[:6]) / (1 << 48)
