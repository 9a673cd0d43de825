"""Daemons that do not outlive their test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.storm.daemon_process import DaemonProcess, MakeDaemon


@pytest.fixture
async def make_daemon(tmp_path: Path) -> AsyncIterator[MakeDaemon]:
    """Makes daemons out of a log and a scenario."""
    victims: list[DaemonProcess] = []

    def make(log: str, scenario: Path) -> DaemonProcess:
        folder = tmp_path / f"victim-{len(victims)}"
        folder.mkdir()
        cluster = ["--simulate", str(scenario), "--world", str(folder / "world.db")]
        victims.append(DaemonProcess(folder, log, cluster))
        return victims[-1]

    yield make
    for daemon in victims:
        await daemon.kill()
