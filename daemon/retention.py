"""Keep a base for other releases, and archive what is older than the settings say, beside the loop.

A log is cut at a snapshot that the daemon has written, so nothing is folded for it. Records are read, packed and verified in at
most a part of the time, and deleted in short transactions. What goes wrong is logged and tried again; a damaged log ends the daemon.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from daemon.kept_base import keep_base
from daemon.log.code_key import code_key
from daemon.log.snapshots import state_of
from daemon.log.store import SqlLog
from daemon.queries.archive import Archived, archive_until
from daemon.queries.bases import base_at
from daemon.queries.moments import entry_at, recorded_at_ns
from events.errors import DamagedLogError, LogUnavailableError, MusterError
from events.record import Head

SHARE: Final = 20
"""One part in so many of the time may be spent on it: 5 %."""

PAUSE_SECONDS: Final = 0.02
"""The shortest pause between two steps, and the longest is `PAUSE_SECONDS_MAX`."""
PAUSE_SECONDS_MAX: Final = 5.0

CHECK_SECONDS: Final = 600.0
"""Time between two checks."""

DAY_NS: Final = 86_400_000_000_000
_SECOND_NS: Final = 1_000_000_000

logger: Final = structlog.get_logger("muster")


class Retention(Struct, frozen=True):
    """How long records stay in the log, and where older ones go."""

    retain_ns: int
    folder: Path
    block_ns: int = DAY_NS
    """Nothing is archived before so much time more has passed: an archive holds at least a day."""


async def archive_old(
    log: SqlLog, retention: Retention, now_ns: int, pause: Callable[[], Awaitable[None]]
) -> Archived | None:
    """Archive the records that are older than the retention, up to the newest snapshot there; None if it is not time yet."""
    await log.purge(pause)
    base, end = log.base.position, log.head.position
    if end == base:
        return None
    oldest_ns = await recorded_at_ns(log, base + 1)
    if oldest_ns > now_ns - retention.retain_ns - retention.block_ns:
        return None
    limit = min(await log.position_at(now_ns - retention.retain_ns), end - 1)
    snapshot = await log.latest_snapshot(code_key(), before=limit)
    if snapshot is None or snapshot.position <= base:
        return None
    record = (await entry_at(log, snapshot.position)).record
    until = Head(position=record.position, digest=record.digest, epoch=record.epoch)
    state = await asyncio.to_thread(state_of, snapshot.payload)
    standing = await base_at(log, until, state, pause)
    path = retention.folder / f"log-{base + 1:012}-{until.position:012}.muster"
    return await archive_until(log, path, standing, pause=pause)


async def keep_retained(
    log: SqlLog,
    retention: Retention | None,
    now_ns: Callable[[], int],
    elapsed_ns: Callable[[], int],
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Keep a base and archive what is due, for ever. Raises DamagedLogError, and lets nothing more be written then."""
    while True:
        try:
            await _keep_base(log, _paced(elapsed_ns))
            if retention is not None:
                await _archive(log, retention, now_ns(), _paced(elapsed_ns))
        except DamagedLogError as error:
            log.condemn(error)
            raise
        await asyncio.sleep(check_seconds)


async def _keep_base(log: SqlLog, pause: Callable[[], Awaitable[None]]) -> None:
    """Keep a base if it is due. It saves time only, so the daemon goes on whatever goes wrong."""
    try:
        position = await keep_base(log, pause)
    except DamagedLogError:
        raise
    except Exception as error:  # any bug
        logger.warning("a base was not kept", error=f"{type(error).__name__}: {error}")
    else:
        if position is not None:
            logger.info("kept a base for other releases", position=position)


async def _archive(
    log: SqlLog, retention: Retention, now_ns: int, pause: Callable[[], Awaitable[None]]
) -> None:
    """Archive what is due."""
    try:
        archived = await archive_old(log, retention, now_ns, pause)
    except DamagedLogError:
        raise
    except LogUnavailableError as error:
        logger.warning("the log was not archived", error=str(error))
    except (MusterError, OSError) as error:
        logger.error("the log was not archived", error=str(error), folder=str(retention.folder))
    else:
        if archived is not None:
            first, last = archived.base.position + 1, archived.head.position
            logger.info("archived a part of the log", first=first, last=last)


def _paced(elapsed_ns: Callable[[], int]) -> Callable[[], Awaitable[None]]:
    """Return a pause that is `SHARE` - 1 times as long as the time since the last one."""
    began = elapsed_ns()

    async def pause() -> None:
        nonlocal began
        spent = (elapsed_ns() - began) / _SECOND_NS
        await asyncio.sleep(min(max(PAUSE_SECONDS, spent * (SHARE - 1)), PAUSE_SECONDS_MAX))
        began = elapsed_ns()

    return pause
