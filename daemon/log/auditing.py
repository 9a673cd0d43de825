"""Reading the log again, from its beginning, while the daemon works.

A start folds from the newest snapshot on, so damage before it goes unseen. This reads all of the log once a start,
slowly: chain and objects, up to where the log ended at the start. What is found damaged stops the daemon, with the
position, and nothing is written any more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from daemon.log.anchors import Anchor, AnchorChecker
from daemon.log.contract import ReadableLog
from events.chain import check_link
from events.errors import DamagedLogError, LogUnavailableError

SHARE: Final = 20
"""One part in so many of the time is spent on it: 5 %."""

PAUSE_SECONDS: Final = 0.05
"""The shortest pause between two chunks of `daemon/log/reading.py`."""

RETRY_SECONDS: Final = 30.0
"""Until it goes on after the log could not be read."""

_SECOND_NS: Final = 1_000_000_000

logger: Final = structlog.get_logger("muster")


async def audit(
    log: ReadableLog,
    elapsed_ns: Callable[[], int],
    share: int = SHARE,
    anchors: Sequence[Anchor] = (),
) -> None:
    """Verify the records there are now, in one part in `share` of the time, and compare them with anchors. `DamagedLogError`
    names the position.

    A log that cannot be reached is waited for.
    """
    end, head = log.head.position, log.base
    checker = AnchorChecker(list(anchors), head)
    while head.position < end:
        if head.position < log.base.position:
            head = log.base  # Archived meanwhile, by another process.
        chunks = log.read(after=head.position, until=end)
        try:
            began = elapsed_ns()
            async for entries in chunks:
                for entry in entries:
                    head = check_link(head, entry.record)
                    checker.compare(head)
                spent = (elapsed_ns() - began) / _SECOND_NS
                await asyncio.sleep(max(PAUSE_SECONDS, spent * (share - 1)))
                began = elapsed_ns()
        except LogUnavailableError:
            await asyncio.sleep(RETRY_SECONDS)
    checker.finish(head)
    logger.info("the log was verified", position=end)


async def keep_audited(
    log: ReadableLog,
    elapsed_ns: Callable[[], int],
    anchors: Callable[[], Awaitable[Sequence[Anchor]]] | None = None,
) -> None:
    """Audit the log once, against what `anchors` returns. Where it is damaged, let nothing more be written, and fail."""
    try:
        await audit(log, elapsed_ns, anchors=() if anchors is None else await anchors())
    except DamagedLogError as error:
        log.condemn(error)
        raise
