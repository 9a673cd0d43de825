"""A whole daemon in this process on a simulated API server over HTTP, in virtual time, for tests of trouble.

What is common to every test is judged when it ends: whatever happened, no pod was given two nodes, the log
is whole, replays equal and has an outcome for each decision, muster knows what there is, and nothing was
asked for more often than once a second.
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec
import pytest
from msgspec import Struct
from structlog.testing import capture_logs

from daemon import app
from daemon.cluster.client.credentials import Access
from daemon.cluster.server.simulated_api_server import Listening, Server, running_server
from daemon.log.memory import Memory, MemoryLog
from daemon.log.verify import verify
from daemon.loop import Running
from daemon.observability import Observability
from daemon.settings import Settings
from daemon.simulation import policy_of
from daemon.stderr import Teller
from daemon.version import VERSION
from events.codec import event_of
from events.daemon import DaemonStarted
from events.decisions.gang_bind import GangBindDecided
from events.normalize import Json, JsonObject
from events.record import GENESIS
from events.union import Event
from features.table import FEATURES
from projections.state import State
from scheduling.decide import DECIDER
from simulator.api_server.api import Behaviour
from simulator.api_server.faults import Fault, FaultContext, ScriptedFaults
from simulator.api_server.http_message import JSON, Request, Response
from simulator.api_server.served_resources import volcano_definitions
from simulator.manifest_fields import list_at, name_of, node_of, section
from simulator.scenario import kind_named, parse_scenario
from tests.storm.judge import check_outcomes, decided_in, entries_of, replayed
from tests.storm.over_http.hurry import LoopClock
from tests.storm.over_http.witness import Witness, known

PATIENCE_SECONDS: Final = 400.0
"""Virtual seconds: what is tried again each minute is tried again a few times."""
MINUTE: Final = 60.0
ASKED_MAX: Final = 60
"""Requests of one verb on one resource in any minute."""
LOOKED_MAX: Final = 240
"""The same of the lease, which a standby reads each half second at most, twice after a 401."""
ASKED_ONCE: Final = "selfsubjectaccessreviews"
"""Of these there is one for each call that muster makes."""
PODS: Final = "/api/v1/namespaces/default/pods"
GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE: Final = "application/merge-patch+json"


EventT = TypeVar("EventT", bound=Event)


class Moments(ScriptedFaults):
    """What tests ask for, and something that happens at the moment of a request."""

    def __init__(self) -> None:
        super().__init__()
        self._moments: list[tuple[str, str, Callable[[], object]]] = []

    def at(self, verb: str, resource: str, happens: Callable[[], object]) -> None:
        """Let something happen just before the next such request is answered."""
        self._moments.append((verb, resource, happens))

    def forget(self) -> None:
        """Nothing more is struck."""
        self._script.clear()

    def pick(self, ask: FaultContext) -> Fault | None:
        """As scripted."""
        resource = ask.plural + (f"/{ask.part}" if ask.part else "")
        for moment in self._moments:
            if moment[:2] == (ask.verb, resource):
                self._moments.remove(moment)
                moment[2]()
                break
        return super().pick(ask)


class SetClock(LoopClock):
    """A clock on the wall that can be set; time itself goes on."""

    def __init__(self) -> None:
        self.later_ns = 0

    def now_ns(self) -> int:
        """As it was set."""
        return super().now_ns() + self.later_ns


class Given(Struct, frozen=True, kw_only=True):
    """How a test begins."""

    text: str = ""
    """The scenario's cluster, as YAML."""
    has_volcano: bool = True
    denied: tuple[str, str] | None = None
    """A verb, and the resource on which it is denied to all users."""
    listening: Listening | None = None
    kubeconfig: Callable[[Server, Path], Path] | None = None
    """Where the daemon's is not the usual one."""
    is_up: bool = True
    """Whether the server is there when the daemon starts."""
    settings: Settings = Settings(listen="", log="memory:")
    has_deciding_thread: bool = False


