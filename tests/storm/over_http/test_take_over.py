"""Two daemons on one log in PostgreSQL and one API server; the leader is killed, or leaves (rule K14)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import asyncpg
import pytest
from msgspec import Struct

from daemon.clock import WallClock
from daemon.cluster.server.simulated_api_server import Server as ApiServer
from daemon.cluster.server.simulated_api_server import running_server
from daemon.log.opening import open_log
from daemon.log.verify import verify
from simulator.manifest_fields import section, text_at
from simulator.object_store import Change
from tests.integration.postgres.conftest import execute, started
from tests.integration.postgres.server import Server
from tests.storm.daemon_process import DaemonProcess, chance
from tests.storm.judge import check_outcomes, decided_in, entries_of, replayed
from tests.storm.over_http.crowd import Crowd, cluster_of
from tests.storm.over_http.witness import Witness

pytestmark = pytest.mark.postgres

SEED = 41
SECOND_NS = 1_000_000_000
SLACK_SECONDS = 3.0
"""Beside the duration of the lease, in which the successor must have decided."""
BUSY_SECONDS = 1.0
"""The longest from the arrival of pods to the leader's death."""
PATIENCE_SECONDS = 60.0


class Terms(Struct, frozen=True):
    """How long a lease lasts."""

    lease_seconds: int = 15
    renew_seconds: float = 2.0
    give_up_seconds: float = 10.0

    @property
    def settings(self) -> str:
        """As a settings file has them."""
        told = f"lease_seconds: {self.lease_seconds}\nrenew_seconds: {self.renew_seconds}\n"
        told += f"give_up_seconds: {self.give_up_seconds}\n"
        return told + "period_seconds: 0.2\nsnapshot_every: 2000\nlisten: ''\nlog_level: info\n"


DEFAULT = Terms()
SHORT = Terms(lease_seconds=3, renew_seconds=0.5, give_up_seconds=2.0)
QUICK = Terms(lease_seconds=2, renew_seconds=0.3, give_up_seconds=1.3)


class Renewals:
    """When each holder last wrote the lease, as the server saw it."""

    def __init__(self, server: ApiServer) -> None:
        self.holder = ""
        self.at_ns: dict[str, int] = {}
        self._now_ns = WallClock().now_ns
        server.api.simulated.store.listen(self._note)

    def _note(self, change: Change) -> None:
        if change.after is not None and change.after["kind"] == "Lease":
            self.holder = text_at(section(change.after, "spec"), "holderIdentity")
            self.at_ns[self.holder] = self._now_ns()

    @property
    def pid(self) -> int:
        """The process that leads; 0 for none."""
        return int(self.holder.split("_")[-2]) if self.holder else 0


