"""What the loop does differently where time is real, and where it is stepped: it stands still until nothing is left to do.

In stepped time nothing overlaps, so that neither the order in which tasks wake nor the latency of a database can change what
happens when: the loop waits for each answer before it takes in what came, and for each batch to be durable.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol

from daemon.auditing import Audits
from daemon.composition import audits_of
from daemon.effects import Effects
from daemon.intake import Intake
from daemon.monotonic_clock import Clock, LoopTime, MonotonicClock, SteppedClock, SteppedTime
from engine.batch import Batch
from engine.engine import Engine
from events.messages import Answer, Request, WatchMessage

RETRY_NS = 1_000_000_000
"""How long an unanswered binding, or a log that is away, is left alone before it is tried again."""


class LoopMode(Protocol):
    """How time passes while the loop works."""

    is_real: bool
    """Whether time passes: then watches are bounded, tenants take turns, batches are appended ahead, and the log is
    waited for. In stepped time only the loop lets time pass, so waiting would mend nothing."""

    def time(self, clock: Clock) -> LoopTime:
        """Return the time of the loop."""

    def audits(self, engine: Engine, elapsed_ns: Callable[[], int]) -> Audits | None:
        """Return the audits beside everything else, if there are any."""

    async def settle(self, effects: Effects) -> None:
        """Wait for what must have happened before a turn."""

    def is_behind(self, intake: Intake, effects: Effects) -> bool:
        """Return whether there is more to take in before time may move."""

    is_counted: bool
    """Whether the run ends after a number of cycle times, and leaves without the answers to what the last one asked."""

    def is_done(self, cycles: int) -> bool:
        """Return whether so many cycle times are enough."""

    def observe(
        self, engine: Engine, messages: deque[WatchMessage], now_ns: int
    ) -> tuple[Batch | None, Iterator[Batch] | None]:
        """Record watch messages. Return the first batch, and what is still to be recorded of a long list."""

    def follow_ups(self, engine: Engine, answers: list[Answer]) -> Iterable[Request]:
        """Return the requests that do not wait for the next cycle."""

    def moments(self, engine: Engine, now_ns: int, cycle_ns: int) -> Iterator[int]:
        """Yield when the loop has something to do although nothing happens; `cycle_ns` is the next cycle's time."""


class RealTime:
    """Time goes on while the loop works."""

    is_real = True
    is_counted = False

    def time(self, clock: Clock) -> LoopTime:
        return MonotonicClock(clock)

    def audits(self, engine: Engine, elapsed_ns: Callable[[], int]) -> Audits | None:
        return audits_of(engine, elapsed_ns)

    async def settle(self, effects: Effects) -> None:
        pass

    def is_behind(self, intake: Intake, effects: Effects) -> bool:
        return False

    def is_done(self, cycles: int) -> bool:
        return False

    def observe(
        self, engine: Engine, messages: deque[WatchMessage], now_ns: int
    ) -> tuple[Batch | None, Iterator[Batch] | None]:
        rest = engine.observe_in_parts(messages, now_ns)
        first = next(rest, None)
        return first, rest if engine.is_taking_in else None

    def follow_ups(self, engine: Engine, answers: list[Answer]) -> Iterable[Request]:
        return engine.follow_up_requests(answers) if answers else ()

    def moments(self, engine: Engine, now_ns: int, cycle_ns: int) -> Iterator[int]:
        yield from _decisions(engine, cycle_ns)
        if engine.state.commitments or engine.state.evictions:
            yield now_ns + RETRY_NS
        if engine.has_status_updates:
            yield cycle_ns


class SteppedMode:
    """Time moves only when nothing else can."""

    is_real = False

    def __init__(self, clock: SteppedClock, cycles_max: int | None = None) -> None:
        """With `cycles_max`, stop after so many cycle times, whether or not a cycle was due."""
        self._clock = clock
        self._cycles_max = cycles_max
        self.is_counted = cycles_max is not None

    def time(self, clock: Clock) -> LoopTime:
        return SteppedTime(clock)

    def audits(self, engine: Engine, elapsed_ns: Callable[[], int]) -> Audits | None:
        return None

    async def settle(self, effects: Effects) -> None:
        await effects.all_answered()
        await self._clock.settle()

    def is_behind(self, intake: Intake, effects: Effects) -> bool:
        return bool(len(intake) or effects.in_flight)

    def is_done(self, cycles: int) -> bool:
        return self._cycles_max is not None and cycles >= self._cycles_max

    def observe(
        self, engine: Engine, messages: deque[WatchMessage], now_ns: int
    ) -> tuple[Batch | None, Iterator[Batch] | None]:
        return engine.observe(messages, now_ns), None

    def follow_ups(self, engine: Engine, answers: list[Answer]) -> Iterable[Request]:
        return chain(engine.urgent_requests(), engine.follow_up_requests(answers))

    def moments(self, engine: Engine, now_ns: int, cycle_ns: int) -> Iterator[int]:
        if self._cycles_max is not None:
            yield cycle_ns
        else:
            yield from _decisions(engine, cycle_ns)


def _decisions(engine: Engine, cycle_ns: int) -> Iterator[int]:
    """Yield when a cycle could decide anything."""
    if engine.is_due(cycle_ns):
        yield cycle_ns
    elif (deadline := engine.state.next_deadline_ns) is not None:
        yield max(deadline, cycle_ns)
