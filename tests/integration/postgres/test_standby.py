"""Two daemons on one log in PostgreSQL: the second knows all that the first knew, and goes on (K14)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import SystemRandom

import pytest
from msgspec.structs import replace

from daemon.clock import WallClock
from daemon.cluster.lease import Lease
from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.world_file import WorldFile
from daemon.fold import refolder
from daemon.leader import LeaderLoop, Warm, Work
from daemon.leadership import Elector, Timing
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.verify import verify
from daemon.loop import Loop, Running
from daemon.simulation import policy_of
from engine.engine import Engine
from events.errors import ClusterError
from events.record import Head
from simulator.scenario import Scenario, parse_scenario
from tests.daemon.cli.builders import muster
from tests.daemon.log.contract import entries
from tests.daemon.standing_by import follower, following, must_equal_a_cold_fold, until, write
from tests.integration.postgres.conftest import execute
from tests.integration.postgres.server import Server

PODS = 60
SCENARIO = f"""
scenario: pods come and go for a while
period: 50ms
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {{name: "n{{i}}"}}
    status: {{allocatable: {{cpu: "8", memory: 64Gi, pods: "20"}}}}
    count: 2
  - apiVersion: v1
    kind: Pod
    metadata: {{name: "p{{i}}", annotations: {{muster.sh/run-seconds: "1"}}}}
    spec: {{containers: [{{name: main, resources: {{requests: {{cpu: "1"}}}}}}]}}
    count: {PODS}
"""
QUICK = Timing(
    lease_seconds=2, renew_seconds=0.3, give_up_seconds=1.3, poll_seconds=0.3, try_seconds=0.5
)


class Desk:
    """Where the lease lies, in real time."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.renewed_at: dict[str, float] = {}
        self.dead: set[str] = set()
        """Holders that no longer respond."""
        self._version = 0

    def keep(self, lease: Lease) -> Lease:
        """Write it."""
        self._version += 1
        self.lease = replace(lease, version=str(self._version))
        self.renewed_at[lease.holder] = asyncio.get_running_loop().time()
        return self.lease


class Way:
    """One daemon's way to the desk."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self._name = name

    async def read(self) -> Lease | None:
        self._check()
        return self._desk.lease

    async def create(self, lease: Lease) -> Lease:
        self._check()
        assert self._desk.lease is None
        return self._desk.keep(lease)

    async def update(self, lease: Lease) -> Lease:
        self._check()
        if self._desk.lease is None or self._desk.lease.version != lease.version:
            raise ClusterError("409 Conflict")
        return self._desk.keep(lease)

    def _check(self) -> None:
        if self._name in self._desk.dead:
            raise ClusterError("no route to the server")


class Daemon:
    """A daemon of its own around a cluster that others share."""

    def __init__(self, name: str, url: str, cluster: RealTimeCluster, desk: Desk) -> None:
        self.name = name
        self.warm: list[bool] = []
        """Of each term, whether it began warm."""
        self.loop: Loop | None = None
        self._url = url
        self._cluster = cluster
        self._clock = WallClock()
        self.elector = Elector(
            Way(desk, name),
            name,
            now_ns=self._clock.now_ns,
            jitter=SystemRandom().random,
            timing=QUICK,
        )
        self.career = LeaderLoop(
            self._begin, elector=self.elector, standby=lambda: follower(url), pause_seconds=0.5
        )

    @asynccontextmanager
    async def _begin(self, warm: Warm) -> AsyncIterator[Work]:
        log = await open_log(self._url, "write")
        cold = refolder(log, with_views=True)

        async def refold(head: Head) -> Engine:
            engine = await warm(head)
            self.warm.append(engine is not None)
            if engine is not None:
                await must_equal_a_cold_fold_at(engine, log, head)
            return await cold(head) if engine is None else engine

        try:
            running = Running(
                holder=self.name, version="1", period_ns=50_000_000, policy=policy_of(scenario())
            )
            self.loop = Loop(log, self._cluster, self._clock, refold, running)
            yield self.loop
        finally:
            await log.close()


async def must_equal_a_cold_fold_at(engine: Engine, log: Log, head: Head) -> None:
    """The views of a warm step go by the same numbers as those in the database."""
    assert (engine.head, log.head) == (head, head)
    found = {one.name: one.checksum for one in await log.projections()}
    assert engine._views is not None  # noqa: SLF001  # nothing else shows it
    assert engine._views.checksums() == found  # noqa: SLF001


def scenario() -> Scenario:
    return parse_scenario(SCENARIO, "shared")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealTimeCluster]:
    clock = WallClock()
    file = WorldFile(tmp_path / "world", scenario(), clock.now_ns())
    yield RealTimeCluster(scenario(), file, clock.now_ns)
    file.close()


async def bound(url: str) -> list[str]:
    """Of each binding that the log knows, whose it was."""
    log = await open_log(url, "read")
    found = [e.record.subject for e in await entries(log) if e.record.kind.startswith("pod_bound.")]
    await log.close()
    return found


async def until_bound(url: str, count: int) -> None:
    """Wait until the log knows of so many bindings."""
    for _ in range(600):
        if len(set(await bound(url))) >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(await bound(url))


async def judged(url: str, path: Path) -> None:
    """By the world's own journal each pod was bound once; the log is whole, and replays equal."""
    file = WorldFile(path, scenario(), 0)
    binds = [call.name for call in file.calls() if call.verb == "bind" and call.result == "done"]
    file.close()
    assert sorted(binds) == sorted(set(binds))
    assert len(binds) == PODS
    log = await open_log(url, "read")
    await verify(log)
    await log.close()
    assert sorted(await bound(url)) == sorted(set(await bound(url)))
    for words in (["replay", url], ["rebuild", "--log", url]):
        result = await asyncio.to_thread(muster, *words)
        assert result.exit_code == 0, result.output


