"""A loop in this process, around shores that misbehave as they are told."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from daemon.clock import WallClock
from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.world_file import WorldFile
from daemon.fold import refolder
from daemon.log.entry import Entry
from daemon.log.memory import Memory, MemoryLog
from daemon.loop import Loop, Running
from daemon.simulation import policy_of
from engine.batch import Batch
from events.codec import event_of
from events.errors import LogUnavailableError
from events.messages import (
    BindRequest,
    OutcomeUnknown,
    Rejected,
    Reply,
    Request,
    ResumePoint,
    WatchMessage,
)
from events.record import Head
from events.union import Event
from simulator.journal import JournalEntry
from simulator.scenario import parse_scenario
from tests.storm.judge import entries_of, journal, replayed

PATIENCE_SECONDS = 20.0
PERIOD_NS = 10_000_000


class FlakyLog(MemoryLog):
    """A log that is away when told so, and that may lose the answer to what it took in."""

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__(memory)
        self.is_away = False
        self.leaves_at = ""
        """The kind of record at which it goes away."""
        self.takes_it_in = False
        """Whether that record is in the log nevertheless."""
        self.seconds = 0.0
        """How long an append takes."""
        self.failures = 0
        self.answers = asyncio.Event()
        """While this is not set, an append has no end."""
        self.answers.set()

    async def append(self, *batches: Batch) -> None:
        """Take the batches in, unless the log is away."""
        await asyncio.sleep(self.seconds)
        await self.answers.wait()
        for batch in batches:
            await self._append(batch)

    async def _append(self, batch: Batch) -> None:
        if self.leaves_at in {record.kind for record in batch.records}:
            self.is_away, self.leaves_at = True, ""
            if self.takes_it_in:
                await super().append(batch)
        elif not self.is_away:
            await super().append(batch)
        if self.is_away:
            self.failures += 1
            raise LogUnavailableError("the log is away")

    async def reopen(self) -> Head:
        """Fail as long as the log is away."""
        if self.is_away:
            self.failures += 1
            raise LogUnavailableError("the log is still away")
        return await super().reopen()


class Moody:
    """A simulated cluster that refuses, forgets to answer, or takes its time, in this order."""

    def __init__(self, cluster: RealTimeCluster) -> None:
        self._cluster = cluster
        self.moods: deque[str] = deque()
        """For the bindings to come: `refuse`, `lose` (done, not answered), `hang`; else as usual."""
        self.asked: list[str] = []
        self.released = asyncio.Event()

    def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """As they are."""
        return self._cluster.messages()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """As it is."""
        self._cluster.resume_from(progress)

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """A binding as the mood is, everything else as usual."""
        if isinstance(request, BindRequest):
            return await self._bind(request), 1
        return await self._cluster.attempt(request)

    async def _bind(self, request: BindRequest) -> Reply:
        self.asked.append(request.name)
        mood = self.moods.popleft() if self.moods else ""
        if mood == "refuse":
            return Rejected("InternalError", "not today")
        if mood == "hang":
            await self.released.wait()
        reply = await self._cluster.perform(request)
        return OutcomeUnknown("the answer was lost") if mood == "lose" else reply


class Rig:
    """A loop, its shores, and what a test looks at."""

    def __init__(
        self,
        folder: Path,
        text: str,
        in_flight_max: int = 8,
        intake_max: int = 10_000,
        period_ns: int = PERIOD_NS,
    ) -> None:
        scenario = parse_scenario(f"scenario: a test\n{text}", "test.yaml")
        clock = WallClock()
        self.world = folder / "world.db"
        file = WorldFile(self.world, scenario, clock.now_ns())
        self._cluster = RealTimeCluster(scenario, file, clock.now_ns)
        self.cluster = Moody(self._cluster)
        self.log = FlakyLog()
        running = Running(
            holder="test",
            version="test",
            period_ns=period_ns,
            policy=policy_of(scenario),
            in_flight_max=in_flight_max,
            intake_max=intake_max,
        )
        fold = refolder(self.log, with_views=False)
        self.loop = Loop(self.log, self.cluster, clock, fold, running)

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[None]:
        """Run the loop beside the block; after it, let it stop in good order."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
                tasks.create_task(self.loop.run(), name="loop")
                yield
                self.loop.stop()
        finally:
            await self._cluster.close()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Until something is so."""
        while not happened():  # noqa: ASYNC110 - the loop does not tell tests about itself
            await asyncio.sleep(0.005)

    def events(self) -> list[Event]:
        """What the log holds."""
        return [event_of(record) for record in self.log.memory.records]

    def count(self, kind: type[Event]) -> int:
        """How many events of a kind the log holds."""
        return sum(isinstance(event, kind) for event in self.events())

    def bound(self) -> list[str]:
        """Names of the pods that were really bound, in order."""
        return [call.name for call in self.calls() if call.result == "done"]

    def calls(self) -> list[JournalEntry]:
        """Bindings that reached the cluster."""
        return [call for call in journal(self.world)[0] if call.verb == "bind"]

    async def known(self) -> dict[str, str]:
        """Pods that State knows, with their nodes, after a replay that agreed with the log."""
        entries: list[Entry] = await entries_of(self.log)
        state = replayed(entries)
        assert not state.commitments
        return {pod.facts.name: pod.node for pod in state.cluster.pods.values()}
