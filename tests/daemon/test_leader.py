"""The outer life of a daemon, in virtual time: follow, lead, stop in order, lose the lead, follow again."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from daemon.leader import LeaderLoop, Warm, Work
from daemon.leadership import Elector
from engine.engine import Engine
from events.errors import DamagedLogError, FencedError, LogUnavailableError
from events.record import GENESIS, Head
from tests.daemon.leases import Server, Wire
from tests.daemon.processes import Process, Universe


class Daemon:
    """A leader loop whose work only records what happened to it."""

    def __init__(self, server: Server, name: str, *, elects: bool = True) -> None:
        self.told: list[tuple[float, str]] = []
        self.wire = Wire(server)
        self.opening: list[Exception] = []
        """What opening the log fails with, in order."""
        self.failure: Exception | None = None
        """What the work fails with, as soon as there is something."""
        self.damage: Exception | None = None
        """What following fails with, as soon as there is something."""
        self.is_warm = True
        """Whether its standby could take over."""
        self.stopping_seconds = 0.0
        """How long the work takes to end in order."""
        self.ending_seconds = 0.0
        """How long it takes to end when it is cancelled."""
        self._universe = server.universe
        self.elector = Elector(
            self.wire, name, now_ns=lambda: 1_700_000_000_000_000_000, jitter=lambda: 0.5
        )
        self._name = name
        self.career = LeaderLoop(
            self._begin, elector=self.elector if elects else None, standby=lambda: Idle(self)
        )
        self.process: Process = server.universe.process(self.career.run)

    def tell(self, what: str) -> None:
        self.told.append((round(self._universe.now, 1), what))

    @property
    def story(self) -> list[str]:
        return [what for _, what in self.told]

    def when(self, what: str) -> float:
        """The last time that something happened."""
        return max(at for at, told in self.told if told == what)

    def stop(self) -> None:
        """As a signal would."""
        self.process.loop.call_soon(self.career.stop)

    @asynccontextmanager
    async def _begin(self, warm: Warm) -> AsyncIterator[Work]:
        if self.opening:
            raise self.opening.pop(0)
        self.tell("open")
        try:
            await warm(GENESIS)
            yield Busy(self)
        finally:
            self.tell("closed")


class Busy:
    """The work of a leader."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    async def run(self) -> None:
        daemon = self._daemon
        daemon.tell("lead")
        try:
            while not self._is_stopped:
                if daemon.failure is not None:
                    failure, daemon.failure = daemon.failure, None
                    raise ExceptionGroup("as the loop does", [failure])
                await asyncio.sleep(0.1)
            await asyncio.sleep(daemon.stopping_seconds)
            daemon.tell("stopped in order")
        except asyncio.CancelledError:
            await asyncio.sleep(daemon.ending_seconds)
            daemon.tell("cancelled")
            raise


