"""Run a case through a whole daemon but its network, and check what must hold whatever the objects say.

Bytes of lists and watch events are decoded as in production, taken in, decided about, made durable in a real
log, and the decisions carried out by `FuzzServer`. The same loop, step and log are used as by `muster run`.
"""

import time
from collections.abc import Awaitable, Callable
from io import BytesIO
from random import Random
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from structlog.testing import capture_logs

from daemon.cluster.acting.correlation import Correlator
from daemon.cluster.acting.k8s_events import NOTICED, EventFactory
from daemon.fold import fold, refolder
from daemon.log.contract import Log
from daemon.log.entry import Entry
from daemon.log.verify import verify
from daemon.loop import Loop, Running
from daemon.loop_mode import SteppedMode
from daemon.metrics.export import text_of
from daemon.observability import Observability
from daemon.stderr import Teller
from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import PolicyChanged
from events.decision import INTERNAL_ERROR
from events.decisions.action_failed import ActionFailed
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.record import Head
from features.table import FEATURES
from projections.internal_error import InternalError
from projections.snapshot import parts_of, take
from projections.state import State
from replay.log_time import LogTime
from replay.narrate import sentences
from replay.why import Inquiry
from replay.why_text import lines_of
from scheduling.decide import DECIDER
from tests.fuzz.case import Case
from tests.fuzz.server import SECOND_NS, FuzzServer
from tests.storm.judge import entries_of, replayed

T = TypeVar("T")

CANARY_SECONDS: Final = 3.0
"""Virtual seconds within which a canary must be bound. A cycle begins each second."""

SNAPSHOT_EVERY: Final = 150
"""Records between two snapshots, so that restarts begin from one."""

OpenLog = Callable[[], Awaitable[Log]]
"""Opens the log of the case, for writing."""


class Outcome(Struct):
    """What a run of a case was like."""

    objects: int = 0
    records: int = 0
    cycles: int = 0
    bound: int = 0
    longest_seconds: float = 0.0
    """CPU time of the longest step."""
    longest: str = ""
    """What that step was."""


async def run(case: Case, open_log: OpenLog, *, with_views: bool) -> Outcome:
    """Run a case. What must not happen is an exception."""
    server = FuzzServer(case)
    outcome = Outcome(objects=case.objects)
    ends = [server.begin_ns(index) - SECOND_NS // 2 for index in sorted(case.restarts)]
    state = State(FEATURES)
    with capture_logs() as told:
        for end_ns in [*ends, server.end_ns]:
            state = await _live(case, server, open_log, outcome, end_ns, with_views=with_views)
    errors = [one for one in told if one["log_level"] in ("error", "critical")]
    assert not errors, errors
    check_canaries(server)
    log = await open_log()
    try:
        await verify(log)
        entries = await entries_of(log)
        check_log(entries, state)
        same(await fold(log), state)
        check_answers(entries, Random(case.seed))
    finally:
        await log.close()
    outcome.records = len(entries)
    outcome.bound = sum(entry.record.kind.startswith("pod_bound.") for entry in entries)
    return outcome


async def _live(
    case: Case,
    server: FuzzServer,
    open_log: OpenLog,
    outcome: Outcome,
    end_ns: int,
    *,
    with_views: bool,
) -> State:
    """One life of the daemon, from its start to a moment."""
    log = await open_log()
    server.until_ns, server.is_over = end_ns, False
    told = _Told(server)
    policy = PolicyChanged(source="fuzz", policy=msgspec.Raw(msgspec.json.encode(case.policy)))
    running = Running(
        holder="fuzz",
        version="test",
        policy=policy,
        snapshot_every=SNAPSHOT_EVERY,
        updates_status=True,
    )
    held: list[InternalError] = []
    refold = refolder(log, with_views=with_views, on_error=held.append)
    operation = Observability(server.elapsed_ns, Teller(), "test", DECIDER)
    heard = operation.heard(log, told.take)

    async def timed(head: Head) -> Engine:
        engine = await refold(head)
        _measure(engine, outcome)
        return engine

    mode = SteppedMode(server)
    loop = Loop(heard, server, server, timed, running, operation.health, mode=mode)
    told.loop = loop
    try:
        await loop.run()
        if held:
            raise held[0].error  # It was held to its subject, and is a bug nevertheless.
        assert loop.engine is not None
        outcome.cycles += loop.cycles
        state = loop.engine.state
        operation.metrics.sources.state = lambda: state
        text_of(operation.metrics.collect())
        return state
    finally:
        await log.close()


class _Told:
    """What becomes of durable records: Events, as bodies of requests."""

    def __init__(self, server: FuzzServer) -> None:
        self.loop: Loop | None = None
        self._server = server
        self._noticer = EventFactory()
        self._correlator = Correlator("fuzz")

    def take(self, batch: Batch, _seconds: float) -> None:
        """Write the Events that a batch is worth."""
        if self.loop is None or self.loop.engine is None:
            return
        cluster = self.loop.engine.state.cluster
        for record in batch.records:
            if record.kind in NOTICED:
                for notice in self._noticer.notices(event_of(record), cluster):
                    self._correlator.write(notice, self._server.now)


def check_canaries(server: FuzzServer) -> None:
    """Each was bound, and within the bound."""
    for name, canary in server.canaries.items():
        assert canary.bound_ns, f"{name} was never bound"
        waited = (canary.bound_ns - canary.created_ns) / SECOND_NS
        assert waited <= CANARY_SECONDS, f"{name} waited for {waited:g} s"


def check_log(entries: list[Entry], state: State) -> None:
    """The log replays equal, its sums add up, every record can be told, and deciding met no error of ours."""
    same(replayed(entries), state)
    for entry in entries:
        event = event_of(entry.record)
        sentences(entry.record, event, entry.content)
        assert not isinstance(event, ActionFailed), event
        if isinstance(event, PodGroupUnschedulable):
            assert event.code != INTERNAL_ERROR, event.message


def check_answers(entries: list[Entry], chance: Random) -> None:
    """`why` answers about a group that was refused, and about a pod that was placed."""
    refused = [one for one in entries if one.record.kind.startswith("pod_group_unschedulable.")]
    bound = [one for one in entries if one.record.kind.startswith("pod_bound.")]
    for found in filter(None, (refused, bound)):
        record = chance.choice(found).record
        inquiry = Inquiry(record.subject, LogTime(position=record.position))
        for entry in entries[: record.position]:
            inquiry.take(entry.record, entry.content)
        assert lines_of(inquiry.answer())


def same(left: State, right: State) -> None:
    """Two States are equal in all that a snapshot holds."""
    (one, *rest), (other, *others) = (
        [msgspec.msgpack.decode(part) for part in parts_of(BytesIO(take(each)).read)]
        for each in (left, right)
    )
    for image in (one, other):
        image["nodes"].sort(key=lambda node: node[0]["name"])
    assert rest == others, "pod groups or pods differ"
    for name, value in one.items():
        assert value == other[name], f"{name}: {str(value)[:500]} is not {str(other[name])[:500]}"


def _measure(engine: Engine, outcome: Outcome) -> None:
    """Note the CPU time of whatever the step is asked to do."""
    for name in ("observe", "cycle", "report"):
        setattr(engine, name, _timed(name, getattr(engine, name), outcome))


def _timed(name: str, call: Callable[..., T], outcome: Outcome) -> Callable[..., T]:
    def timed(*arguments: object) -> T:
        began = time.process_time()
        result = call(*arguments)
        passed = time.process_time() - began
        if passed > outcome.longest_seconds:
            outcome.longest_seconds, outcome.longest = passed, name
        return result

    return timed
