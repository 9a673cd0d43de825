"""A supervisor with a socket of its own hears what it has to."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.health import Health
from daemon.notify import Notifier, keep_notified, status_of
from daemon.settings import Supervision, supervision

PATIENCE_SECONDS = 5.0


class Supervisor:
    """Listens where NOTIFY_SOCKET would say."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._socket.setblocking(False)
        self.heard: list[str] = []

    async def hears(self, wanted: str) -> None:
        """Wait until a message begins with this."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(one.startswith(wanted) for one in self.heard):
                await self._take_one()

    async def _take_one(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._socket, 4096)
        self.heard += data.decode().split("\n")

    def take(self) -> None:
        """What has come by now."""
        with suppress(BlockingIOError):
            while True:
                self.heard += self._socket.recv(4096).decode().split("\n")

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@pytest.fixture(params=["a path", "an abstract name"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Supervisor]:
    abstract = f"@muster-test-{os.getpid()}"
    supervisor = Supervisor(str(tmp_path / "notify") if request.param == "a path" else abstract)
    yield supervisor
    supervisor.close()


class Stopwatch:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 0

    def elapsed_ns(self) -> int:
        """As a clock has it."""
        return self.seconds * 1_000_000_000


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def health(stopwatch: Stopwatch) -> Health:
    return Health(stopwatch.elapsed_ns)


@asynccontextmanager
async def telling(
    supervisor: Supervisor, health: Health, watchdog_seconds: float | None = None
) -> AsyncIterator[None]:
    """The supervisor is told, until the block ends."""
    notifier = Notifier(supervisor.address)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(keep_notified(notifier, health, watchdog_seconds))
        try:
            yield
        finally:
            task.cancel()
    supervisor.take()


async def test_it_hears_of_start_readiness_and_stop(supervisor: Supervisor, health: Health) -> None:
    async with telling(supervisor, health):
        await supervisor.hears("EXTEND_TIMEOUT_USEC=30000000")
        assert "READY=1" not in supervisor.heard
        assert "STATUS=starting, not ready; start: the daemon has only begun" in supervisor.heard
        health.role = "leader"
        health.clear("start")
        await supervisor.hears("READY=1")
        assert "STATUS=leader, ready" in supervisor.heard
    assert supervisor.heard[-2:] == ["STOPPING=1", "STATUS=stopping"]
    assert not any(one.startswith("WATCHDOG") for one in supervisor.heard)
    assert supervisor.heard.count("READY=1") == 1


async def test_it_need_not_wait_for_the_api_server(supervisor: Supervisor, health: Health) -> None:
    health.clear("start")
    health.set("api", "https://10.0.0.1: no route to host")
    async with telling(supervisor, health):
        await supervisor.hears("READY=1")
    assert any("api: https://10.0.0.1: no route to host" in one for one in supervisor.heard)


async def test_the_watchdog_is_fed_only_while_everything_moves(
    supervisor: Supervisor, health: Health, stopwatch: Stopwatch
) -> None:
    health.clear("start")
    health.beat()
    health.beat("watch/Pod", within_seconds=660)
    async with telling(supervisor, health, watchdog_seconds=0.02):
        await supervisor.hears("WATCHDOG=1")
        stopwatch.seconds = 661
        health.beat()
        await supervisor.hears("STATUS=starting, ready; stands still: watch/Pod")
        supervisor.take()
        supervisor.heard.clear()
        await asyncio.sleep(0.1)
        supervisor.take()
        assert supervisor.heard == []
        health.beat("watch/Pod", within_seconds=660)
        await supervisor.hears("WATCHDOG=1")


async def test_a_start_that_stands_still_is_not_given_more_time(
    supervisor: Supervisor, health: Health, stopwatch: Stopwatch
) -> None:
    health.beat("loop", within_seconds=10)
    stopwatch.seconds = 11
    async with telling(supervisor, health):
        await supervisor.hears("STATUS=starting, not ready; stands still: loop")
    assert not any(one.startswith("EXTEND") for one in supervisor.heard)


def test_no_notification_without_a_notify_socket() -> None:
    with capture_logs() as said:
        Notifier("").send("READY=1")
    assert said == []


def test_a_supervisor_that_went_away_is_complained_about_once(tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "nobody"))
    with capture_logs() as said:
        notifier.send("READY=1")
        notifier.send("WATCHDOG=1")
    assert [one["event"] for one in said] == ["the supervisor cannot be told"]
    late = Supervisor(str(tmp_path / "nobody"))
    notifier.send("WATCHDOG=1")
    late.take()
    late.close()
    assert late.heard == ["WATCHDOG=1"]


def test_a_supervisor_that_does_not_read_does_not_block(tmp_path: Path) -> None:
    supervisor = Supervisor(str(tmp_path / "notify"))
    for _ in range(10_000):
        Notifier(supervisor.address).send("STATUS=" + "x" * 1000)
    supervisor.take()
    supervisor.close()
    assert 0 < len(supervisor.heard) < 10_000


def test_an_address_of_another_kind_is_named() -> None:
    with capture_logs() as said:
        Notifier("vsock:2:1234").send("READY=1")
    assert [one["address"] for one in said] == ["vsock:2:1234"]


def test_the_status_is_one_line(health: Health) -> None:
    health.set("log", "two\nlines")
    assert "\n" not in status_of(health)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Supervision()),
        ({"NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "30000000"}, Supervision("@a", 30.0)),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "7"}, Supervision("", 0.5)),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "8"}, Supervision()),
        ({"WATCHDOG_USEC": "0"}, Supervision()),
        ({"WATCHDOG_USEC": "soon"}, Supervision()),
    ],
)
def test_the_environment_says_what_a_supervisor_wants(
    environment: dict[str, str], expected: Supervision
) -> None:
    assert supervision(7, environment) == expected