class Pair:
    """Two daemons and their server."""

    def __init__(self, server: ApiServer, folder: Path, url: str, terms: Terms) -> None:
        self.server = server
        self.terms = terms
        self.crowd = Crowd(server.api)
        self.witness = Witness(server.api)
        self.renewals = Renewals(server)
        self.url = url
        self.daemons: list[DaemonProcess] = []
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        for name in ("one", "two"):
            (folder / name).mkdir()
            shore = ["--kubeconfig", str(kubeconfig)]
            self.daemons.append(DaemonProcess(folder / name, url, shore, terms.settings))
        self._connection: asyncpg.Connection | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Both of them, one after the other, as long as the block lasts."""
        self._connection = await asyncpg.connect(self.url)
        try:
            await self.daemons[0].start()
            self.crowd.come(8)
            await self.until_all_are_bound()
            await self.daemons[1].start()
            await self.standing_by(self.daemons[1])
            yield
        finally:
            for daemon in self.daemons:
                await daemon.kill()
            await self._connection.close()

    @property
    def leader(self) -> DaemonProcess:
        """Who holds the lease."""
        return next(one for one in self.daemons if one.pid == self.renewals.pid)

    async def kill_the_leader(self, moment: float, pods: int) -> float:
        """Kill it so many seconds after pods came; seconds from its last renewal to the next decision."""
        self.crowd.come(pods // 2)
        await asyncio.sleep(moment)
        leader, position = self.leader, await self.position()
        await leader.kill()
        renewed_ns = self.renewals.at_ns[self.renewals.holder]
        self.crowd.come(pods - pods // 2)
        await leader.start()
        decided_ns = await self.decided_after(position)
        await self.standing_by(leader)
        return (decided_ns - renewed_ns) / SECOND_NS

    async def let_the_leader_leave(self, pods: int) -> float:
        """Seconds from its leaving to the next decision."""
        leader, position = self.leader, await self.position()
        assert await leader.stop() == 0, leader.told[-2000:]
        left_ns = WallClock().now_ns()
        self.crowd.come(pods)
        await leader.start()
        decided_ns = await self.decided_after(position)
        await self.standing_by(leader)
        return (decided_ns - left_ns) / SECOND_NS

    async def standing_by(self, daemon: DaemonProcess) -> None:
        """Until it could take over: it knows all that the log holds, and since when the lease stands."""
        await daemon.until_told('"event":"the lease changed hands"')
        await daemon.until_told('"reason":"warm"')

    async def decided_after(self, position: int) -> int:
        """When something was first decided behind a position, in a later epoch than that."""
        query = (
            "select min(recorded_at_ns) from log where position > $1 "
            "and epoch > (select epoch from log where position = $1) "
            "and kind like 'gang_bind_decided.%'"
        )

        async def decided() -> bool:
            return await self._fetch(query, position) is not None

        await self.until_so(decided)
        return int(await self._fetch(query, position) or 0)

    async def position(self) -> int:
        """Where the log ends."""
        return int(await self._fetch("select position from log_head") or 0)

    async def until_all_are_bound(self) -> None:
        """Wait until no pod is pending."""
        await self.until(lambda: not self.crowd.waiting())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what others do."""

        async def held() -> bool:
            return holds()

        await self.until_so(held)

    async def until_so(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for what others do, and say how it stands if they do not."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await holds():
                    assert any(one.is_alive for one in self.daemons), self._told()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{self.crowd.waiting()} wait; {self._told()}") from None

    async def judged(self) -> None:
        """Each pod is where the log says, and was bound once; the log is whole, and replays equal."""
        assert self.witness.doubled == []
        assert len(self.witness.bound) == self.crowd.made
        entries = self.server.shell.journal.entries
        done = [one.name for one in entries if (one.resource, one.status) == ("pods/binding", 201)]
        assert sorted(done) == sorted(set(done)), "a binding was answered as done twice"
        log = await open_log(self.url, "read")
        await verify(log)
        found = await entries_of(log)
        await log.close()
        state = replayed(found)
        decided = decided_in(found)
        check_outcomes(found, decided)
        meant = {(uid, node) for (_, uid), node in decided.items()}
        really = {(uid, node) for uid, (_, node) in self.witness.bound.items()}
        assert really <= meant, f"bound, and not decided: {really - meant}"
        assert {(uid, pod.node) for uid, pod in state.cluster.pods.items()} == really
        assert not any("Traceback" in one.told for one in self.daemons), self._told()

    async def _fetch(self, query: str, *values: int) -> int | None:
        assert self._connection is not None
        found: int | None = await self._connection.fetchval(query, *values)
        return found

    def _told(self) -> str:
        return "\n".join(one.told[-1500:] for one in self.daemons)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for these logs."""
    server = started()
    yield server
    server.close()


@asynccontextmanager
async def pair(
    server: Server, folder: Path, name: str, terms: Terms, nodes: int
) -> AsyncIterator[Pair]:
    """Two daemons on so many nodes."""
    await execute(server, f"CREATE DATABASE {name}")
    async with running_server(cluster_of(nodes)) as api_server:
        two = Pair(api_server, folder, server.url(name), terms)
        async with two.run():
            yield two


def told(seconds: list[float]) -> str:
    """Of take-overs."""
    least, most = min(seconds), max(seconds)
    return f"{len(seconds)} take-overs: {least:.2f} / {median(seconds):.2f} / {most:.2f} s"


async def storm(two: Pair, kills: int, pods: int, seed: int) -> list[float]:
    """Kill the leader so many times at random moments; how long its successors took."""
    seconds: list[float] = []
    each = max(1, pods // kills)
    for index in range(kills):
        moment = BUSY_SECONDS * chance(seed, "moment", index)
        seconds.append(await two.kill_the_leader(moment, each))
    two.crowd.come(pods - two.crowd.made)
    await two.until_all_are_bound()
    return seconds


async def test_a_killed_leader_is_followed_and_no_pod_is_lost_or_bound_twice(
    tmp_path: Path, server: Server
) -> None:
    """K14.2, K14.6: within the duration of the lease and 3 s of the last renewal."""
    async with pair(server, tmp_path, "few", QUICK, nodes=20) as two:
        seconds = await storm(two, kills=2, pods=64, seed=SEED)
        assert QUICK.lease_seconds <= min(seconds), seconds
        assert max(seconds) < QUICK.lease_seconds + SLACK_SECONDS, seconds
        assert await two.let_the_leader_leave(pods=8) < SLACK_SECONDS
        await two.until_all_are_bound()
        assert await two.leader.stop() == 0
        await two.judged()


@pytest.mark.soak
async def test_leaders_killed_at_fifty_random_moments_lose_and_double_nothing(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """5,000 pods on 1,000 nodes."""
    async with pair(server, tmp_path, "fifty", SHORT, nodes=1000) as two:
        seconds = await storm(two, kills=50, pods=5000, seed=SEED)
        leaving = [await two.let_the_leader_leave(pods=8) for _ in range(3)]
        await two.until_all_are_bound()
        assert await two.leader.stop() == 0
        await two.judged()
    with capsys.disabled():
        print(f"seed {SEED}, lease of {SHORT.lease_seconds} s: {told(seconds)}")  # noqa: T201
        print(f"leaving in order: {told(leaving)}")  # noqa: T201
    assert max(leaving) < SLACK_SECONDS, leaving
    assert max(seconds) < SHORT.lease_seconds + SLACK_SECONDS, seconds


@pytest.mark.soak
async def test_with_the_lease_as_it_comes_a_killed_leader_is_followed_in_18_s(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    async with pair(server, tmp_path, "usual", DEFAULT, nodes=1000) as two:
        seconds = await storm(two, kills=3, pods=600, seed=SEED + 1)
        leaving = [await two.let_the_leader_leave(pods=8) for _ in range(3)]
        await two.until_all_are_bound()
        assert await two.leader.stop() == 0
        await two.judged()
    with capsys.disabled():
        print(f"lease of {DEFAULT.lease_seconds} s: {told(seconds)}")  # noqa: T201
        print(f"leaving in order: {told(leaving)}")  # noqa: T201
    assert max(leaving) < SLACK_SECONDS, leaving
    assert max(seconds) < DEFAULT.lease_seconds + SLACK_SECONDS, seconds
