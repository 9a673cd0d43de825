"""The recorded logs: bundles, a folder a release, uncompressed so that a review can read them."""

from pathlib import Path

import zstandard

from daemon.log.contract import ReadableLog
from daemon.log.copying import export
from daemon.log.opening import open_log

FOLDER = Path(__file__).parent


def histories() -> list[Path]:
    """Every recorded log, oldest release first."""
    return sorted(FOLDER.glob("*/*.muster"))


async def record(log: ReadableLog, path: Path) -> None:
    """Keep a log as a history: a bundle as `muster log export` writes it, but uncompressed."""
    await export(log, path, replaces=True)
    packed = zstandard.ZstdDecompressor().decompressobj()
    path.write_bytes(packed.decompress(path.read_bytes()))  # noqa: ASYNC240 - a test has the time


async def load(path: Path) -> ReadableLog:
    """A recorded log, for reading."""
    return await open_log(str(path))
