"""An event loop in which time passes only when nothing else can happen, and then at once."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Jumping(selectors.SelectSelector):
    """Does not wait: what would be waited for is counted instead."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen any more"
            self.passed += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on such a clock."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed


def virtual(story: Coroutine[Any, Any, T]) -> T:
    """What comes of a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
