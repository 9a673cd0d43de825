"""Explain where a pod, pod group, node or queue is, at any moment of a log.

A pod is answered in two passes: its own records and those of its pod group are found by index; then State is taken from the history of
the log at the moment asked for, and where the pod was placed. Other subjects are followed through the whole log up to the moment.
"""

from collections.abc import Callable, Sequence
from typing import Final

from daemon.log.contract import ReadableLog
from daemon.queries.history import History
from daemon.queries.log_state import check_complete
from daemon.queries.moments import entry_at, position_at, recorded_at_ns
from events.chain import check_link
from events.codec import event_of
from events.cycle import CycleOpened
from events.decisions.eviction import EvictionDecided
from events.record import Record
from events.union import DECISIONS
from projections.left_out import folded
from projections.state import State
from replay.log_time import HEAD, LogTime
from replay.why import Inquiry
from replay.why_answer import Answer
from replay.why_pod import (
    LIVES_MAX,
    FoundCauses,
    Life,
    concerned,
    last_placement,
    lives_of,
)
from replay.why_subject import candidates
from replay.why_trail import LoggedEvent, Trail

FAVOURING: Final = tuple(one.kind for one in DECISIONS if issubclass(one, EvictionDecided))
"""Kinds of decisions that are made in favour of another pod group than their subject."""

CYCLES: Final = ("cycle_opened.v1", CycleOpened.kind)
"""The kinds of records that open a cycle, those of earlier releases included."""


async def why(
    log: ReadableLog,
    subject: str,
    moment: LogTime = HEAD,
    *,
    with_every_node: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Answer:
    """Return the chain of causes for a subject at a moment. Raises UsageError where the log cannot answer.

    `progress` is called with positions as they are read.
    """
    check_complete(log)
    until = await position_at(log, moment)
    answer = await _of_pod(log, subject, until, with_every_node=with_every_node)
    if answer is not None:
        return answer
    return await folded(
        lambda left_out: _ask(
            log,
            Inquiry(subject, left_out=left_out, with_every_node=with_every_node),
            until,
            progress,
        )
    )


async def _ask(
    log: ReadableLog, inquiry: Inquiry, until: int, progress: Callable[[int], None] | None
) -> Answer:
    head = log.base
    async for entries in log.read(until=until):
        for entry in entries:
            head = check_link(head, entry.record)
            inquiry.take(entry.record, entry.content)
        if progress is not None:
            progress(entries[-1].record.position)
    return inquiry.answer()


async def _of_pod(
    log: ReadableLog, subject: str, until: int, *, with_every_node: bool
) -> Answer | None:
    """Return the answer for a pod in two passes; None if the subject is no pod, or has to be followed through the log."""
    kind, key = candidates(subject)[0]
    if kind != "Pod":
        return None
    start_ns = await recorded_at_ns(log, log.base.position + 1)
    own_positions = await log.positions_of(f"Pod/{key}", until)
    if not own_positions:
        return None
    own = await _read(log, own_positions, start_ns)
    lives = lives_of(own)
    if not lives or len(lives) > LIVES_MAX:
        return None
    history = History(log)
    states = [await history.facts_at_position((one.end or until + 1) - 1) for one in lives]
    pods = [state.cluster.pods.get(one.uid) for one, state in zip(lives, states, strict=True)]
    last = pods[-1]
    if last is None or any(state.left_out for state in states):
        return None
    state = states[-1] if lives[-1].end is None else await history.facts_at_position(until)
    if not _is_first_there(state, subject, last.facts.uid):
        return None
    groups = {
        life: "" if pod is None else pod.group_key for life, pod in zip(lives, pods, strict=True)
    }
    positions = {*own_positions, *await _of_groups(log, groups, until)}
    entries = concerned(await _read(log, sorted(positions), start_ns), key, groups)
    trail = Trail("Pod", key)
    trail.pod = last
    causes = FoundCauses(await _causes(log, entries, start_ns))
    for entry in entries:
        trail.add(entry, causes, status="")
    inquiry = Inquiry(subject, with_every_node=with_every_node)
    placed = last_placement(entries, key)
    if placed is not None:
        before = await history.facts_at_position(placed.record.position - 1)
        inquiry.go_to(before, placed.record.recorded_at_ns, start_ns)
        inquiry.explain_placement(trail, placed)
    inquiry.go_to(state, await recorded_at_ns(log, until), start_ns)
    return inquiry.answer_for(trail)


def _is_first_there(state: State, subject: str, uid: str) -> bool:
    """Return True unless the subject may mean something else that is there, while the pod is gone."""
    if uid in state.cluster.pods:
        return True
    cluster = state.cluster
    names = {
        "PodGroup": cluster.groups.keys(),
        "Node": cluster.nodes.nodes.keys(),
        "Queue": cluster.queues.keys(),
    }
    return not any(key in names[kind] for kind, key in candidates(subject) if kind in names)


async def _of_groups(log: ReadableLog, groups: dict[Life, str], until: int) -> list[int]:
    """Return the positions of the records that may concern pod groups while their pod was there."""
    found: list[int] = []
    for life, group in groups.items():
        end = until if life.end is None else life.end
        of_group = await log.positions_of(f"PodGroup/{group}", end) if group else None
        found += of_group or []
        for kind in FAVOURING if group else ():
            found += await log.positions_of_kind(kind, life.begin, end)
    return found


async def _causes(
    log: ReadableLog, entries: Sequence[LoggedEvent], start_ns: int
) -> dict[int, LoggedEvent]:
    """Return the causes of records that are shown: those since the cycle before the last."""
    wanted = {
        one.record.cause: None
        for one in entries
        if one.record.cause and await _is_recent(log, one.record.cause, one.record)
    }
    return {one.record.position: one for one in await _read(log, sorted(wanted), start_ns)}


async def _is_recent(log: ReadableLog, cause: int, record: Record) -> bool:
    cycles = 0
    for kind in CYCLES:
        cycles += len(await log.positions_of_kind(kind, cause, record.position))
    return cycles <= 1


async def _read(log: ReadableLog, positions: Sequence[int], start_ns: int) -> list[LoggedEvent]:
    found: list[LoggedEvent] = []
    for position in positions:
        entry = await entry_at(log, position)
        found.append(LoggedEvent(entry.record, event_of(entry.record), entry.content, start_ns))
    return found
