"""The anchor of a SQLite log: the head that the log had last, in a file of its own beside it.

It is written after each append that is durable, so it never states more than the log held. It is put on disk at intervals: after a
kill it is exact, after a power failure it can be some seconds old. A log that ends before it has lost its end, as when its
write-ahead log was deleted, or when an older file was put in its place.
"""

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from daemon.log.anchors import Anchor
from daemon.private_files import PRIVATE_MODE
from events.record import Head

SUFFIX: Final = ".anchor"

_LINE: Final = re.compile(rb"muster log anchor 1 (([0-9]{1,18}):([0-9a-f]{64})) *([0-9a-f]{8})\n")
_WIDTH: Final = 120

logger: Final = structlog.get_logger("muster")


class AnchorFile:
    """The anchor file of a log that this process writes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_MODE)
        self._path = path
        self._is_synced = True
        self._fails = False

    def write(self, head: Head) -> None:
        """Write a durable head, in the place of the one before. A file that cannot be written keeps that one."""
        text = f"muster log anchor 1 {head.position}:{head.digest}".ljust(_WIDTH).encode()
        try:
            # One write of less than a sector: it is there as a whole or not at all.
            os.pwrite(self._file, b"%b%08x\n" % (text, zlib.crc32(text)), 0)
        except OSError as error:
            if not self._fails:
                logger.warning(
                    "the anchor was not written", file=str(self._path), error=error.strerror
                )
            self._fails = True
        else:
            self._fails = self._is_synced = False

    def sync(self) -> None:
        """Put it on disk, if it changed since the last time."""
        if not self._is_synced:
            self._is_synced = True
            with suppress(OSError):
                os.fdatasync(self._file)

    def close(self) -> None:
        """Put it on disk and close it."""
        self.sync()
        os.close(self._file)


def read_anchor(path: Path) -> Anchor | None:
    """Return what an anchor file states; None if there is none, or none that is whole."""
    try:
        with path.open("rb") as file:
            line = file.read(2 * _WIDTH)
    except OSError:
        return None
    found = _LINE.fullmatch(line)
    if found is None or int(found[4], 16) != zlib.crc32(line[:_WIDTH]):
        if line:
            logger.warning("an anchor that is not whole is passed over", file=str(path))
        return None
    return Anchor(int(found[2]), found[3].decode(), f"the file {path.name}")
