"""Audits within a share of the time: sums that State keeps are counted again, beside everything else.

A daemon counts again what batches touched and, in turn, everything else, after a batch is durable and acted
upon, and never for longer than a hundredth of the time that has passed. A difference is a bug: it ends the
daemon. How many things are counted depends on the clock; no decision does.
"""

from collections.abc import Callable
from typing import Final

from projections.audit import RollingAudit

SHARE: Final = 110
"""One part in so many of the time may be spent on audits: less than a hundredth, also with what was saved up."""

CREDIT_MAX_NS: Final = 10_000_000
"""The most of that share that is saved up while nothing happens (10 ms)."""

SLICE_NS: Final = 5_000_000
"""How long one turn of the loop may audit (5 ms), beside what the last thing took that was begun within it."""

COUNT_MAX: Final = 1_000
"""Things that one turn may count again, also where the clock stands still meanwhile, as virtual time does."""


class Audits:
    """The audits of one State, within their share of the time."""

    def __init__(self, audit: RollingAudit, elapsed_ns: Callable[[], int]) -> None:
        self._audit = audit
        self._elapsed_ns = elapsed_ns
        self._credit_ns = 0
        self._seen_ns = elapsed_ns()
        self.spent_ns = 0
        """All that was spent so far."""
        self.count = 0
        """How many things were counted."""

    def turn(self) -> None:
        """Audit for as long as the share allows, and each thing at most once.

        Raises AssertionError where something does not add up.
        """
        now = began = self._elapsed_ns()
        self._credit_ns = min(CREDIT_MAX_NS, self._credit_ns + (now - self._seen_ns) // SHARE)
        self._seen_ns = began
        end = began + min(SLICE_NS, self._credit_ns)
        most = self.count + COUNT_MAX
        while now < end and self.count < most:
            self._audit.next()
            self.count += 1
            now = self._elapsed_ns()
            if self._audit.is_round_over:
                break
        self._credit_ns -= now - began
        self.spent_ns += now - began