class Trial:
    """A server, a daemon, and a test between them."""

    def __init__(
        self, server: Server, faults: Moments, plan: app.DaemonConfig, memory: Memory
    ) -> None:
        assert plan.access.kubeconfig is not None
        self.folder = plan.access.kubeconfig.parent
        self.server = server
        self.faults = faults
        self.clock = SetClock()
        self.witness = Witness(server.api)
        self.memory = memory
        self.others: set[str] = set()
        """Names of pods that someone else has bound."""
        self._plan = plan
        self._tasks: asyncio.TaskGroup | None = None
        self.operation, self.life = self._made()

    def _made(self) -> tuple[Observability, app.DaemonApp]:
        operation = Observability(self.clock.elapsed_ns, Teller(), VERSION, DECIDER)
        return operation, app.DaemonApp(self._plan, operation, self.clock)

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Let the daemon run, as one of these tasks."""
        self._tasks = tasks
        self._task = tasks.create_task(self.life.run(), name="life")

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """The daemon ends before the block, and another one goes on with its log after it."""
        assert self._tasks is not None
        self.life.stop()
        await self._task
        yield
        self.operation, self.life = self._made()
        self.begin(self._tasks)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why the daemon is not ready."""
        return self.operation.health.reasons

    @property
    def terms(self) -> int:
        """How often it was elected."""
        return len(self.events(DaemonStarted))

    @property
    def state(self) -> State:
        """What it knows."""
        state = self.operation.metrics.sources.state()
        return State(FEATURES) if state is None else state

    def ask(self, method: str, path: str, body: Json = None, content_type: str = JSON) -> Response:
        """What someone else asks of the server, which must be done."""
        sent = b"" if body is None else msgspec.json.encode(body)
        token = "admin" if self.server.access.tokens else ""
        answer = self.server.api.handle(
            Request(method=method, path=path, body=sent, content_type=content_type, token=token)
        )
        assert answer.status in (200, 201, 202), answer.body
        return answer

    def pod(self, name: str, *, group: str = "", **spec: Json) -> None:
        """A pod of ours comes."""
        self.ask("POST", PODS, pod(name, group, **spec))

    def group(self, name: str, minimum: int) -> None:
        """A PodGroup comes."""
        body: JsonObject = {"metadata": {"name": name}, "spec": {"minMember": minimum}}
        self.ask("POST", GROUPS, body)

    def put(self, kind: str, manifest: JsonObject) -> None:
        """An object comes that is not looked at, whatever it is."""
        named = kind_named(kind)
        whole = {"apiVersion": named.api_version, "kind": kind, **manifest}
        self.server.api.simulated.put(named, whole)

    def condition(self, name: str, type_: str) -> Mapping[str, Json]:
        """A condition of a pod; empty where it has none."""
        found = self.server.api.simulated.find("Pod", "default", name)
        conditions = [] if found is None else list_at(section(found, "status"), "conditions")
        return next((one for one in conditions if one.get("type") == type_), {})

    def decided_nodes(self, name: str) -> list[str]:
        """Where the log says that a pod shall go."""
        return [
            place.node
            for event in self.events(GangBindDecided)
            for place in event.placements
            if place.pod == f"default/{name}"
        ]

    def install_volcano(self) -> None:
        """Its definitions come."""
        for definition in volcano_definitions():
            self.ask("POST", DEFINITIONS, definition)

    def remove_volcano(self) -> None:
        """They go, and with them all objects of these kinds."""
        for definition in volcano_definitions():
            self.ask("DELETE", f"{DEFINITIONS}/{name_of(definition)}")

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Where a pod is."""
        found = self.server.api.simulated.find("Pod", namespace, name)
        return "" if found is None else node_of(found)

    def events(self, kind: type[EventT]) -> list[EventT]:
        """What the log holds of a kind."""
        found = (event_of(record) for record in self.memory.records)
        return [event for event in found if isinstance(event, kind)]

    async def until(self, holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for something, in virtual time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # noqa: ASYNC110 - the condition has no event to wait for
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s; not ready: {self.reasons}") from None

    async def until_bound(self, *names: str) -> None:
        """Wait until pods have nodes."""
        await self.until(lambda: all(self.node_of(name) for name in names))

    def _is_in_order(self) -> bool:
        state = self.state
        is_done = not state.commitments and not state.evictions
        is_durable = self.operation.metrics.sources.position() == self.memory.head.position
        return is_done and is_durable and known(state) == self.witness.there()

    def _difference(self) -> str:
        there, ours = self.witness.there(), known(self.state)
        return str({kind: there[kind].items() ^ ours[kind].items() for kind in there})

    async def judged(self) -> None:
        """What must be so after any trouble."""
        try:
            await self.until(self._is_in_order)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._difference()}") from None
        assert not self.witness.doubled
        log = MemoryLog(self.memory)
        log.base = GENESIS
        await verify(log)
        entries = await entries_of(log)
        replayed(entries)
        decided = decided_in(entries)
        check_outcomes(entries, decided)
        meant = {(uid, node) for (_, uid), node in decided.items()}
        bound = self.witness.bound.items()
        done = {(uid, node) for uid, (name, node) in bound if name not in self.others}
        assert done <= meant, f"bound, and not decided: {done - meant}"
        for what, asked in self.busiest().items():
            most = LOOKED_MAX if " leases " in what else ASKED_MAX
            assert asked <= most, f"{what}: {asked} times in a minute"

    def busiest(self) -> dict[str, int]:
        """How often something was asked for in the minute in which it was asked for most often."""
        times: dict[str, list[float]] = defaultdict(list)
        for entry in self.server.shell.journal.entries:
            if entry.resource != ASKED_ONCE:
                times[f"{entry.verb} {entry.resource} {entry.name}"].append(entry.at_seconds)
        return {what: _most(found) for what, found in times.items()}


class StartTrial(Protocol):
    """Begins a trial."""

    def __call__(self, given: Given | None = None) -> AbstractAsyncContextManager[Trial]:
        """For as long as the block lasts."""
        ...


def _most(times: list[float]) -> int:
    times.sort()
    return max(bisect_left(times, at + MINUTE) - bisect_left(times, at) for at in times)


def pod(name: str, group: str = "", namespace: str = "default", /, **spec: Json) -> JsonObject:
    """A pod of one core; `spec` adds to its spec."""
    marks: JsonObject = {"scheduling.k8s.io/group-name": group} if group else {}
    resources: JsonObject = {"requests": {"cpu": "1"}}
    container: JsonObject = {"name": "main", "image": "image", "resources": resources}
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": marks},
        "spec": {"schedulerName": "muster", "containers": [container], **spec},
    }


NODE: Final = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 20}}}
"""