class Idle:
    """A standby."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def is_ready(self) -> bool:
        return self._daemon.is_warm

    @property
    def may_lead(self) -> bool:
        return self.is_ready

    async def follow(self) -> None:
        self._daemon.tell("follow")
        while True:
            if self._daemon.damage is not None:
                raise self._daemon.damage
            await asyncio.sleep(0.1)

    async def hand_over(self, head: Head) -> Engine | None:
        self._daemon.tell("hand over")
        return None

    async def close(self) -> None:
        self._daemon.tell("let go")


@pytest.fixture
def server() -> Iterator[Server]:
    universe = Universe()
    yield Server(universe)
    universe.close()


def test_a_daemon_follows_then_leads_then_stops_in_order(server: Server) -> None:
    daemon = Daemon(server, "a")
    server.universe.run(5)
    daemon.stop()
    server.universe.run(10)
    assert daemon.story == [
        *("follow", "open", "hand over", "lead"),
        *("stopped in order", "closed", "let go"),
    ]
    assert daemon.process.task is not None
    assert daemon.process.task.done()
    assert server.lease is not None
    assert server.lease.holder == ""
    assert daemon.career.post.role == "stopped"


def test_without_an_election_it_leads_at_once(server: Server) -> None:
    daemon = Daemon(server, "a", elects=False)
    server.universe.run(0.5)
    assert daemon.story[-1] == "lead"
    daemon.stop()
    server.universe.run(5)
    assert server.requests == []
    assert daemon.story[-1] == "let go"


def test_a_standby_stops_without_having_led(server: Server) -> None:
    first = Daemon(server, "a")
    server.universe.run(5)
    second = Daemon(server, "b")
    server.universe.run(10)
    second.stop()
    server.universe.run(15)
    assert second.story == ["follow", "let go"]
    assert second.process.task is not None
    assert second.process.task.done()
    assert server.lease is not None
    assert server.lease.holder == "a"
    assert first.career.post.role == "leading"


def test_the_lease_is_renewed_while_a_long_shutdown_lasts(server: Server) -> None:
    """Rule K14.4: others begin when nothing of ours runs any more, not before."""
    first = Daemon(server, "a")
    server.universe.run(5)
    second = Daemon(server, "b")
    first.stopping_seconds = 60.0
    first.stop()
    server.universe.run(80)
    assert first.when("closed") > 60
    assert first.when("closed") < second.when("open") <= first.when("closed") + 3


def test_a_lost_lead_is_waited_out_before_the_next_campaign_k14_4(server: Server) -> None:
    first = Daemon(server, "a")
    server.universe.run(5)
    first.ending_seconds = 2.0
    first.wire.is_cut = True
    server.universe.run(30)
    assert "not renewed" in first.career.post.reason
    first.wire.is_cut = False
    server.universe.run(60)
    first.ending_seconds = 0.0
    lost = first.story.index("cancelled")
    assert first.story[lost:] == [
        *("cancelled", "closed", "let go"),
        *("follow", "open", "hand over", "lead"),
    ]
    assert (first.career.post.role, first.career.post.terms) == ("leading", 2)


def test_a_leader_fenced_after_a_pause_becomes_standby_k14_6(server: Server) -> None:
    first = Daemon(server, "a")
    server.universe.run(5)
    second = Daemon(server, "b")
    server.universe.run(10)
    first.failure = FencedError("someone else writes this log")
    first.process.pause(40)
    server.universe.run(60)
    assert second.career.post.role == "leading"
    assert first.career.post.role == "standby"
    assert first.process.task is not None
    assert not first.process.task.done()


def test_a_leader_fenced_while_it_holds_the_lease_exits(server: Server) -> None:
    """Someone shares the log who does not ask for the lease: to go on would be to fight."""
    daemon = Daemon(server, "a")
    server.universe.run(5)
    daemon.failure = FencedError("someone else writes this log")
    server.universe.run(10)
    assert failed(daemon, FencedError)
    assert server.lease is not None
    assert server.lease.holder == ""


def test_a_log_that_cannot_be_opened_lets_another_lead(server: Server) -> None:
    daemon = Daemon(server, "a")
    daemon.opening = [LogUnavailableError("no route to the database")] * 3
    other = Daemon(server, "b")
    server.universe.run(12)
    assert other.story[-1] == "lead"
    assert daemon.story[-1] == "follow"
    assert daemon.career.post.reason == "no route to the database"


def test_a_bug_in_the_work_ends_the_daemon_and_releases_the_lease_k14_4(server: Server) -> None:
    daemon = Daemon(server, "a")
    server.universe.run(5)
    daemon.failure = ValueError("bug")
    server.universe.run(10)
    assert failed(daemon, ValueError)
    assert server.lease is not None
    assert server.lease.holder == ""


def test_a_standby_that_could_not_take_over_leaves_the_lease_to_others(server: Server) -> None:
    first = Daemon(server, "a")
    first.is_warm = False
    server.universe.run(20)
    assert first.story == ["follow"]
    second = Daemon(server, "b")
    server.universe.run(30)
    assert second.story[-1] == "lead"
    second.process.kill()
    first.is_warm = True
    server.universe.run(50)
    assert first.story[-1] == "lead"


def test_a_damaged_log_ends_a_standby(server: Server) -> None:
    Daemon(server, "a")
    server.universe.run(5)
    daemon = Daemon(server, "b")
    server.universe.run(10)
    daemon.damage = DamagedLogError("position 7")
    server.universe.run(12)
    assert failed(daemon, DamagedLogError)
    assert daemon.story == ["follow", "let go"]


def test_a_wish_to_stop_while_the_log_is_being_opened_is_granted(server: Server) -> None:
    daemon = Daemon(server, "a")
    daemon.opening = [LogUnavailableError("away")]
    server.universe.run(2)
    assert daemon.career.post.reason == "away"
    daemon.stop()
    server.universe.run(6)
    assert daemon.process.task is not None
    assert daemon.process.task.done()
    assert "lead" not in daemon.story


def failed(daemon: Daemon, kind: type[Exception]) -> bool:
    """Whether the daemon ended with this, and nothing else."""
    task, daemon.process.task = daemon.process.task, None
    assert task is not None
    assert task.done()
    error: BaseException | None = task.exception()
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return isinstance(error, kind)
