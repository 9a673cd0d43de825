"""A loop with everything an operator sees around it, asked over HTTP while its shores misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from daemon.clock import WallClock
from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.world_file import WorldFile
from daemon.fold import refolder
from daemon.health import Health
from daemon.loop import Loop, Running
from daemon.observability import Observability
from daemon.settings import Settings, Supervision
from daemon.simulation import policy_of
from daemon.stderr import Teller
from events.decisions.gang_bind import GangBindDecided
from simulator.scenario import parse_scenario
from tests.storm.rig import FlakyLog

PATIENCE_SECONDS = 20.0
MONTH_NS = 30 * 24 * 3600 * 1_000_000_000
SCENARIO = """\
scenario: a test
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 20}}}
  - {kind: Pod, metadata: {name: "a{i}"}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}, count: 3}
"""


class SetClock(WallClock):
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.set_by_ns = 0

    def now_ns(self) -> int:
        """The time, as wrong as it was set."""
        return super().now_ns() + self.set_by_ns


class Daemon:
    """A daemon over a simulated cluster, and someone who asks it."""

    def __init__(self, folder: Path) -> None:
        scenario = parse_scenario(SCENARIO, "test.yaml")
        self.clock = clock = SetClock()
        self.operation = Observability(clock.elapsed_ns, Teller(), "1.2.3", 4)
        self.log = FlakyLog()
        self._policy = policy_of(scenario)
        file = WorldFile(folder / "world.db", scenario, clock.now_ns())
        self._cluster = RealTimeCluster(scenario, file, clock.now_ns)
        running = Running(holder="test", version="test", period_ns=10_000_000, policy=self._policy)
        self.loop = Loop(
            self.operation.heard(self.log),
            self._cluster,
            clock,
            refolder(self.log, with_views=False),
            running,
            self.operation.health,
        )
        metrics = self.operation.metrics
        self.loop.cycle_held = metrics.counted.cycle_held
        metrics.sources.state = lambda: None if self.loop.engine is None else self.loop.engine.state
        self._url = ""
        self._session: aiohttp.ClientSession | None = None

    def wake(self) -> None:
        """Let the loop turn: the same policy is no change."""
        self.loop.change_policy(self._policy)

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[None]:
        """With a loop beside the block."""
        settings = Settings(listen="127.0.0.1:0")
        async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession() as self._session:
            with capture_logs() as said:
                async with self.operation.open(settings, Path(), Supervision()):
                    self._url = f"http://{said[0]['address']}"
                    try:
                        async with asyncio.TaskGroup() as tasks:
                            tasks.create_task(self.loop.run(), name="loop")
                            self.operation.health.clear("start")
                            yield
                            self.loop.stop()
                    finally:
                        await self._cluster.close()

    async def answers(self, path: str, status: int, text: str) -> None:
        """Wait until a path answers like this."""
        assert self._session is not None
        while True:
            async with self._session.get(self._url + path) as answer:
                if answer.status == status and text in await answer.text():
                    return
            await asyncio.sleep(0.01)


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path)


async def test_a_daemon_can_be_watched_while_it_works(daemon: Daemon) -> None:
    async with daemon.runs():
        await daemon.answers("/readyz", 200, '"ready":true')
        await daemon.answers("/livez", 200, '"live":true')
        await daemon.answers("/metrics", 200, 'muster_bind_seconds_count{result="bound"} 3.0')
        await daemon.answers("/metrics", 200, 'muster_placements_total{queue="default"} 3.0')
        await daemon.answers("/metrics", 200, "muster_commitments 0.0")
        assert daemon.loop.cycles > 0


async def test_an_unavailable_log_makes_the_running_daemon_not_ready(daemon: Daemon) -> None:
    daemon.log.leaves_at = GangBindDecided.kind
    async with daemon.runs():
        await daemon.answers("/readyz", 503, '"log":"the log is')
        await daemon.answers("/livez", 200, '"live":true')
        await daemon.answers("/metrics", 200, 'muster_not_ready{reason="log"} 1.0')
        await daemon.answers("/metrics", 200, "muster_ready 0.0")
        daemon.log.is_away = False
        await daemon.answers("/readyz", 200, '"reasons":{}')
        await daemon.answers("/metrics", 200, 'muster_bind_seconds_count{result="bound"} 3.0')


async def test_a_loop_that_waits_for_the_log_too_long_is_not_alive(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Health.beat, "__defaults__", ("loop", 0.2))
    daemon.log.seconds = 1.0
    async with daemon.runs():
        await daemon.answers("/livez", 503, '"still":{"loop":')
        daemon.log.seconds = 0.0


async def test_a_clock_set_30_days_forward_and_back_is_said_and_not_followed(
    daemon: Daemon,
) -> None:
    metrics = daemon.operation.metrics
    metrics.sources.clock_ahead = lambda: daemon.loop.ahead_seconds
    async with daemon.runs():
        await daemon.answers("/readyz", 200, '"ready":true')
        daemon.clock.set_by_ns = MONTH_NS
        daemon.wake()
        await daemon.answers("/readyz", 200, "behind this machine's clock")
        await daemon.answers("/metrics", 200, "muster_ready 1.0")
        await daemon.answers("/metrics", 200, "muster_clock_ahead_seconds -2")
        daemon.clock.set_by_ns = 0
        daemon.wake()
        await daemon.answers("/readyz", 200, '"reasons":{}')
        assert daemon.loop.engine is not None
        assert daemon.loop.engine.state.now_ns < daemon.clock.now_ns() + 120_000_000_000