@asynccontextmanager
async def trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: Given | None = None
) -> AsyncIterator[Trial]:
    """A daemon on a server, for as long as the block lasts; then it is asked to leave, and all is judged."""
    given = given or Given()
    scenario = parse_scenario("scenario: a test\n" + (given.text or NODE), "test.yaml")
    faults, memory = Moments(), Memory()

    async def open_log(_url: str, _mode: str, **_: object) -> MemoryLog:
        log = MemoryLog(memory)
        log.base = GENESIS
        return log

    monkeypatch.setattr(app, "open_log", open_log)
    async with running_server(
        scenario,
        behaviour=Behaviour(has_volcano=given.has_volcano),
        faults=faults,
        clock=LoopClock(),
        listening=given.listening,
    ) as server:
        write = given.kubeconfig or (lambda one, folder: one.kubeconfig(folder / "kubeconfig"))
        plan = app.DaemonConfig(
            settings=given.settings,
            access=Access(kubeconfig=write(server, folder)),
            log="memory:",
            running=Running(
                holder="test",
                version="1",
                period_ns=200_000_000,
                policy=policy_of(scenario),
                scheduler_names=given.settings.scheduler_names,
                is_shadow=bool(given.settings.shadow_of),
                shadow_hold_ns=round(given.settings.shadow_hold_seconds * 1e9),
                updates_status=True,
                has_deciding_thread=given.has_deciding_thread,
            ),
        )
        if given.denied is not None:
            server.access.denied.add(given.denied)
        if not given.is_up:
            await server.go_down()
        one = Trial(server, faults, plan, memory)
        with capture_logs() as said:
            async with asyncio.TaskGroup() as tasks:
                one.begin(tasks)
                yield one
                await one.judged()
                one.life.stop()
    assert not [line for line in said if line["log_level"] in ("error", "critical")]
