"""Anchor the log at intervals, beside the loop: sign its head if there is a key, and publish its position and digest.

What is published (a metric, an Event) is kept elsewhere by those who collect it, and what is signed cannot be signed again by who has no key. Both
show a past that is rewritten later.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from daemon.log.anchors import Anchor
from daemon.log.auditing import RETRY_SECONDS
from daemon.log.signatures import SigningKey, anchors_of
from daemon.log.store import SqlLog
from events.errors import DamagedLogError, FencedError, LogUnavailableError
from events.record import Head

EMPTY_SECONDS: Final = 1.0
"""Between two looks at a log that holds no record yet."""

LAST_SECONDS: Final = 5.0
"""The longest that a shutdown waits for the last signature."""

logger: Final = structlog.get_logger("muster")


class Anchoring:
    """Anchors one log. `publish` is called with each head that is anchored; it returns at once."""

    def __init__(
        self,
        log: SqlLog,
        key: SigningKey | None,
        every_seconds: float,
        *,
        now_ns: Callable[[], int],
        publish: Callable[[Head], None],
    ) -> None:
        self._log = log
        self._key = key
        self._every_seconds = every_seconds
        self._now_ns = now_ns
        self._publish = publish
        self._last: Head | None = None

    async def run(self) -> None:
        """Anchor the log every `every_seconds`, until cancelled. `DamagedLogError` if the log was rewritten."""
        while True:
            await self.anchor()
            await asyncio.sleep(EMPTY_SECONDS if self._last is None else self._every_seconds)

    async def anchor(self) -> None:
        """Anchor the durable head, unless it is the one anchored last. A log that cannot be written is tried again at the next interval."""
        head = self._log.head
        if head.position == 0 or head == self._last:
            return
        if self._key is not None:
            try:
                await self._log.save_signature(self._key.sign(head, self._now_ns()))
            except (LogUnavailableError, FencedError) as error:
                logger.warning("the log was not signed", position=head.position, error=str(error))
                return
            except DamagedLogError as error:
                self._log.condemn(error)
                raise
        self._last = head
        self._publish(head)
        is_signed = self._key is not None
        logger.debug(
            "log anchored", position=head.position, digest=head.digest, is_signed=is_signed
        )

    async def finish(self) -> None:
        """Anchor the last head before the log is closed, within `LAST_SECONDS`."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.anchor()
        except TimeoutError:
            logger.warning("the log was not signed at the end", position=self._log.head.position)

    async def signed(self) -> list[Anchor]:
        """Return the anchors that the log's own signatures by the key are; none without a key, or before the first of them.

        A log that cannot be reached is waited for.
        """
        if self._key is None:
            return []
        name = self._key.key
        while True:
            try:
                own = [one for one in await self._log.signatures() if one.key == name]
            except LogUnavailableError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return anchors_of(own, self._key.checking) if own else []
