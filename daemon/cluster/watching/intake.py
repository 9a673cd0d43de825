"""What has been seen and not yet been taken in: in arrival order, and bounded by bytes."""

import asyncio
from typing import Final

from daemon.cluster.watching.turns import Turns
from events.messages import WatchMessage

BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of objects that may wait for the loop. Beyond, watches are not read on (back-pressure)."""

SIGHTING_BYTES: Final = 200
"""Bytes that a sighting takes beside its object."""


class Intake:
    """Where reflectors put what they see. A list goes in whole, whatever its size, once there is room."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: list[WatchMessage] = []
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_closed = False

    async def put(self, sightings: list[WatchMessage], size: int = 0) -> None:
        """Hand over, when there is room. What is put in one call is taken in one piece."""
        while self._bytes >= self._bytes_max:
            await self._room.wait()
        if self._is_closed:
            return
        self._waiting += sightings
        self._bytes += size + SIGHTING_BYTES * len(sightings)
        if self._bytes >= self._bytes_max:
            self._room.clear()
        self._filled.set()

    def add(self, sightings: list[WatchMessage]) -> None:
        """Hand over at once, whatever else waits: what has no object, and must stand exactly here."""
        if not self._is_closed:
            self._waiting += sightings
            self._bytes += SIGHTING_BYTES * len(sightings)
            self._filled.set()

    async def take(self) -> list[WatchMessage]:
        """All that is there, as soon as there is something; nothing more once it is closed."""
        await self._filled.wait()
        if self._is_closed:
            return []
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self._filled.clear()
        self._room.set()
        return taken

    def close(self) -> None:
        """Throw away what is there; whoever waits to take something gets nothing."""
        self._is_closed = True
        self._waiting, self._bytes = [], 0
        self._filled.set()
        self._room.set()


class Outlet:
    """Where one kind is handed over: the first time when it is its turn."""

    def __init__(self, name: str, intake: Intake, turns: Turns) -> None:
        self._name = name
        self._intake = intake
        self._turns = turns

    async def show(self, sightings: list[WatchMessage], size: int = 0) -> None:
        """Hand over objects, once those of the kinds before have been."""
        await self._turns.wait(self._name)
        await self._intake.put(sightings, size)
        self._turns.passed(self._name)

    async def tell(self, sighting: WatchMessage) -> None:
        """Hand over something that waits for no turn."""
        await self._intake.put([sighting])

    def add(self, sighting: WatchMessage) -> None:
        """Hand over something without an object, exactly behind what has been handed over so far."""
        self._intake.add([sighting])

    def failed(self) -> None:
        """There is nothing to show now: let the others go first."""
        self._turns.passed(self._name)
