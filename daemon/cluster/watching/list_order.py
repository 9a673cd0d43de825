"""The order in which the first lists of the kinds are sent."""

import asyncio
from collections.abc import Iterable


class ListOrder:
    """A kind waits until each kind before it has sent its list once, or has failed once.

    A kind that is forbidden, or whose list is never answered, delays the others by its first try only.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._passed = {name: asyncio.Event() for name in names}

    async def wait(self, name: str) -> None:
        """Return when it is the turn of a kind."""
        for other, passed in self._passed.items():
            if other == name:
                return
            await passed.wait()

    def passed(self, name: str) -> None:
        """End the turn of a kind."""
        self._passed[name].set()
