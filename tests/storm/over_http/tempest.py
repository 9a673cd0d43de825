"""One run of a storm: a daemon on a server that fails by a seed, while others change what is there.

Server and daemon stand in one process and speak HTTP over real connections; time is virtual, so that a
back-off of half a minute takes none. At the end the faults cease, and what is left must be as it should.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count, pairwise
from math import inf
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.server.simulated_api_server import Server, running_server
from daemon.log.memory import Memory
from daemon.log.verify import verify
from events.duration import SECOND
from features.table import KINDS
from projections.state import State
from simulator.api_server.faults import Fault, FaultContext, FaultKind, SeededFaults
from simulator.object_store import Snapshot
from simulator.scenario import Scenario, parse_scenario
from tests.storm.daemon_process import chance
from tests.storm.judge import check_outcomes, decided_in, entries_of, replayed
from tests.storm.over_http.changes import Changer, node_named, queue_named
from tests.storm.over_http.hurry import LoopClock
from tests.storm.over_http.in_process_daemon import InProcessDaemon
from tests.storm.over_http.witness import Witness, known

NODES: Final = 5
STRUCK_PER_THOUSAND_MIN: Final = 150
STRUCK_PER_THOUSAND_MAX: Final = 650
"""Of the requests, more or less by the seed: from bad days to days on which hardly anything works."""
STALLS_PER_THOUSAND: Final = 60
"""Of the stalls of watches that the seed wants; each takes minutes, in which little is struck."""
PAUSE_SECONDS: Final = 0.1
"""Between two changes, on average."""
DEATH_EVERY: Final = 700
"""Changes between two deaths of the daemon, on average."""
BREAK_EVERY: Final = 50
"""Changes between two moments at which all connections break, on average."""
OUTAGE: Final = 0.1
"""Of these, how many are outages."""
OUTAGE_SECONDS: Final = 40.0
"""The longest of them."""
FAILING_SECONDS: Final = 90.0
"""The longest in which every single request fails; as many of the breaks lead to that."""
SNAPSHOT_EVERY: Final = 40
"""Changes between two snapshots of the server's data."""
SET_BACK_EVERY: Final = 90
"""Changes between two restores of the last snapshot but one, or of the only one."""
ALL_RESOURCES: Final = 1000
SLOW: Final = (FaultKind.STALL, FaultKind.DELAY, FaultKind.CLOCK, FaultKind.TWICE)
"""Faults that take time or leave the answer as it is."""
QUIET_SECONDS: Final = 3600.0
"""Virtual time within which all must be in order once the faults have ceased."""
REQUESTS_A_MINUTE: Final = 60
"""Of a watch at most (rule K3.11)."""


class Strikes(SeededFaults):
    """Faults by a seed, counted by what they are; few watches fall silent for minutes."""

    def __init__(self, seed: int) -> None:
        more = STRUCK_PER_THOUSAND_MAX - STRUCK_PER_THOUSAND_MIN
        super().__init__(seed, STRUCK_PER_THOUSAND_MIN + int(more * chance(seed, "how bad")))
        self.seed = seed
        self.usual = self._per_thousand
        self.struck: dict[str, int] = {}

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request."""
        fault = super().pick(ask)
        if fault is None:
            return None
        if self._per_thousand == ALL_RESOURCES and fault.kind in SLOW:
            fault = Fault(FaultKind.FAIL)
        if fault.kind is FaultKind.STALL and ask.verb == "watch":
            rarely = chance(self.seed, "stall", ask.index) * 1000 < STALLS_PER_THOUSAND
            fault = fault if rarely else Fault(FaultKind.CUT, fault.amount)
        self.struck[fault.kind.value] = self.struck.get(fault.kind.value, 0) + 1
        return fault

    def strike_all(self, *, really: bool) -> None:
        """Strike every request, at once; or as many as usual."""
        self._per_thousand = ALL_RESOURCES if really else self.usual


class Outcome(Struct, frozen=True, kw_only=True):
    """What one run was, where all is well."""

    seed: int
    steps: int
    changes: int
    breaks: int
    set_back: int
    """How often the server's data was restored from a snapshot."""
    struck: dict[str, int]
    bound: int
    deaths: int
    records: int
    busiest: int
    virtual_seconds: int
    quiet_seconds: int
    """From the end of the faults until all was in order."""


