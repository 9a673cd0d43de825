"""How a SQLite file is opened for reading, where nothing can be written beside it, too.

Usually readers share memory with the writer (`-shm`), which SQLite creates where it is not there. On a full disk and on a read-only
mount it cannot, and the file is then read in private:

- without a write-ahead log, or with one that holds no commit, the file alone is whole (`immutable`);
- with one, SQLite keeps its index in its own memory: exclusive locking mode, over the VFS without locks, since no lock can be
  taken over a file that is open for reading. A connection that is closed in this mode removes a write-ahead log without a
  commit, and so it is not used for one. Of one with a commit it can remove nothing: it would have to write the file.

A writer would not notice such a reader, and could move pages from under it. So it is not done while a process holds the lock of the
log, and if the files changed meanwhile, the answer is withdrawn with an error.
"""

import fcntl
import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from msgspec import Struct

from events.errors import LogUnavailableError

_WAL_HEADER: Final = struct.Struct(">8I")
_WAL_FRAME: Final = struct.Struct(">6I")
_WAL_MAGIC: Final = 0x377F0682
"""Of a write-ahead log with little-endian checksums; with big-endian ones it is one more."""

Stamp = tuple[tuple[int, int, int] | None, ...]


class ReadingMode(Struct, frozen=True):
    """How a file is opened: options of its URI, and statements for each connection."""

    options: dict[str, str]
    pragmas: tuple[str, ...] = ()
    stamp: Stamp | None = None
    """The state of the files when a private reading began; None if memory is shared with the writer."""

    def check(self, path: Path) -> None:
        """Raise LogUnavailableError if a file that is read in private has changed."""
        if self.stamp is not None and self.stamp != _stamp(path):
            raise LogUnavailableError(f"{path}: it was written while it was read; ask again")


SHARED: Final = ReadingMode({"mode": "ro"})


def reading_mode(path: Path) -> ReadingMode:
    """Return how a file can be read now. Damage is left to be found by what reads it."""
    wal = Path(f"{path}-wal")
    cannot_share = not os.access(path.parent, os.W_OK) and not wal.exists()
    if not cannot_share and (_is_readable(path, SHARED) or _is_written(path)):
        return SHARED
    stamp = _stamp(path)
    if has_commit(wal):
        options = {"mode": "ro", "vfs": "unix-none"}
        pragmas: tuple[str, ...] = ("locking_mode=EXCLUSIVE", "temp_store=MEMORY")
    else:
        options = {"mode": "ro", "immutable": "1"}
        pragmas = ("temp_store=MEMORY",)
    private = ReadingMode(options, pragmas, stamp)
    return private if cannot_share or _is_readable(path, private) else SHARED


def open_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that reads a file, and cannot write."""
    return _opened(path, reading_mode(path))


def _opened(path: Path, mode: ReadingMode) -> sqlite3.Connection:
    name = f"file:{quote(str(path.absolute()))}?{urlencode(mode.options)}"
    connection = sqlite3.connect(name, uri=True)
    try:
        for pragma in mode.pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_readable(path: Path, mode: ReadingMode) -> bool:
    """Return False if the file, or what SQLite needs beside it, cannot be opened or created."""
    try:
        with closing(_opened(path, mode)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except UnicodeDecodeError:
        return True  # A torn file: an error message that quotes it.
    except sqlite3.Error as error:
        # The lowest byte is the kind, whatever stands above it.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return kind not in (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_READONLY,
        )
    return True


def _is_written(path: Path) -> bool:
    """Return whether a process holds the lock of the log."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def has_commit(wal: Path) -> bool:
    """Return whether a write-ahead log holds a whole transaction (https://www.sqlite.org/fileformat2.html#the_write_ahead_log)."""
    try:
        with wal.open("rb") as file:
            header = file.read(_WAL_HEADER.size)
            if len(header) < _WAL_HEADER.size:
                return False
            magic, _, page_size, _, salt_1, salt_2, *sums = _WAL_HEADER.unpack(header)
            order = {_WAL_MAGIC: "<", _WAL_MAGIC + 1: ">"}.get(magic)
            if order is None or (sum_of := _checksum(header[:24], (0, 0), order)) != tuple(sums):
                return False
            while (
                len(frame := file.read(_WAL_FRAME.size + page_size)) == _WAL_FRAME.size + page_size
            ):
                _, pages, *salts_and_sums = _WAL_FRAME.unpack_from(frame)
                sum_of = _checksum(frame[:8], sum_of, order)
                sum_of = _checksum(frame[_WAL_FRAME.size :], sum_of, order)
                if salts_and_sums != [salt_1, salt_2, *sum_of]:
                    return False
                if pages:
                    return True
    except OSError:
        return False
    return False


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    one, other = start
    for first, second in struct.iter_unpack(f"{order}2I", data):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    return one, other


def _stamp(path: Path) -> Stamp:
    """Return the state of the files of a log: size, time of the last change and inode of each."""
    found: list[tuple[int, int, int] | None] = []
    for suffix in ("", "-wal"):
        try:
            state = os.stat(f"{path}{suffix}")
        except OSError:
            found.append(None)
        else:
            found.append((state.st_size, state.st_mtime_ns, state.st_ino))
    return tuple(found)
