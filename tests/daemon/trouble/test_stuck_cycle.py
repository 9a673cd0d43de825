"""A cycle that does not end holds up nothing but itself: the Lease, the probes, the watches and SIGTERM go on.

Time is virtual and the cycle waits for a `threading.Event`, so that it lasts as long as a test says. While the thread
computes, no time passes.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs

from daemon.deciding_thread import LATE_SECONDS, STUCK_SECONDS, DecidingThread, StuckCycleError
from daemon.settings import Settings, Supervision
from engine.engine import Engine
from projections.state import State
from tests.daemon.trouble.rig import MERGE, Given, StartTrial, Trial
from tests.storm.over_http.hurry import Hurried, hurriedly

T = TypeVar("T")

LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases/muster"
GIVEN: Final = Given(has_deciding_thread=True)


class Gate:
    """Holds up the cycles of a Engine, or its intake, in whatever thread they run."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.is_reached = False
        """Whether one was held up since it was shut."""
        self.threads: set[str] = set()
        """Names of threads in which there were any."""
        self._calls: list[asyncio.AbstractEventLoop] = []
        """The loops that await a call of the thread."""

    @property
    def is_thread_at_work(self) -> bool:
        """Whether a call is awaited and not held up."""
        return bool(self._calls) and (self._open.is_set() or not self.is_reached)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """During the block the loop awaits a call."""
        self._calls.append(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._calls.pop()

    def shut(self) -> None:
        self.is_reached = False
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        """Wait until it is open."""
        self.threads.add(threading.current_thread().name)
        if not self._open.is_set():
            self.is_reached = True
            for loop in self._calls:
                loop.call_soon_threadsafe(str)  # Time passes again.
            self._open.wait()


@pytest.fixture(params=["cycle", "observe_in_parts"])
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Holds up one of the two calls that take long."""
    gate, name = Gate(), request.param
    original = getattr(Engine, name)

    def held_up(engine: Engine, *given: object) -> object:
        gate.pass_through()
        return original(engine, *given)

    run_of_thread = DecidingThread.run

    async def run(thread: DecidingThread, what: str, call: Callable[[], T]) -> T:
        with gate.awaited():
            return await run_of_thread(thread, what, call)

    monkeypatch.setattr(Engine, name, held_up)
    monkeypatch.setattr(DecidingThread, "run", run)
    monkeypatch.setattr(Hurried, "is_thread_at_work", lambda _: gate.is_thread_at_work)
    yield gate
    gate.open()


async def stick(one: Trial, gate: Gate) -> int:
    """Let a call get stuck; how many records there are in the log."""
    one.pod("a")
    await one.until_bound("a")
    await one.until(lambda: not one.state.commitments)
    gate.shut()
    one.pod("b")
    await one.until(lambda: gate.is_reached)
    return len(one.memory.records)


def renewals(one: Trial) -> int:
    """How often the Lease was written."""
    entries = one.server.shell.journal.entries
    return sum(entry.verb == "update" and entry.resource == "leases" for entry in entries)


@asynccontextmanager
async def probed(one: Trial) -> AsyncIterator["Probe"]:
    """With the probes and metrics of a daemon served beside it."""
    settings = Settings(listen="127.0.0.1:0")
    with capture_logs() as said:
        async with one.operation.open(settings, Path(), Supervision()):
            (address,) = [line["address"] for line in said if line["event"] == "listening"]
            async with aiohttp.ClientSession() as session:
                yield Probe(session, f"http://{address}")


class Probe:
    """A client."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, path: str) -> tuple[int, str]:
        """The status and the body of an answer."""
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.text()


@pytest.mark.parametrize("gate", ["cycle"], indirect=True)
@hurriedly
async def test_the_lease_is_renewed_and_probes_are_answered_during_a_stuck_cycle(
    trouble: StartTrial, gate: Gate
) -> None:
    async with trouble(GIVEN) as one, probed(one) as probe:
        await stick(one, gate)
        assert gate.threads == {"deciding"}
        before, records = renewals(one), len(one.memory.records)
        await asyncio.sleep(LATE_SECONDS - 5)
        assert (await probe.ask("/readyz"))[0] == 200
        await asyncio.sleep(15)
        status, body = await probe.ask("/readyz")
        assert status == 503
        (reason,) = msgspec.json.decode(body)["reasons"].items()
        assert reason[0] == "cycle"
        assert "has taken" in reason[1]
        await asyncio.sleep(STUCK_SECONDS - 60)
        assert (await probe.ask("/livez"))[0] == 200
        assert renewals(one) - before > (STUCK_SECONDS - 60) / 3
        await asyncio.sleep(60)
        status, body = await probe.ask("/livez")
        assert (status, list(msgspec.json.decode(body)["still"])) == (503, ["cycle"])
        assert (len(one.memory.records), one.terms) == (records, 1)
        gate.open()
        await one.until_bound("b")
        assert (await probe.ask("/livez"))[0] == (await probe.ask("/readyz"))[0] == 200


@pytest.mark.parametrize("gate", ["observe_in_parts"], indirect=True)
@hurriedly
async def test_the_lease_is_renewed_and_probes_are_answered_during_a_long_intake(
    trouble: StartTrial, gate: Gate
) -> None:
    async with trouble(GIVEN) as one, probed(one) as probe:
        await stick(one, gate)
        assert gate.threads == {"deciding"}
        before = renewals(one)
        await asyncio.sleep(4.8)  # A replay calls a cycle missed that begins 5.4 s late.
        assert renewals(one) > before
        assert (await probe.ask("/livez"))[0] == (await probe.ask("/readyz"))[0] == 200
        gate.open()
        await one.until_bound("b")


@pytest.mark.parametrize("gate", ["cycle"], indirect=True)
@hurriedly
async def test_metrics_do_not_read_state_during_a_cycle(trouble: StartTrial, gate: Gate) -> None:
    async with trouble(GIVEN) as one, probed(one) as probe:
        sources = one.operation.metrics.sources
        await one.until(lambda: one.operation.health.is_ready)
        read = sources.state
        _, before = await probe.ask("/metrics")
        await stick(one, gate)

        def must_not_be_read() -> State | None:
            assert not sources.is_state_busy(), "State was read during a cycle"
            return read()

        sources.state = must_not_be_read
        await asyncio.sleep(30)
        status, during = await probe.ask("/metrics")
        assert status == 200
        assert figure(during, "muster_cycle_under_way_seconds") >= 30
        assert figure(during, 'muster_not_ready{reason="cycle"}') == 1
        objects = 'muster_objects{kind="Node"}'
        assert figure(during, objects) == figure(before, objects) == 1
        gate.open()
        await one.until_bound("b")
        status, after = await probe.ask("/metrics")
        assert status == 200, after
        assert figure(after, 'muster_objects{kind="Pod"}') == 2
        sources.state = read


def figure(text: str, name: str) -> float:
    """A sample of an exposition."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


@hurriedly
async def test_a_lead_that_is_lost_during_a_cycle_leaves_nothing_of_it_in_the_log(
    trouble: StartTrial, gate: Gate
) -> None:
    async with trouble(GIVEN) as one:
        records = await stick(one, gate)
        one.ask("PATCH", LEASE, {"spec": {"holderIdentity": "another"}}, MERGE)
        health = one.operation.health
        await one.until(lambda: health.role == "standby")
        # The lease of the other daemon expires. A daemon whose cycle is still under way does not take it.
        await asyncio.sleep(60)
        assert (health.role, one.terms, len(one.memory.records)) == ("standby", 1, records)
        assert health.stands("cycle") is False
        assert "cycle" in health.reasons
        gate.open()
        await one.until(lambda: one.terms == 2)
        await one.until_bound("b")


@hurriedly
async def test_a_daemon_leaves_within_its_grace_during_a_stuck_cycle(
    trouble: StartTrial, gate: Gate
) -> None:
    found: list[tuple[Trial, int, float]] = []

    async def story() -> None:
        async with trouble(GIVEN) as one:
            records = await stick(one, gate)
            found.append((one, records, asyncio.get_running_loop().time()))
            one.life.stop()
            await asyncio.sleep(1000)

    with pytest.raises(ExceptionGroup) as caught:
        await story()
    ((one, records, asked_at),) = found
    assert caught.group_contains(StuckCycleError, match="within 20 s of being asked to stop")
    assert asyncio.get_running_loop().time() - asked_at < 30
    assert len(one.memory.records) == records


@hurriedly
async def test_a_cycle_that_ends_within_the_grace_is_recorded(
    trouble: StartTrial, gate: Gate
) -> None:
    async with trouble(GIVEN) as one:
        records = await stick(one, gate)
        asyncio.get_running_loop().call_later(10, gate.open)
        async with one.away():
            assert len(one.memory.records) > records
        await one.until_bound("b")
