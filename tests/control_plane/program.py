"""One program of the control plane, as a process of its own."""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 10.0
TOLD: Final = 3_000
"""Characters of its log that an error shows."""


class ProgramError(Exception):
    """A program of the control plane died, or was not ready in time."""


class Program:
    """A sub-command of the binary. What it says goes to a file beside its data."""

    def __init__(self, binary: Path, folder: Path, name: str, *flags: str) -> None:
        self.name = name
        self._command = [str(binary), name, *flags]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the present process."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def told(self) -> str:
        """What it has said, in all its lives."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it, with a pipe that ends it when this process dies, however it dies."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own binary and arguments
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "ENDS_WITH_STDIN": "1"},
                # Ctrl-C reaches the process that starts it, which ends it in its turn.
                process_group=0,
            )

    def until(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Until it is ready; `ProgramError` when it dies first, or takes too long."""
        assert self._process is not None, f"{self.name} was not started"
        for _ in range(round(seconds / POLL_SECONDS)):
            if is_ready():
                return
            try:
                code = self._process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            raise ProgramError(f"{self.name} ended with {code}: {self.told[-TOLD:]}")
        raise ProgramError(f"{self.name} was not ready in {seconds} s: {self.told[-TOLD:]}")

    def kill(self) -> None:
        """As `kill -9` does. The API server takes up to a minute to end when asked."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(END_SECONDS)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are free now; all are held until the last is found."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