class Tempest:
    """A server, a daemon, and who watches both."""

    def __init__(self, server: Server, folder: Path, faults: Strikes) -> None:
        self.server = server
        self.faults = faults
        self.witness = Witness(server.api)
        self.changer = Changer(server.api, faults.seed)
        self.started: list[float] = []
        """When each daemon was started."""
        self.breaks = self.set_back = 0
        self._turns = 0
        self._snapshots: deque[Snapshot] = deque(maxlen=2)
        self._memory = Memory()
        self._kubeconfig = server.kubeconfig(folder / "kubeconfig")
        self._numbers = count()
        self._daemon: InProcessDaemon | None = None

    @property
    def steps(self) -> int:
        """Changes made, requests struck, and watches that were broken under way."""
        return self.changer.changes + self.breaks + sum(self.faults.struck.values())

    def jitter(self) -> float:
        """The same in every run with the same seed, in the order in which it is asked for."""
        return chance(self.faults.seed, "jitter", next(self._numbers))

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        """A daemon beside the block, killed at its end; the next one goes on with its log."""
        self.started.append(self.server.shell.now_ns / SECOND)
        self._daemon = daemon = InProcessDaemon(
            SCENARIO, self._kubeconfig, self._memory, self.jitter
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(daemon.run(), name="daemon")
            yield
            running.cancel()

    @property
    def state(self) -> State:
        """What the daemon knows."""
        assert self._daemon is not None
        return self._daemon.state

    async def rage(self, steps: int) -> None:
        """Until so many steps have been made, daemons are killed and followed."""
        while self.steps < steps:
            async with self.daemon():
                turns = 1 + int(2 * DEATH_EVERY * self.jitter())
                while turns and self.steps < steps:
                    turns -= 1
                    await asyncio.sleep(2 * PAUSE_SECONDS * self.jitter())
                    self.changer.change()
                    self._go_back()
                    if self.jitter() * BREAK_EVERY < 1:
                        await self._break()

    def _go_back(self) -> None:
        """Keep a snapshot now and then, and restore one now and then."""
        self._turns += 1
        if self._turns % SNAPSHOT_EVERY == 0:
            self._snapshots.append(self.server.api.snapshot())
        if self._turns % SET_BACK_EVERY == 0:
            self.set_back += 1
            self.server.restore(self._snapshots[0])
            self._snapshots.clear()

    async def _break(self) -> None:
        """Break all connections; sometimes fail all requests, or refuse connections, for a while."""
        self.breaks += 1
        chance_of_more = self.jitter()
        if chance_of_more < OUTAGE:
            await self.server.go_down()
            await asyncio.sleep(OUTAGE_SECONDS * self.jitter())
            await self.server.go_up()
            return
        self.server.shell.break_connections()
        if chance_of_more < 2 * OUTAGE:
            self.faults.strike_all(really=True)
            await asyncio.sleep(FAILING_SECONDS * self.jitter())
            self.faults.strike_all(really=False)

    async def settle(self) -> float:
        """Stop the faults; return the seconds until a daemon is in sync and has no pending requests."""
        self.faults.is_on = False
        self.changer.clear_up()
        began = asyncio.get_running_loop().time()
        async with self.daemon():
            await until(self._is_in_order, QUIET_SECONDS, self._difference)
            return asyncio.get_running_loop().time() - began

    def _is_in_order(self) -> bool:
        if self._daemon is None or not self._daemon.is_idle:
            return False
        state = self.state
        if any(pod.node != pod.facts.node for pod in state.cluster.pods.values()):
            return False  # Of what is meant to be somewhere, the server knows nothing.
        return self.server.api.simulated.settled and known(state) == self.witness.there()

    def _difference(self) -> str:
        there = self.witness.there()
        ours = known(self.state)
        return str({kind: there[kind].items() ^ ours[kind].items() for kind in there})

    async def judged(self) -> int:
        """How many records there are, where the log is whole, replays equal, and tells what happened."""
        assert self._daemon is not None
        await verify(self._daemon.log)
        entries = await entries_of(self._daemon.log)
        replayed(entries)
        decided = decided_in(entries)
        check_outcomes(entries, decided)
        meant = {(uid, node) for (_, uid), node in decided.items()}
        done = {(uid, node) for uid, (_, node) in self.witness.bound.items()}
        assert done <= meant, f"bound, and not decided: {done - meant}"
        assert not self.witness.doubled, self.witness.doubled
        return len(entries)

    def busiest(self) -> int:
        """The most requests for one watch of one daemon in any minute. ConfigMaps have a watch for each selection."""
        journal = self.server.shell.journal
        resources = [one.resource for one in KINDS.values() if one.is_watched]
        watches = Counter(f"{one.plural}.{one.group}".rstrip(".") for one in resources)
        return max(
            -(-journal.busiest_minute(name, began, ended) // watches[name])
            for began, ended in pairwise([*self.started, inf])
            for name in journal.watched()
        )


async def until(holds: Callable[[], bool], seconds: float, told: Callable[[], str]) -> None:
    """Wait for something, in virtual time."""
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - the condition has no event to wait for
                await asyncio.sleep(1.0)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {told()}") from None


def _scenario() -> Scenario:
    nodes = [node_named(f"n{index}") for index in range(NODES)]
    queues = [queue_named(name) for name in ("one", "two")]
    document = {"scenario": "a storm", "start_delay": "50ms", "cluster": [*nodes, *queues]}
    return parse_scenario(msgspec.json.encode(document).decode(), "storm")


SCENARIO: Final = _scenario()


async def run(seed: int, steps: int, folder: Path) -> Outcome:
    """A whole run. What is not as it should be is an AssertionError that names the seed."""
    faults = Strikes(seed)
    began = asyncio.get_running_loop().time()
    async with running_server(SCENARIO, faults=faults, clock=LoopClock()) as server:
        tempest = Tempest(server, folder, faults)
        try:
            await tempest.rage(steps)
            ended = asyncio.get_running_loop().time()
            quiet = await tempest.settle()
            records = await tempest.judged()
            busiest = tempest.busiest()
            assert busiest <= REQUESTS_A_MINUTE, f"{busiest} requests of a watch in a minute"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return Outcome(
        seed=seed,
        steps=tempest.steps,
        changes=tempest.changer.changes,
        breaks=tempest.breaks,
        set_back=tempest.set_back,
        struck=dict(sorted(faults.struck.items())),
        bound=len(tempest.witness.bound),
        deaths=len(tempest.started) - 1,
        records=records,
        busiest=busiest,
        virtual_seconds=int(ended - began),
        quiet_seconds=int(quiet),
    )
