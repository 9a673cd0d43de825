"""Looks at what watches do not show: a server that was set back, and objects that the log has otherwise.

Each kind is listed whole some time after the start, and again every so often, one kind after the other, page by
page. The list is compared with the log where it is taken in. An open watch that is silent for too long is asked
about, as a watch from a revision that the server has yet to come to stays open and shows nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from daemon.cluster.watching.rate_limit import now
from daemon.cluster.watching.reflector import SILENT_SECONDS, Reflector

FULL_LIST_FIRST_SECONDS: Final = 600.0
"""Within which each kind is listed whole after every start, spread evenly over the kinds."""

FULL_LIST_SECONDS: Final = 3600.0
"""Between two full lists of a kind, where the settings do not say."""

FULL_LIST_RETRY_SECONDS: Final = 60.0
"""After which a full list that failed is tried again."""


class Audit:
    """Goes round the reflectors, until cancelled. A `full_list_seconds` of 0 means no full lists."""

    def __init__(
        self, reflectors: Sequence[Reflector], doubted: asyncio.Event, full_list_seconds: float
    ) -> None:
        self._reflectors = reflectors
        self._doubted = doubted
        self._full_list_seconds = full_list_seconds

    async def run(self) -> None:
        """One thing after the other, so that it never costs much at a time."""
        begun = now()
        first = min(FULL_LIST_FIRST_SECONDS, self._full_list_seconds)
        share = first / max(1, len(self._reflectors))
        due = [begun + share * (index + 1) for index in range(len(self._reflectors))]
        if not self._full_list_seconds:
            due = []
        looked = begun
        while True:
            until = min([looked + SILENT_SECONDS, *due])
            if await self._is_in_doubt(until) or now() >= looked + SILENT_SECONDS:
                is_doubted = self._doubted.is_set()
                self._doubted.clear()
                looked = now()
                for reflector in self._reflectors:
                    await reflector.check_in_doubt(always=is_doubted)
            for index, at in enumerate(due):
                if at <= now():
                    is_done = await self._reflectors[index].compare()
                    wait = self._full_list_seconds if is_done else FULL_LIST_RETRY_SECONDS
                    due[index] = now() + min(wait, self._full_list_seconds)

    async def _is_in_doubt(self, until: float) -> bool:
        """Wait until then; shorter, and true, when there is a doubt."""
        try:
            async with asyncio.timeout_at(until):
                await self._doubted.wait()
        except TimeoutError:
            return False
        return True
