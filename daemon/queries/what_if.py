"""Branch the past: run what a log holds once more from a position on, with a change, and compare the runs."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.stepped import SteppedCluster, VirtualClock
from daemon.composition import build_engine
from daemon.fold import fold, refolder
from daemon.log.contract import Log, ReadableLog
from daemon.log.copying import copy_until
from daemon.log.entry import Entry
from daemon.log.memory import Memory, MemoryLog
from daemon.log.shadow_mode import is_shadow
from daemon.loop import Loop, Running
from daemon.loop_mode import SteppedMode
from daemon.queries.bases import past_at_base
from daemon.queries.log_state import check_complete
from daemon.queries.moments import resolved
from daemon.simulation import run_loop
from daemon.version import VERSION
from daemon.view_rebuild import batches
from engine.engine import Engine
from events.chain import check_link
from events.codec import event_of
from events.daemon import PolicyChanged
from events.errors import UsageError
from events.record import GENESIS, Head
from projections.left_out import LeftOut, folded
from projections.state import State
from replay.goodput import CHECKPOINT_NS
from replay.log_time import LogTime
from replay.what_if_comparison import Branch
from replay.what_if_figures import RunFigures
from simulator.what_if_change import NO_CHANGE, Change
from simulator.what_if_cluster import WhatIfCluster
from simulator.what_if_history import ObjectName, RecordedHistory
from simulator.what_if_steps import PolicyStep

HOLDER: Final = "what-if"
"""The holder of the log of a branch."""

ReadChange = Callable[[RecordedHistory | None, int | None], Change]
"""Reads the change: first without, then with what its steps may name, and the length of the branch."""


class _Past(Struct):
    """What a log says, read once."""

    history: RecordedHistory
    head: Head
    """The last record that stands."""
    at_ns: int
    """When the branch begins."""
    end: int
    """Position of the last record."""
    checkpoint_ns: int = CHECKPOINT_NS


async def what_if(
    log: ReadableLog,
    moment: LogTime,
    read_change: ReadChange,
    *,
    kept: Log | None = None,
    checkpoint_ns: int = CHECKPOINT_NS,
    progress: Callable[[int], None] | None = None,
    option: str = "--at",
) -> Branch:
    """Run the rest of a log once more, without and with a change. Raises UsageError where the log cannot answer; `option`
    names the moment there.

    The run with the change is appended to `kept`, an empty log, behind a copy of the records that stand; else it is
    kept in memory. Jobs are taken to make a checkpoint in each `checkpoint_ns`. `progress` is called with positions as they are read or written.
    """
    check_complete(log)
    if await is_shadow(log):
        raise UsageError(
            f"{log.place} is the log of a shadow: other schedulers placed the pods, which a branch cannot repeat"
        )
    read_change(None, None)
    if log.base == GENESIS or moment.position != log.base.position:
        moment = await resolved(log, moment, option)
    before = await past_at_base(log)
    past = await _read_past(log, before, moment, frozenset(), progress, option)
    past.checkpoint_ns = checkpoint_ns
    history, at_ns = past.history, past.at_ns
    change = read_change(history, history.end_ns - at_ns)
    state = await fold(log, past.head.position, progress=progress)
    if not state.is_synced:
        raise UsageError(
            f"{option}: at position {past.head.position} the first lists of the cluster are not complete"
        )
    recorded = await folded(
        lambda left_out: _measure(log, state.fork(), past, left_out, until=past.end)
    )
    model = await _run(past, state.fork(), history, NO_CHANGE, None, progress)
    other = history
    if change.dropped:
        names = frozenset(one.name for one in change.dropped)
        other = (await _read_past(log, before, moment, names, progress)).history
        _check_dropped(change, other, past.head.position)
    if kept is not None:
        await copy_until(log, kept, past.head.position)
    changed = model
    if change != NO_CHANGE or kept is not None:
        changed = await _run(past, state.fork(), other, change, kept, progress)
    assert history.start_ns is not None
    return Branch(
        place=log.place,
        decider=history.decider,
        head=past.head,
        start_ns=history.start_ns,
        at_ns=at_ns,
        end_ns=history.end_ns,
        recorded=recorded,
        model=model,
        changed=changed,
    )


async def _read_past(
    log: ReadableLog,
    records_before: list[Entry],
    moment: LogTime,
    dropped: frozenset[ObjectName],
    progress: Callable[[int], None] | None,
    option: str = "--at",
) -> _Past:
    """Read a log, behind the records with which it begins. A batch stands as a whole, if its last record is at or before the
    moment."""
    end = log.head.position
    if moment.position is not None and moment.position >= end:
        raise UsageError(
            f"{option} {moment.position}: {log.place} holds positions {log.base.position + 1} to {end}, and a branch "
            "begins before its end"
        )
    history = RecordedHistory(dropped)
    for entry in records_before:
        history.add(entry.record, event_of(entry.record), entry.content)
    history.begin_log()
    head = log.base
    before: Head | None = None
    before_ns = 0
    async for batch in batches(log):
        last = batch[-1].record
        if before is None:
            start_ns = (
                batch[0].record.recorded_at_ns if history.start_ns is None else history.start_ns
            )
            if not moment.includes(last.position, last.recorded_at_ns, start_ns):
                if head == GENESIS:
                    raise UsageError(f"{option}: nothing of the log stands before that")
                before, before_ns = head, history.end_ns
                history.begin_branch()
        for entry in batch:
            head = check_link(head, entry.record)
            history.add(entry.record, event_of(entry.record), entry.content)
        if progress is not None:
            progress(head.position)
    if before is None:
        raise UsageError(
            f"{option}: {log.place} ends before that, at position {end}, and a branch begins before its end"
        )
    at_ns = max(before_ns, moment.at_ns or 0)
    return _Past(history, before, at_ns, head.position)


def _check_dropped(change: Change, history: RecordedHistory, position: int) -> None:
    """Raise UsageError for an object that no record after the branch's beginning is about."""
    for one in change.dropped:
        if not history.dropped[one.name]:
            resource, namespace, name = one.name
            shown = f"{namespace}/{name}" if namespace else name
            about = f"{resource} {shown}" if shown else f"any {resource}"
            raise UsageError(
                f"{one.place}: drop: no record after position {position} is about {about}"
            )


