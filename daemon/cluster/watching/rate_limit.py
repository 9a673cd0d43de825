"""How often the API server is asked for one kind (rule K3.11). Outlives every restart of its watch."""

import asyncio
from collections.abc import Callable
from typing import Final

from daemon.cluster.client.backoff import Backoff, RequestBudget

TIMEOUT_MIN_SECONDS: Final = 300
TIMEOUT_MAX_SECONDS: Final = 600
"""Seconds after which the server is asked to end a watch (K3.1): at random, so that not all end at once."""

QUICKLY_SECONDS: Final = 10.0
"""A watch that ends in order is opened again at once, unless another did within so many seconds (K3.6)."""

USEFUL_SECONDS: Final = 0.25
"""Before a watch that showed events and ended quickly is opened again: the API server ends a watch that it cannot
serve as fast as events come, as it does with large objects, and each wait adds to what it has to make up for."""

SPARING_SECONDS: Final = 1.5
"""The same while half of the request budget is spent: it lasts for ever at this rate."""

FORBIDDEN_SECONDS: Final = 60.0
"""What is forbidden is asked for again each minute (K3.9)."""

ABSENT_SECONDS: Final = 30.0
"""A kind that is not served is looked for again after so long: its CRD may have been installed."""

RETRY_AFTER_MAX_SECONDS: Final = 120.0
"""The longest wait that a server may ask for (K3.10)."""


def now() -> float:
    """Seconds on the running loop's clock, which only goes forward."""
    return asyncio.get_running_loop().time()


class RateLimit:
    """The budget and the back-off of one kind.

    Every request for the kind is admitted here, the pages of a list after its first excepted: a list of
    150,000 pods has 300 of them. A page that fails is counted afterwards, so that a server whose lists
    always fail half-way is asked no more often than one that refuses them at once.
    """

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._backoff = Backoff(jitter)
        self._budget = RequestBudget()
        self._ended_at: float | None = None
        self.requests = 0
        """Requests made so far."""

    async def admit(self) -> None:
        """Return when one more request may be made, and count it."""
        if (wait := self._budget.wait_seconds(now())) > 0:
            await asyncio.sleep(wait)
        self.count()

    def count(self) -> None:
        """A request was made."""
        self._budget.spend(now())
        self.requests += 1

    def timeout_seconds(self) -> int:
        """After how long the server shall end the next watch."""
        return self._between(TIMEOUT_MIN_SECONDS, TIMEOUT_MAX_SECONDS)

    def after_failure(self, retry_after_seconds: float | None = None) -> float:
        """Seconds to wait after a failure; not less than the server asks for."""
        wait = self._backoff.failed(now())
        asked = min(retry_after_seconds or 0.0, RETRY_AFTER_MAX_SECONDS)
        return max(wait, asked)

    def reset(self) -> None:
        """The server was away and is back: the failures so far say nothing about it."""
        self._backoff.reset()

    def after_end(self, *, has_shown: bool) -> float:
        """Seconds to wait after a watch that ended in order: none, unless one did so just before.

        `has_shown`: the watch showed events. The wait for such a one does not grow.
        """
        before, self._ended_at = self._ended_at, now()
        if before is None or self._ended_at - before > QUICKLY_SECONDS:
            return 0.0
        if has_shown:
            return SPARING_SECONDS if self._budget.is_half_spent(now()) else USEFUL_SECONDS
        return self.after_failure()

    def after_refusal(self) -> float:
        """Seconds to wait after a 403: a minute, and up to a tenth more."""
        return FORBIDDEN_SECONDS * (1 + self._jitter() / 10)

    def while_absent(self) -> float:
        """Seconds until a kind that is not served is looked for again: up to a tenth more than stated."""
        return ABSENT_SECONDS * (1 + self._jitter() / 10)

    def _between(self, least: int, most: int) -> int:
        return least + int(self._jitter() * (most - least + 1))
