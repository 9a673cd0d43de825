"""What happened to a pod, pod group, node, queue or card between two moments of a log.

The records of a pod and of a pod group are found by the index of subjects, whatever their age. For a node, a queue and a
card the records between the two moments are read, from State in the history of the log on: the time grows with the
stretch, not with the log.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.log.lost_records import losses
from daemon.queries.checked_records import checked_records
from daemon.queries.followed_records import followed
from daemon.queries.history import History
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, each_entry, position_at, position_from, recorded_at_ns
from daemon.queries.why import FAVOURING
from events.cluster import ObjectDeleted
from events.codec import event_of
from events.decision import Decision, PodGroupDecision
from events.errors import UsageError
from events.union import Outcome
from projections.left_out import ApplyError
from projections.state import State
from replay.history_event import HistoryEvent
from replay.narrate import sentences
from replay.node_history import NodeHistory
from replay.subject_history import (
    CARD,
    FactsHistory,
    RecordsHistory,
    cards_of,
)
from replay.why_subject import candidates

HOUR_NS: Final = 3_600_000_000_000
"""How far back a node, a queue or a card is followed where no moment is given."""

NAMES_MAX: Final = 12
"""Names in an error."""

Progress = Callable[[int], None]


class SubjectHistory(Struct, frozen=True):
    """The answer: what happened, in order."""

    subject: str
    """`Pod/default/a`, `Node/n1`, `Card/n1/H200`, ..."""
    first: int
    last: int
    """Positions of the first and last records of the stretch."""
    start_ns: int
    """When the log begins."""
    first_ns: int
    last_ns: int
    events: list[HistoryEvent]


async def subject_history(
    log: ReadableLog,
    subject: str,
    first: At = None,
    last: At = None,
    progress: Progress | None = None,
    *,
    option: str = "--from",
) -> SubjectHistory:
    """Return what happened to a subject between two moments.

    By default a pod and a pod group are followed through the whole log, and others through its last hour. Raises UsageError for a
    moment outside of the log (`option` names the first one there), a stretch without records, and a subject that the log does not know.
    """
    check_complete(log)
    until = await position_at(log, last, "--to")
    base = log.base.position
    if until <= base:
        raise UsageError(f"{log.place} holds no records")
    since = None if first is None else await position_from(log, first, option)
    if since is not None and since > until:
        raise UsageError(f"{option} {since} comes after --to {until}")
    start_ns = await recorded_at_ns(log, base + 1)
    meant = _card(subject) or candidates(subject)
    history = History(log)
    kind, key = await _known(log, history, subject, meant, until)
    if kind in ("Pod", "PodGroup"):
        begin = base + 1 if since is None else since
        events = await _from_records(log, history, kind, key, begin, until)
    else:
        if since is None:
            hour_ago = await recorded_at_ns(log, until) - HOUR_NS
            since = min(max(await log.position_at(hour_ago - 1), base) + 1, until)
        begin = since
        if kind == "Node":
            events = await _of_node(log, history, key, begin, until, progress)
        else:
            events = await _from_facts(log, history, kind, key, begin, until, progress)
    # What happened to the subject in a lost part is not known.
    gaps = [
        HistoryEvent.of(record, sentences(record, event))
        for record, event in await losses(log)
        if begin <= record.position <= until
    ]
    events = sorted([*events, *gaps], key=lambda one: one.position)
    return SubjectHistory(
        subject=f"{kind}/{key}",
        first=begin,
        last=until,
        start_ns=start_ns,
        first_ns=await recorded_at_ns(log, begin),
        last_ns=await recorded_at_ns(log, until),
        events=events,
    )


def _card(subject: str) -> list[tuple[str, str]]:
    """Return the card that a subject names: `Card/MODEL`, `Card/NODE/MODEL`, `Card/NODE/DEVICE`; empty if it is another subject."""
    parts = subject.strip().split("/")
    is_card = parts[0] == CARD or (parts[0] == CARD.lower() and len(parts) > 2)
    if not is_card:
        return []
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise UsageError(
            f"{subject!r} names no card: give Card/MODEL, Card/NODE/MODEL or Card/NODE/DEVICE"
        )
    return [(CARD, "/".join(parts[1:]))]


async def _known(
    log: ReadableLog, history: History, subject: str, meant: list[tuple[str, str]], until: int
) -> tuple[str, str]:
    """Return the first meaning of a subject that the log knows up to a position. Raises UsageError."""
    for kind, key in meant:
        if kind == CARD or await log.positions_of([_record_subject(kind, key)], until):
            return kind, key
    state = await history.facts_at_position(until)
    cluster = state.cluster
    pods = {one.key for one in cluster.pods.values()} if meant[0][0] == "Pod" else ()
    for kind, key in meant:
        found = {
            "Pod": pods,
            "PodGroup": cluster.groups,
            "Node": cluster.nodes.nodes,
            "Queue": cluster.queues,
        }[kind]
        if key in found:
            return kind, key
    names = " or ".join(f"{kind}/{key}" for kind, key in meant)
    raise UsageError(f"{log.place} knows no {names} up to position {until}")


def _record_subject(kind: str, key: str) -> str:
    return f"{kind}/{key}" if kind in ("Pod", "PodGroup") else f"{kind}//{key}"


async def _node_of_card(log: ReadableLog, history: History, key: str, until: int) -> str:
    """Return the node of `NODE/CARD`; "" for a model of cards, on whatever nodes, although there may be a `/` in its name."""
    node, _, card = key.partition("/")
    if not card:
        return ""
    if await log.positions_of([f"Node//{node}"], until):
        return node
    begin = await history.facts_at_position(log.base.position)
    return node if node in begin.cluster.nodes.nodes else ""


def _check_card(state: State, key: str, name: str, until: int) -> None:
    """Raise UsageError for a card that no node has at the end of the stretch; `name` is its node."""
    nodes = state.cluster.nodes.nodes
    card = key.removeprefix(f"{name}/")
    chosen = nodes.values() if not name else [nodes[name]] if name in nodes else []
    known = dict.fromkeys(
        one for node in chosen if node.facts is not None for one in cards_of(node.facts)
    )
    if card not in known:
        some = list(known)
        names = ", ".join(some[:NAMES_MAX]) + (", ..." if len(some) > NAMES_MAX else "")
        where = f"node {name} has" if name else "the nodes have"
        raise UsageError(f"Card/{key}: at position {until} {where} {names or 'no cards'}")


async def _of_node(
    log: ReadableLog,
    history: History,
    name: str,
    begin: int,
    until: int,
    progress: Progress | None,
) -> list[HistoryEvent]:
    """Read the records from the nearest snapshot on; only those that name the node are looked at."""
    after = await history.nearest(begin - 1)
    events = NodeHistory(name, await history.facts_at_position(after))
    found: list[HistoryEvent] = []
    async for entries in checked_records(log, after, log.read(after, until)):
        for entry in entries:
            try:
                event = events.take(entry.record, entry.content)
            except ApplyError as error:
                events.replace_state(await history.facts_at_position(error.position))
                continue
            if event is not None and event.position >= begin:
                found.append(event)
        if progress is not None:
            progress(entries[-1].record.position)
    return found


async def _from_facts(
    log: ReadableLog,
    history: History,
    kind: str,
    key: str,
    begin: int,
    until: int,
    progress: Progress | None,
) -> list[HistoryEvent]:
    """Follow the records of a stretch with State."""
    found: list[HistoryEvent] = []
    node = await _node_of_card(log, history, key, until) if kind == CARD else ""
    before = state = await history.facts_at_position(begin - 1)
    events = FactsHistory(kind, key, before, node)
    async for one in followed(
        checked_records(log, begin - 1, log.read(begin - 1, until)), history, before
    ):
        state = one.state
        event = events.take(one.record, one.event, one.entry.content, one.scope, state)
        if event is not None:
            found.append(event)
        if progress is not None:
            progress(one.record.position)
    if kind == CARD and not found:
        _check_card(state, key, node, until)
    return found


async def _from_records(
    log: ReadableLog, history: History, kind: str, key: str, begin: int, until: int
) -> list[HistoryEvent]:
    """Find the records of a pod or pod group by their subjects."""
    if kind == "Pod":
        positions = await _of_pod(log, history, key, begin, until)
    else:
        positions = await _of_group(log, history, key, begin, until)
    events = RecordsHistory(kind, key)
    found: list[HistoryEvent] = []
    async for entry in each_entry(log, sorted(positions)):
        event = event_of(entry.record)
        if kind == "Pod" and isinstance(event, Decision) and not _is_about(event, key):
            continue
        shown = events.take(entry.record, event, entry.content)
        if shown is not None and entry.record.position >= begin:
            found.append(shown)
    return found


def _is_about(event: Decision, pod: str) -> bool:
    """Return True unless a decision of the pod group is about other pods only."""
    pods = [one.pod for one in (*event.pods, *event.items()) if one.pod]
    return not pods or pod in pods


class _Life(Struct):
    """The records of one pod of a name."""

    last: int = 0
    is_gone: bool = False
    causes: dict[int, None] = {}
    """Positions of the decisions that its outcomes are of."""


async def _of_pod(log: ReadableLog, history: History, key: str, begin: int, until: int) -> set[int]:
    """Return the positions of the records of a pod, and of the decisions of its pod groups while it was there.

    The last record before the stretch is among them: what comes then is compared with it.
    """
    own = await log.positions_of([f"Pod/{key}"], until)
    found = _within(own, begin)
    lives: dict[str, _Life] = {}
    async for entry in each_entry(log, sorted(found)):
        record, event = entry.record, event_of(entry.record)
        uid = getattr(event, "uid", "")
        life = lives.setdefault(uid, _Life())
        life.last = record.position
        life.is_gone = isinstance(event, ObjectDeleted)
        if isinstance(event, Outcome) and record.cause is not None:
            life.causes[record.cause] = None
    groups: dict[str, None] = {}
    for uid, life in lives.items():
        of_life: dict[str, None] = {}
        async for entry in each_entry(log, sorted(life.causes)):
            event = event_of(entry.record)
            if isinstance(event, PodGroupDecision):
                of_life[event.pod_group] = None
        if not of_life:  # It was never placed in the stretch: only State knows its pod group.
            at = life.last - 1 if life.is_gone else life.last
            pod = (await history.facts_at_position(at)).cluster.pods.get(uid)
            if pod is not None:
                of_life[pod.group_key] = None
        groups.update(of_life)
    if not lives:
        pods = (await history.facts_at_position(until)).cluster.pods.values()
        groups.update({one.group_key: None for one in pods if one.key == key})
    is_gone = bool(lives) and list(lives.values())[-1].is_gone
    end = own[-1] if is_gone else until
    for group in filter(None, groups):
        of_group = await log.positions_of([f"PodGroup/{group}"], end)
        found |= {one for one in of_group if one >= max(begin, own[0] if own else begin)}
    return found | await _in_favour(log, groups, found, begin, end)


async def _of_group(
    log: ReadableLog, history: History, key: str, begin: int, until: int
) -> set[int]:
    """Return the positions of the records of a pod group and of its pods."""
    own = await log.positions_of([f"PodGroup/{key}"], until)
    found = _within(own, begin)
    pods: dict[str, None] = {}
    async for entry in each_entry(log, own):
        event = event_of(entry.record)
        if isinstance(event, Decision):
            pods.update({one.pod: None for one in (*event.pods, *event.items()) if one.pod})
    # Pods that were never placed are known to State only: at the end, and where the group was decided on last.
    for position in dict.fromkeys((until, own[-1] if own else until)):
        group = (await history.facts_at_position(position)).cluster.groups.get(key)
        if group is not None:
            pods.update({one.key: None for one in group.pods.values()})
    for pod in pods:
        found |= _within(await log.positions_of([f"Pod/{pod}"], until), begin)
    return found | await _in_favour(log, {key: None}, found, begin, until)


async def _in_favour(
    log: ReadableLog, groups: Iterable[str], found: set[int], begin: int, until: int
) -> set[int]:
    """Return the positions of the evictions in favour of pod groups, between their first and last records."""
    if not found:
        return set()
    kept: set[int] = set()
    after = max(min(found), begin) - 1
    positions = await log.positions_of_kinds(FAVOURING, after, min(until, max(found)))
    async for entry in each_entry(log, positions):
        event = event_of(entry.record)
        if isinstance(event, Decision) and event.beneficiary in groups:
            kept.add(entry.record.position)
    return kept


def _within(positions: list[int], begin: int) -> set[int]:
    """Return the positions from `begin` on, and the last one before."""
    before = [one for one in positions if one < begin]
    return {*before[-1:], *(one for one in positions if one >= begin)}
