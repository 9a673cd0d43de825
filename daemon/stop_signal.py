"""A request to stop, by a signal or by a caller."""

import asyncio
import signal
from collections.abc import Callable


class Stop:
    """A request to stop, which may come before there is anything to stop."""

    def __init__(self) -> None:
        self._is_wished = False
        self._stop: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Request it."""
        self._is_wished = True
        if self._stop is not None:
            self._stop()

    def reaches(self, stop: Callable[[], None]) -> None:
        """From now on a request calls `stop`."""
        self._stop = stop
        if self._is_wished:
            stop()


def on_signals(stop: Callable[[], None]) -> None:
    """Stop in order at the first signal; the second one ends the process."""
    running = asyncio.get_running_loop()

    def once() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            running.remove_signal_handler(number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, once)