async def test_a_killed_leader_is_followed_warm_and_nothing_is_lost_or_doubled(
    url: str, cluster: RealTimeCluster, tmp_path: Path
) -> None:
    """Within the lease's duration and 3 s of the last renewal, and not sooner (K14.2)."""
    desk = Desk()
    first, second = (Daemon(name, url, cluster, desk) for name in ("first", "second"))
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as tasks:
        dying = tasks.create_task(first.career.run())
        await until_deciding(first)
        living = tasks.create_task(second.career.run())
        await until_bound(url, PODS // 3)
        desk.dead.add("first")
        dying.cancel()
        killed_at, renewed_at = now(), desk.renewed_at["first"]
        await until_deciding(second)
        decides_at = now()
        await until_bound(url, PODS)
        second.career.stop()
        await living
    assert second.warm == [True]
    assert killed_at - renewed_at < QUICK.lease_seconds
    assert QUICK.lease_seconds <= decides_at - renewed_at < QUICK.lease_seconds + 3
    assert desk.lease is not None
    assert desk.lease.holder == ""
    await judged(url, tmp_path / "world")


async def test_a_leader_that_leaves_is_followed_warm_within_3_s(
    url: str, cluster: RealTimeCluster, tmp_path: Path
) -> None:
    """K14.5; there and back again."""
    desk = Desk()
    daemons = [Daemon(name, url, cluster, desk) for name in ("one", "two", "three")]
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as tasks:
        leader = daemons[0]
        running = tasks.create_task(leader.career.run())
        await until_deciding(leader)
        for follows in daemons[1:]:
            task = tasks.create_task(follows.career.run())
            await asyncio.sleep(0.7)
            leader.career.stop()
            await running
            left_at = now()
            await until_deciding(follows)
            assert now() - left_at < 3
            assert follows.warm == [True]
            leader, running = follows, task
        await until_bound(url, PODS)
        leader.career.stop()
    await judged(url, tmp_path / "world")


async def until_deciding(daemon: Daemon) -> None:
    await until(lambda: daemon.loop is not None and daemon.loop.is_synced)


async def test_a_paused_leader_is_fenced_out_by_the_epoch_k14_6(
    url: str, cluster: RealTimeCluster, tmp_path: Path
) -> None:
    """A writer with an old epoch changes nothing, and becomes a candidate again."""
    desk = Desk()
    first, second = (Daemon(name, url, cluster, desk) for name in ("first", "second"))
    # It does not notice that its lease has run out: as if it had been stopped in between.
    hold, first.elector.hold = first.elector.hold, forever  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.career.run())
        await until_deciding(first)
        desk.lease = None
        tasks.create_task(second.career.run())
        await until_deciding(second)
        await until(lambda: first.career.post.role == "standby")
        assert "someone else writes this log" in first.career.post.reason
        first.elector.hold = hold  # type: ignore[method-assign]
        await until_bound(url, PODS)
        for daemon in (first, second):
            daemon.career.stop()
    await judged(url, tmp_path / "world")


async def forever() -> str:
    await asyncio.Event().wait()
    return ""


async def test_a_standby_sees_what_is_appended_without_asking(url: str) -> None:
    """LISTEN and NOTIFY, not the poll of every few seconds."""
    log = await open_log(url, "write")
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
        await write(log)
        async with asyncio.timeout(2):
            await until(lambda: standby.position == log.head.position)
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()
    await log.close()


async def test_a_standby_outlives_a_crash_of_the_server(own_server: Server) -> None:
    await execute(own_server, "CREATE DATABASE mine")
    url = own_server.url("mine")
    log = await open_log(url, "write")
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
        await write(log)
        await until(lambda: standby.position == log.head.position)
        own_server.crash()
        await until(lambda: not standby.is_ready)
        assert standby.reason
        own_server.recover()
        await until(lambda: standby.is_ready)
    await log.reopen()
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()
    await log.close()
