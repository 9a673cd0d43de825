"""Driving the core as the loop does, and timing it."""

import gc
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Final, TypeVar

import msgspec

from daemon.composition import audits_of, build_engine
from daemon.deciding_thread import DecidingThread
from daemon.fold import refolder
from daemon.intake import INTAKE_MAX
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.loop import Cluster, Loop, Running
from daemon.monotonic_clock import Clock
from daemon.notifying_log import Listener, NotifyingLog
from daemon.settings import Settings
from engine.batch import Batch
from engine.engine import Engine
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import Accepted, Answer, BindRequest, ListCompleted, WatchMessage
from events.record import GENESIS, Head
from features.table import FEATURES
from projections.internal_error import ignore
from projections.policy.policy import BUILT_IN
from projections.state import State
from projections.views.project import Views

SECOND: Final = 1_000_000_000

_T = TypeVar("_T")


WHOLE: Final = msgspec.json.encode(
    {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {
                "plugins": [
                    *({"name": name} for name in ("drf", "overcommit", "predicates")),
                    *({"name": name} for name in ("capacity-card", "nodeorder", "binpack")),
                ]
            },
        ],
    }
)
"""A policy with the whole session: every action, and every plugin that can stand beside the others."""


def begin(
    *, with_views: bool, head: Head = GENESIS, rules: bytes = BUILT_IN
) -> tuple[Engine, Batch]:
    """A step that has just taken over an empty log, and its first batch."""
    state = State(FEATURES)
    engine = build_engine(state, head, views=Views(state) if with_views else None)
    policy = PolicyChanged(source="built-in", policy=msgspec.Raw(rules))
    return engine, engine.start(process_started(), policy, max(head.epoch, 1), SECOND)


def process_started() -> DaemonStarted:
    """What a daemon says when it begins."""
    return DaemonStarted(
        holder="benchmark", version="0", period_ns=SECOND, scheduler_names=("muster",)
    )


def take_in(
    engine: Engine, messages: Iterable[WatchMessage], size: int = INTAKE_MAX
) -> Iterator[Batch]:
    """Observe in batches of a size, with the audits of a daemon beside."""
    rest = iter(messages)
    audits = audits_of(engine, perf_counter_ns)
    while taken := list(islice(rest, size)):
        batch = engine.observe(taken, SECOND)
        audits.turn()
        if batch is not None:
            yield batch


def nothing_of(*kinds: str) -> list[WatchMessage]:
    """That there are no objects of these kinds."""
    return [ListCompleted(resource=kind, resource_version="1", count=0) for kind in kinds]


def decide(engine: Engine, now_ns: int) -> list[Batch]:
    """Hold cycles at a moment as the loop does: one, and another at once while work was deferred."""
    batches = [one for one in (engine.cycle(now_ns),) if one is not None]
    while engine.is_cut_short:
        batch = engine.cycle(now_ns)
        assert batch is not None
        batches.append(batch)
    return batches


def answered(engine: Engine) -> Batch | None:
    """Every request that is open, done."""
    answers = [
        Answer(request=request, reply=Accepted(), latency_ns=1_000_000)
        for request in engine.requests()
    ]
    return engine.report(answers, SECOND)


def bindings(engine: Engine) -> int:
    """Pods that are to be bound."""
    return sum(isinstance(request, BindRequest) for request in engine.requests())


@asynccontextmanager
async def composed_loop(
    cluster: Cluster,
    clock: Clock,
    heard: Listener,
    thread: DecidingThread,
    intake_max: int = INTAKE_MAX,
) -> AsyncIterator[Loop]:
    """The loop as `muster run` composes it: deciding thread, views, SQLite, snapshots and audits."""
    with folder() as place:
        stored = await open_log(str(place / "loop.db"), "write")
        try:
            log = NotifyingLog(stored, clock.elapsed_ns, (heard,), ignore, thread.until_idle)
            running = Running(
                holder="benchmark",
                version="0",
                intake_max=intake_max,
                snapshot_every=Settings().snapshot_every,
                updates_status=True,
                has_deciding_thread=True,
            )
            refold = refolder(stored, with_views=True)
            yield Loop(log, cluster, clock, refold, running, thread=thread)
        finally:
            thread.close()
            await stored.close()


async def append_all(log: Log, batches: Iterable[Batch]) -> None:
    """Make batches durable, one after the other."""
    for batch in batches:
        await log.append(batch)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for a database, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="muster-benchmark-") as name:
        yield Path(name)


def timed(work: Callable[[], _T]) -> tuple[float, _T]:
    """Seconds that work takes, with no garbage of others to collect."""
    gc.collect()
    began = perf_counter()
    result = work()
    return perf_counter() - began, result
