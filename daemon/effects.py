"""Effects: what was decided is asked of the cluster, and what came of it is answered.

At most `limit` bindings, evictions and phases are under way at a time, in the order of their decisions;
status updates have a narrower limit of their own, so that they never delay a binding.
Requests that write the same fields of an object are carried out one after the other, and one that was not begun is
replaced by a newer one: an older status never overwrites a newer one.
Every request has a deadline; one that passes it is answered `OutcomeUnknown`, and asked again later: each request
can be repeated without harm, as it names its object by UID.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from events.errors import ClusterError
from events.messages import (
    Answer,
    ConfigMapRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Reply,
    Request,
)

IN_FLIGHT_MAX: Final = 32
"""Requests under way at a time, where the settings do not say."""

TELLING_MAX: Final = 4
"""Of those that only tell, so many."""

DEADLINE_SECONDS: Final = 30.0
"""The longest a request may take."""

TELLING: Final = (
    *(PodConditionRequest, PodGroupConditionRequest),
    *(PodGroupCountsRequest, QueueStatusRequest, ConfigMapRequest),
)
"""Requests that only tell people and controllers what is known already."""


class Actor(Protocol):
    """The part of a cluster that acts."""

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out, and how many tries that took."""


class Stopwatch(Protocol):
    """Time that only goes forward."""

    def elapsed_ns(self) -> int:
        """Nanoseconds from an arbitrary beginning."""


Key = tuple[str, str]


class _Lane:
    """Requests that wait for each other."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.queue: dict[Key, tuple[int, Request]] = {}
        """Requests that were not begun, the oldest first, with their sequence numbers."""
        self.ready = asyncio.Event()

    async def next(self) -> tuple[int, Request]:
        while not self.queue:
            self.ready.clear()
            await self.ready.wait()
        return self.queue.pop(next(iter(self.queue)))


class Effects:
    """Requests under way, and answers not yet recorded."""

    def __init__(
        self, actor: Actor, stopwatch: Stopwatch, woken: asyncio.Event, limit: int = IN_FLIGHT_MAX
    ) -> None:
        self._actor = actor
        self._stopwatch = stopwatch
        self._woken = woken
        self._doing, self._telling = _Lane(limit), _Lane(min(limit, TELLING_MAX))
        self._idle = asyncio.Event()
        self._idle.set()
        self._count = 0
        self._open: dict[Key, None] = {}
        """What was asked for and whose answer was not taken."""
        self._answers: list[tuple[int, Answer]] = []

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return len(self._open) - len(self._answers)

    def ask(self, requests: Iterable[Request]) -> None:
        """Ask what is not being asked already, and has no answer that is still to be recorded."""
        for request in requests:
            key = _key(request)
            lane = self._telling if isinstance(request, TELLING) else self._doing
            if key in lane.queue:
                sequence, _ = lane.queue[key]
                lane.queue[key] = sequence, request
            elif key not in self._open or self._telling.queue.pop(key, None) is not None:
                self._open[key] = None
                self._count += 1
                lane.queue[key] = self._count, request
                lane.ready.set()
                self._idle.clear()

    def take(self) -> list[Answer]:
        """The answers that have come, in the order of the requests."""
        taken, self._answers = sorted(self._answers, key=_sequence), []
        for _, answer in taken:
            del self._open[_key(answer.request)]
        return [answer for _, answer in taken]

    async def all_answered(self) -> None:
        """Return when nothing is under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Carry requests out, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for lane in (self._doing, self._telling):
                for index in range(lane.limit):
                    workers.create_task(self._work(lane), name=f"effect-{index}")

    async def _work(self, lane: _Lane) -> None:
        while True:
            sequence, request = await lane.next()
            began = self._stopwatch.elapsed_ns()
            reply, attempts = await self._carry_out(request)
            latency_ns = self._stopwatch.elapsed_ns() - began
            answer = Answer(request=request, reply=reply, attempts=attempts, latency_ns=latency_ns)
            self._answers.append((sequence, answer))
            self._woken.set()
            if not self.in_flight:
                self._idle.set()

    async def _carry_out(self, request: Request) -> tuple[Reply, int]:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._actor.attempt(request)
        except TimeoutError:
            return OutcomeUnknown(message=f"no answer within {DEADLINE_SECONDS:g} s"), 1
        except ClusterError as error:
            return OutcomeUnknown(message=str(error)), 1


def _key(request: Request) -> Key:
    """Return what a request writes: the update of a phase writes the counts too."""
    kind = PodGroupPhaseRequest if isinstance(request, PodGroupCountsRequest) else type(request)
    return kind.__name__, request.uid


def _sequence(numbered: tuple[int, Answer]) -> int:
    return numbered[0]