async def _measure(
    log: ReadableLog,
    state: State,
    past: _Past,
    left_out: LeftOut,
    *,
    until: int | None = None,
) -> RunFigures:
    """Return the figures of the records behind the beginning of the branch."""
    state.left_out = {**state.left_out, **left_out}
    figures = RunFigures(state, past.at_ns, past.history.seen_ns, past.checkpoint_ns)
    async for entries in log.read(after=past.head.position, until=until):
        for entry in entries:
            figures.add(entry.record, event_of(entry.record), entry.content)
    figures.finish(past.history.end_ns)
    return figures


async def _run(
    past: _Past,
    state: State,
    history: RecordedHistory,
    change: Change,
    kept: Log | None,
    progress: Callable[[int], None] | None,
) -> RunFigures:
    """Run the branch with a change, and return its figures."""
    # The policy of a change stays in force.
    is_kept = change.policy is None
    steps = [one for one in history.steps if is_kept or not isinstance(one, PolicyStep)]
    simulated = WhatIfCluster(
        history,
        [*steps, *change.steps_from(past.at_ns)],
        lambda policy: loop.change_policy(policy),
    )
    simulated.load(past.at_ns)
    cluster = SteppedCluster(simulated)
    memory = Memory(head=past.head, contents=dict(history.contents))
    log = MemoryLog(memory) if kept is None else kept
    begun = state.fork()

    async def begin(head: Head) -> Engine:
        return build_engine(state, head, views=None)

    running = Running(
        holder=HOLDER,
        version=VERSION,
        period_ns=state.period_ns,
        scheduler_names=state.cluster.scheduler_names,
        policy=_policy_of(change),
        # The next cycle comes at once after one that was cut short.
        first_cycle_ns=history.next_cycle_ns if state.deferred_work.is_empty else past.at_ns,
    )
    clock = VirtualClock(cluster, past.history.end_ns)
    refold = begin if kept is None else refolder(kept, with_views=True)
    loop = Loop(log, cluster, clock, refold, running, mode=SteppedMode(clock))
    await run_loop(loop, progress)
    return await _measure(log, begun, past, {})


def _policy_of(change: Change) -> PolicyChanged | None:
    if change.policy is None:
        return None
    content = msgspec.json.encode(change.policy, order="deterministic")
    return PolicyChanged(source=change.policy_file or "what-if", policy=msgspec.Raw(content))
