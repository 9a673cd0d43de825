"""Daemons that do not outlive their test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.storm.victim import MakeVictim, Victim


@pytest.fixture
async def make_victim(tmp_path: Path) -> AsyncIterator[MakeVictim]:
    """Makes daemons out of a log and a scenario."""
    victims: list[Victim] = []

    def make(log: str, scenario: Path) -> Victim:
        folder = tmp_path / f"victim-{len(victims)}"
        folder.mkdir()
        shore = ["--simulate", str(scenario), "--world", str(folder / "world.db")]
        victims.append(Victim(folder, log, shore))
        return victims[-1]

    yield make
    for victim in victims:
        await victim.kill()
