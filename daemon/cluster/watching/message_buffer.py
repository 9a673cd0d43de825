"""The buffer between watches and the loop: messages in the order of arrival, bounded in bytes."""

import asyncio
from typing import Final

from daemon.cluster.watching.list_order import ListOrder
from events.messages import WatchMessage

BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of objects that may wait for the loop. Beyond, watches are not read on (back-pressure)."""

MESSAGE_BYTES: Final = 200
"""Bytes that a watch message takes beside its object."""


class MessageBuffer:
    """Holds the messages of all reflectors until the loop takes them. A list goes in as a whole, whatever its size."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: list[WatchMessage] = []
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_closed = False

    async def put(self, messages: list[WatchMessage], size: int = 0) -> None:
        """Add messages when the buffer is below its bound. Messages of one call are taken together."""
        while self._bytes >= self._bytes_max:
            await self._room.wait()
        if self._is_closed:
            return
        self._waiting += messages
        self._bytes += size + MESSAGE_BYTES * len(messages)
        if self._bytes >= self._bytes_max:
            self._room.clear()
        self._filled.set()

    def add(self, messages: list[WatchMessage]) -> None:
        """Add messages without objects at once, behind those that are in the buffer."""
        if not self._is_closed:
            self._waiting += messages
            self._bytes += MESSAGE_BYTES * len(messages)
            self._filled.set()

    async def take(self) -> list[WatchMessage]:
        """Wait for messages and take all of them; return none once the buffer is closed."""
        await self._filled.wait()
        if self._is_closed:
            return []
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self._filled.clear()
        self._room.set()
        return taken

    def close(self) -> None:
        """Drop all messages; a waiting `take` returns none."""
        self._is_closed = True
        self._waiting, self._bytes = [], 0
        self._filled.set()
        self._room.set()


class KindSink:
    """Sends the messages of one kind to the buffer; its first list waits for the kinds before it."""

    def __init__(self, name: str, buffer: MessageBuffer, list_order: ListOrder) -> None:
        self._name = name
        self._buffer = buffer
        self._list_order = list_order

    async def send(self, messages: list[WatchMessage], size: int = 0) -> None:
        """Send objects, after the first lists of the kinds before."""
        await self._list_order.wait(self._name)
        await self._buffer.put(messages, size)
        self._list_order.passed(self._name)

    async def send_now(self, message: WatchMessage) -> None:
        """Send a message that waits for no other kind."""
        await self._buffer.put([message])

    def append(self, message: WatchMessage) -> None:
        """Send a message without an object at once, behind those sent so far."""
        self._buffer.add([message])

    def let_others_pass(self) -> None:
        """Let the kinds behind send their lists first, because this one has failed."""
        self._list_order.passed(self._name)
