"""A text file that an operator names: read within a bound, and without waiting for what may never come."""

import errno
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Final

from daemon.limits import exceeded, limits_of
from events.errors import UsageError

STDIN: Final = "standard input"

_FAR: Final = 1 << 20
"""Bytes that are asked for at a time."""


def read_text(path: Path, named_in: str = "") -> str:
    """The text of a file, which may be packed with gzip, within the limit `text-bytes`.

    `named_in` says where the path was found. A pipe is read where a program writes to it.
    """
    place = f"{named_in}: {path}" if named_in else str(path)
    try:
        content = _read(path, place)
        if path.suffix == ".gz":
            with gzip.open(BytesIO(content)) as unpacked:
                content = _bounded(unpacked.read, place)
        return content.decode()
    except UnicodeError as error:
        raise UsageError(f"{place}: not a text in UTF-8: {error}") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{place}: not packed with gzip: {error}") from error
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}") from error
    except ValueError as error:  # A path with a NUL in it.
        raise UsageError(f"{place}: {error}") from error


def read_input(path: Path) -> tuple[str, str]:
    """Return the text of a file, or of standard input for the path `-`, and a name for messages.

    Standard input is read to its end, within the limit `text-bytes`.
    """
    if str(path) != "-":
        return read_text(path), str(path)
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError(f"{STDIN}: it is closed")
    try:
        text = _bounded(sys.stdin.buffer.read, STDIN).decode()
    except UnicodeError as error:
        raise UsageError(f"{STDIN}: not a text in UTF-8: {error}") from error
    except OSError as error:
        raise UsageError(f"{STDIN}: {error.strerror}") from error
    if not text.strip():
        raise UsageError(f"{STDIN}: it is empty, or `-` is given twice")
    return text, STDIN


def _read(path: Path, place: str) -> bytes:
    # To open a pipe waits for a program that writes to it, which there need not be.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            first = file.read(1)
            if first == b"":
                raise UsageError(f"{place}: a pipe that no program writes to")
            os.set_blocking(descriptor, True)
            return (first or b"") + _bounded(file.read, place)
        return _bounded(file.read, place)


def _bounded(read: Callable[[int], bytes], place: str) -> bytes:
    limits = limits_of()
    parts: list[bytes] = []
    size = 0
    while part := read(_FAR):
        parts.append(part)
        size += len(part)
        if size > limits.text_bytes:
            raise exceeded(place, limits, "text_bytes", "it has more bytes")
    return b"".join(parts)
