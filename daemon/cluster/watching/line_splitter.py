"""Split the stream of a watch into lines, whatever the chunks are (K3.2)."""

from typing import Final

from events.errors import ClusterError

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes. An object may have several MiB; what is longer than this is no object."""


class LineTooLongError(ClusterError):
    """A line of a watch has no end within its limit."""


class LineSplitter:
    """Takes chunks in and gives whole lines out. What follows the last newline is never a line."""

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._begun: list[bytes] = []
        """Parts of a line whose end has not come. Joined once, so that a long one costs no more."""
        self._begun_bytes = 0

    @property
    def is_between(self) -> bool:
        """Whether no line has been begun whose end has not come."""
        return not self._begun

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk ends, without their newlines; empty lines are left out."""
        *ended, rest = chunk.split(b"\n")
        if ended and self._begun:
            ended[0] = b"".join((*self._begun, ended[0]))
            self._begun.clear()
            self._begun_bytes = 0
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
        longest = max(self._begun_bytes, max(map(len, ended), default=0))
        if longest > self._limit:
            raise LineTooLongError(f"a line of the watch is longer than {self._limit} bytes")
        return [line for line in ended if line]
