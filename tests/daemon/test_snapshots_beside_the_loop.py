"""The daemon writes snapshots of a fork of State, while its loop goes on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon import snapshot_keeper
from daemon.clock import WallClock
from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.world_file import WorldFile
from daemon.deciding_thread import DecidingThread
from daemon.fold import fold, refolder, restored
from daemon.log.memory import MemoryLog
from daemon.log.snapshots import payload_of
from daemon.loop import Loop, Running
from daemon.simulation import policy_of
from events.errors import LogUnavailableError
from projections import snapshot
from projections.state import State
from simulator.scenario import parse_scenario
from tests.storm.judge import entries_of, replayed

PATIENCE_SECONDS = 20.0
SCENARIO = """\
scenario: pods that come one by one
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 20}}}
  - {kind: Pod, metadata: {name: "a{i}"}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}, count: 3}
steps:
  - {at: 0.3s, apply: [{kind: Pod, metadata: {name: b}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}]}
  - {at: 0.6s, apply: [{kind: Pod, metadata: {name: c}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}]}
"""


class SlowEncoder:
    """Encodes State as soon as it may."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.has_begun = threading.Event()

    def payload_of(self, state: State) -> bytes:
        """Return the bytes of a snapshot."""
        self.has_begun.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return payload_of(state)


class UnwillingLog(MemoryLog):
    """A log that cannot take the first snapshot."""

    refused: int = 0
    """The position of that snapshot."""

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Fail the first time."""
        if not self.refused:
            self.refused = position
            raise LogUnavailableError("the disk is full")
        await super().save_snapshot(position, digest, code, payload)


class Daemon:
    """A loop with a deciding thread that keeps State every five records."""

    def __init__(self, folder: Path, log: MemoryLog) -> None:
        scenario = parse_scenario(SCENARIO, "test.yaml")
        clock = WallClock()
        self.log = log
        self._thread = DecidingThread(clock.elapsed_ns)
        file = WorldFile(folder / "world.db", scenario, clock.now_ns())
        self._cluster = RealTimeCluster(scenario, file, clock.now_ns)
        running = Running(
            holder="test",
            version="test",
            period_ns=10_000_000,
            policy=policy_of(scenario),
            snapshot_every=5,
            has_deciding_thread=True,
        )
        fold_again = refolder(log, with_views=False)
        self.loop = Loop(log, self._cluster, clock, fold_again, running, thread=self._thread)

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run the loop beside the block; after it, let it stop in good order."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
                task = tasks.create_task(self.loop.run(), name="loop")
                yield task
                self.loop.stop()
        finally:
            await self._cluster.close()
            self._thread.close()

    async def until_bound(self, name: str) -> None:
        """Wait until the outcome of a binding is in the log."""
        bound = ("pod_bound.v1", f"Pod/default/{name}")
        await until(lambda: bound in [(one.kind, one.subject) for one in self.log.memory.records])

    def kept(self) -> list[int]:
        """Return the positions of the snapshots in the log."""
        return [one.position for one in self.log.memory.snapshots]


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowEncoder]:
    encoder = SlowEncoder()
    monkeypatch.setattr(snapshot_keeper, "payload_of", encoder.payload_of)
    yield encoder
    encoder.may_go_on.set()


async def until(happened: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not happened():  # noqa: ASYNC110 - the loop does not tell tests about itself
        await asyncio.sleep(0.005)


async def ended_while_it_encodes(daemon: Daemon, encoder: SlowEncoder) -> None:
    """Run a daemon, and end it without a word in the middle of a snapshot."""
    with suppress(asyncio.CancelledError):
        async with daemon.runs() as task:
            await asyncio.to_thread(encoder.has_begun.wait, PATIENCE_SECONDS)
            task.cancel()
            await task


async def test_pods_are_bound_while_a_snapshot_is_being_encoded(
    tmp_path: Path, encoder: SlowEncoder
) -> None:
    daemon = Daemon(tmp_path, MemoryLog())
    async with daemon.runs():
        await asyncio.to_thread(encoder.has_begun.wait, PATIENCE_SECONDS)
        await daemon.until_bound("c")
        assert daemon.kept() == []
        bound_at = daemon.log.head.position
        encoder.may_go_on.set()
        await until(lambda: bool(daemon.kept()))
    first = daemon.log.memory.snapshots[0]
    assert first.position < bound_at
    daemon.log.memory.snapshots = []
    folded = await fold(daemon.log, until=first.position)
    assert snapshot.take(restored(first)) == snapshot.take(folded)


async def test_the_last_snapshot_is_of_the_end_although_another_was_under_way_when_it_was_asked_to_stop(
    tmp_path: Path, encoder: SlowEncoder
) -> None:
    daemon = Daemon(tmp_path, MemoryLog())
    async with daemon.runs():
        await daemon.until_bound("b")
        daemon.loop.stop()
        encoder.may_go_on.set()
    assert len(daemon.kept()) == 2
    assert daemon.kept()[-1] == daemon.log.head.position


async def test_a_daemon_that_ends_while_it_encodes_leaves_a_log_without_that_snapshot(
    tmp_path: Path, encoder: SlowEncoder
) -> None:
    daemon = Daemon(tmp_path, MemoryLog())
    await ended_while_it_encodes(daemon, encoder)
    encoder.may_go_on.set()
    assert daemon.kept() == []
    second = Daemon(tmp_path, daemon.log)
    async with second.runs():
        await second.until_bound("c")
    assert second.kept()[-1] == second.log.head.position
    replayed(await entries_of(second.log))


async def test_a_snapshot_that_cannot_be_written_is_a_warning_and_the_next_one_is(
    tmp_path: Path,
) -> None:
    log = UnwillingLog()
    daemon = Daemon(tmp_path, log)
    with capture_logs() as said:
        async with daemon.runs():
            await daemon.until_bound("c")
            await until(lambda: bool(daemon.kept()))
    [warning] = [one for one in said if one["event"] == "a snapshot was not written"]
    assert (warning["log_level"], warning["position"]) == ("warning", log.refused)
    assert warning["error"] == "the disk is full"
    assert log.refused not in daemon.kept()
