"""The one place that builds it all: State from a log, and a loop around shores."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from daemon.cli.batches import write_views_anew
from daemon.cluster.stepped import SteppedCluster, VirtualClock
from daemon.composition import core_of
from daemon.log.contract import Log, ReadableLog
from daemon.log.entry import Snapshot
from daemon.loop import Loop, Running
from events.chain import check_link
from events.codec import event_of
from events.process import PolicyChanged
from events.record import Head
from projections import snapshot as snapshots
from projections.internal_error import OnError, ignore
from projections.left_out import LeftOut, folded
from projections.policy import BUILT_IN
from projections.state import State
from projections.views.catalogue import DECISION, OUTCOME, VIEWS
from projections.views.project import Views, is_whole
from scheduling.step import Step
from simulator.cluster import World
from simulator.scenario import Scenario

logger: Final = structlog.get_logger("muster")

VERSION: Final = "0.1.0"

HOLDER: Final = "simulation"
"""Who holds the log of a simulation."""

SCHEDULER_NAMES: Final = ("muster", "volcano")
"""Whose pods a simulation decides: manifests made for Volcano are tried as they are."""

_NEVER_CHANGED: Final = (DECISION.name, OUTCOME.name)
"""Views whose rows come once and stay: of these only the checksum is carried on."""

TOLD_EVERY_SECONDS: Final = 0.1
"""How often a simulation says how far it is."""


async def fold(log: ReadableLog, until: int | None = None, on_error: OnError = ignore) -> State:
    """State as the log says, up to a position: from the newest snapshot that serves, or from the beginning.

    The chain is checked on the way. Records that State cannot apply are left out.
    """
    kept: list[Snapshot] = []
    return await folded(lambda left_out: _fold(log, until, on_error, left_out, kept))


async def _fold(
    log: ReadableLog,
    until: int | None,
    on_error: OnError,
    left_out: LeftOut,
    kept: list[Snapshot],
) -> State:
    """Fold, and keep State behind the last record that is left out, where the next fold can begin."""
    snapshot = kept[-1] if kept else await log.latest_snapshot(snapshots.VERSION, before=until)
    if snapshot is None:
        state, head = State(left_out), log.base
        state.begin_at(head.position)
    else:
        # Beside the event loop: it takes seconds where there are many pods, and a Lease is to be renewed.
        state = await asyncio.to_thread(snapshots.restore, snapshot.payload)
        state.left_out = left_out
        head = Head(position=snapshot.position, digest=snapshot.digest, epoch=0)
    to_keep = max(left_out, default=0)
    async for entries in log.read(after=head.position, until=until):
        for entry in entries:
            record = entry.record
            if to_keep and head.position >= to_keep and record.batch == record.position:
                payload = snapshots.take(state)
                kept.append(Snapshot(head.position, head.digest, snapshots.VERSION, payload))
                to_keep = 0
            head = check_link(head, record)
            state.apply(record, event_of(record), entry.content, on_error)
    return state


def refolder(
    log: Log,
    *,
    with_views: bool,
    secret: tuple[str, ...] = (),
    on_error: OnError = ignore,
) -> Callable[[Head], Awaitable[Step]]:
    """A function that folds the log into a Step, as often as it is asked to.

    Annotations named in `secret` never enter the log.
    """

    async def refold(head: Head) -> Step:
        if not with_views:
            state = await fold(log, on_error=on_error)
            return core_of(state, head, views=None, secret=secret, on_error=on_error)
        views = await _views(log, on_error)
        return core_of(views.state, head, views=views, secret=secret, on_error=on_error)

    return refold


async def _views(log: Log, on_error: OnError) -> Views:
    """The views, to be carried on; those that do not stand at the end of the log are made anew."""
    versions = {view.name: view.version for view in VIEWS}
    stand = await log.projections()
    end = log.head.position
    if any((one.version, one.position) != (versions.get(one.name), end) for one in stand):
        return await write_views_anew(log, on_error=on_error)
    views = Views(await fold(log, on_error=on_error), on_error)
    views.state.cluster.forget_touched()
    for one in stand:
        rows = [] if one.name in _NEVER_CHANGED else await log.view_rows(one.name)
        if one.name not in _NEVER_CHANGED and not is_whole(one.name, rows, one.checksum):
            logger.warning("a view is not what its checksum says: all are made anew", view=one.name)
            return await write_views_anew(log, on_error=on_error)
        views.resume(one.name, rows, one.checksum)
    return views


class Simulated(Struct):
    """A simulation that has ended."""

    scenario: Scenario
    state: State
    head: Head
    world: World
    examined: int
    """How often a node was scored for a class of pods."""
    groups_examined: int
    """How often a pod group was tried."""


async def simulate(
    scenario: Scenario,
    log: Log,
    *,
    with_views: bool,
    progress: Callable[[int], None] | None = None,
) -> Simulated:
    """Run a scenario (with the pieces of its trace in it) in virtual time.

    `progress` is told the position of the log, now and then.
    """
    world = World(scenario)
    cluster = SteppedCluster(world)
    running = Running(
        holder=HOLDER,
        version=VERSION,
        period_ns=scenario.period_ns,
        policy=policy_of(scenario),
        cycles_max=scenario.cycles,
        scheduler_names=SCHEDULER_NAMES,
    )
    clock = VirtualClock(cluster, scenario.until_ns)
    loop = Loop(log, cluster, clock, refolder(log, with_views=with_views), running)
    if progress is None:
        await loop.run()
    else:
        await _run_watched(loop, progress)
    step = loop.step
    assert step is not None
    return Simulated(
        scenario=scenario,
        state=step.state,
        head=step.head,
        world=world,
        examined=step.decider.examined,
        groups_examined=step.decider.session.groups_examined,
    )


async def _run_watched(loop: Loop, progress: Callable[[int], None]) -> None:
    async def tell() -> None:
        while True:
            await asyncio.sleep(TOLD_EVERY_SECONDS)
            if loop.step is not None:
                progress(loop.step.head.position)

    async with asyncio.TaskGroup() as tasks:
        teller = tasks.create_task(tell(), name="progress")
        try:
            await loop.run()
        finally:
            teller.cancel()


def policy_of(scenario: Scenario) -> PolicyChanged:
    """The policy of a scenario, or the one that is built in."""
    if scenario.policy is None:
        return PolicyChanged(source="built-in", policy=msgspec.Raw(BUILT_IN))
    content = msgspec.json.encode(scenario.policy, order="deterministic")
    return PolicyChanged(source=scenario.policy_file or "scenario", policy=msgspec.Raw(content))
