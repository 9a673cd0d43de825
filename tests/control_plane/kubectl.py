"""kubectl as tests run it: the one that is installed, without the files of the user who runs the tests."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import pytest

KUBECTL: Final = shutil.which("kubectl")
SECONDS: Final = 60.0

needs_kubectl: Final = pytest.mark.skipif(
    KUBECTL is None, reason="no kubectl to test with: it is not installed"
)


class Kubectl:
    """kubectl with the rights of a kubeconfig."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """`folder` is for its cache of the discovery, which it would share between servers on one port."""
        self._kubeconfig = kubeconfig
        self._folder = folder

    async def __call__(self, command: str, text: str = "") -> str:
        """Run a command, with a text as its input, and return what it prints. It must succeed."""
        code, told, warned = await self.run(command, text)
        assert code == 0, f"kubectl {command}: {code}\n{told}{warned}"
        return told

    async def run(self, command: str, text: str = "") -> tuple[int, str, str]:
        """Run a command; return its exit code, output and error output."""
        process = await self._start(command)
        async with asyncio.timeout(SECONDS):
            told, warned = await process.communicate(text.encode())
        assert process.returncode is not None
        return process.returncode, told.decode(), warned.decode()

    async def until(self, command: str, word: str) -> AsyncGenerator[list[str]]:
        """Run a command that does not end, and yield the cells of each line up to one that contains a word."""
        process = await self._start(command)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(SECONDS):
                while line := (await process.stdout.readline()).decode():
                    yield cells_of(line)
                    if word in line:
                        return
        finally:
            process.kill()
            await process.communicate()
        raise AssertionError(f"kubectl {command} ended before it printed {word}")

    async def _start(self, command: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *("--kubeconfig", str(self._kubeconfig), "--cache-dir", str(self._folder / "cache")),
            *command.split(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(self._folder)},
        )


def rows_of(table: str) -> list[list[str]]:
    """Split a table as kubectl prints it into rows of cells, the header first."""
    return [cells_of(line) for line in table.splitlines() if line.strip()]


def cells_of(line: str) -> list[str]:
    """Split a line of a table into its cells. Empty cells are left out."""
    return re.split(r"\s{2,}", line.strip())
