"""The order in which kinds are handed over for the first time."""

import asyncio
from collections.abc import Iterable


class Turns:
    """Each waits until all before it have been handed over once, or have failed once.

    What fails is handed over later, when it can be: one kind that is forbidden, or whose list is never
    answered, does not hold back the others for longer than its first try takes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._passed = {name: asyncio.Event() for name in names}

    async def wait(self, name: str) -> None:
        """Return when it is this one's turn."""
        for other, passed in self._passed.items():
            if other == name:
                return
            await passed.wait()

    def passed(self, name: str) -> None:
        """This one's turn is over."""
        self._passed[name].set()
