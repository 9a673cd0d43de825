"""Files that only their owner may read: logs, worlds, bundles, credentials."""

import os
import stat
from pathlib import Path
from typing import Final

import structlog

PRIVATE_MODE: Final = 0o600
"""Read and written by the owner alone: a log holds what all tenants of a cluster wrote into objects."""

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

logger: Final = structlog.get_logger("muster")


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that is created is private from its first moment on."""
    return os.open(path, flags, PRIVATE_MODE)


def create_private(path: Path) -> None:
    """Create a file where there is none, empty and private, and make an existing one private.

    SQLite gives its `-wal`, `-shm` and `-journal` files the mode of the database, so this is enough for them.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE))
    make_private(path)


def write_whole(
    path: Path, content: str | bytes, *, replaces: bool = True, is_private: bool = True
) -> None:
    """Write a file that is whole under its name, or not there. Raises FileExistsError if it may not be replaced."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(part, "wb", opener=private_opener if is_private else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        publish(part, path, replaces=replaces)
    finally:
        part.unlink(missing_ok=True)


def publish(part: Path, path: Path, *, replaces: bool) -> None:
    """Give a file that is on disk its name, durably. Raises FileExistsError if there is one that may not be replaced."""
    if replaces:
        part.replace(path)
    else:
        try:
            path.hardlink_to(part)
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links. Fails where there is a file by now, which a rename would replace.
            path.touch(exist_ok=False)
            part.replace(path)
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Take a file away from group and others, and log that; where it is not ours, log that it is open."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) or not mode & OTHERS:
        return
    was = f"{stat.S_IMODE(mode):04o}"
    try:
        path.chmod(PRIVATE_MODE)
    except OSError as error:
        reason = error.strerror or str(error)
        logger.warning("others may read a file", path=str(path), mode=was, error=reason)
    else:
        logger.warning("others could read a file", path=str(path), mode=was, now="0600")
