"""Explain where a pod, pod group, node or queue is, at any moment of a log.

A pod is answered in two passes: its own records and those of its pod group are found by index; then State is taken from the history of
the log at the moment asked for, and where the pod was placed. A pod group is followed from its first record on, from State in the history; a
node and a queue through the last records up to the moment, and its own earlier records are found by index. What is found is read in
blocks: the number of queries does not grow with that of the records.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from daemon.log.contract import ReadableLog
from daemon.log.shadow_mode import is_shadow
from daemon.queries.history import History
from daemon.queries.log_state import check_complete
from daemon.queries.moments import each_entry, entries_at, position_at, recorded_at_ns
from daemon.queries.owned_groups import groups_of_owner, owner_name
from daemon.queries.quota_changes import last_quota_change
from events.chain import check_link
from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.errors import UsageError
from events.record import GENESIS
from events.union import DECISIONS
from features.table import FEATURES
from projections.left_out import ApplyError, LeftOut, folded
from projections.state import State
from replay.log_time import HEAD, LogTime
from replay.why import Inquiry
from replay.why_answer import Answer
from replay.why_pod import (
    LIVES_MAX,
    FoundCauses,
    Life,
    as_last_seen,
    concerned,
    joins_another_group,
    last_bound,
    last_placement,
    lives_of,
)
from replay.why_subject import candidates
from replay.why_trail import LoggedEvent, Trail

GROUPS_MAX: Final = 10
"""Pod groups of one owner that an error names."""

FAVOURING: Final = tuple(one.kind for one in DECISIONS if issubclass(one, EvictionDecided))
"""Kinds of decisions that are made in favour of another pod group than their subject."""

RECENT_RECORDS: Final = 5_000
"""Records before the moment in which a node or queue is followed."""

CAUSES_RECORDS: Final = 20_000
"""Records before a pod group in which the two cycles are looked for that its causes may belong to."""


async def why(
    log: ReadableLog,
    subject: str,
    moment: LogTime = HEAD,
    *,
    with_every_node: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Answer:
    """Return the chain of causes for a subject at a moment. Raises UsageError where the log cannot answer.

    The name of an owner of pods, such as a Job, is that of its pod group.

    `progress` is called with positions as they are read.
    """
    check_complete(log)
    until = await position_at(log, moment)
    try:
        return await _answer(log, subject, until, with_every_node, progress)
    except UsageError as unknown:
        owned = await _group_of_owner(log, subject, until)
        if owned is None:
            raise unknown from None
    return await _answer(log, owned, until, with_every_node, progress)


async def _group_of_owner(log: ReadableLog, subject: str, until: int) -> str | None:
    """Return the pod group of an owner, as a subject. Raises UsageError if it has several."""
    owner = owner_name(subject)
    if owner is None:
        return None
    groups = await groups_of_owner(log, owner, until)
    if len(groups) > 1:
        more = ", ..." if len(groups) > GROUPS_MAX else ""
        raise UsageError(
            f"{subject!r} has {len(groups)} pod groups: {', '.join(groups[:GROUPS_MAX])}{more}; name one of them"
        )
    return f"PodGroup/{groups[0]}" if groups else None


async def _answer(
    log: ReadableLog,
    subject: str,
    until: int,
    with_every_node: bool,
    progress: Callable[[int], None] | None,
) -> Answer:
    history = History(log)
    asked = _Asked(subject, until, _since(log, until), with_every_node)
    answer = await _of_pod(log, history, subject, until, with_every_node=with_every_node)
    if answer is None:
        answer = await _of_other(log, history, asked, progress)
    if answer is None:
        answer = await folded(lambda left_out: _ask(log, history, asked, left_out, progress))
    kind, _, name = answer.subject.partition("//")
    if kind != "Queue":
        return answer
    change = await last_quota_change(log, name, until)
    return structs.replace(answer, quota_change=change)


async def _ask(
    log: ReadableLog,
    history: History,
    asked: "_Asked",
    left_out: LeftOut,
    progress: Callable[[int], None] | None,
) -> Answer:
    """Return the answer of a fold of the whole log."""
    inquiry = Inquiry(
        asked.subject,
        since=asked.since,
        left_out=left_out,
        with_every_node=asked.with_every_node,
    )
    head = log.base
    if head != GENESIS:
        state = await history.facts_at_position(head.position)
        state.left_out = left_out
        start_ns = await recorded_at_ns(log, head.position + 1)
        inquiry.go_to(state, start_ns, start_ns)
    async for entries in log.read(after=head.position, until=asked.until):
        for entry in entries:
            head = check_link(head, entry.record)
            inquiry.take(entry.record, entry.content)
        if progress is not None:
            progress(entries[-1].record.position)
    return inquiry.answer()


class _Asked(Struct, frozen=True):
    subject: str
    until: int
    """The position of the moment."""
    since: int
    """The position from which a node or queue is followed; 0 for the first one."""
    with_every_node: bool


def _since(log: ReadableLog, until: int) -> int:
    since = until - RECENT_RECORDS + 1
    return since if since > log.base.position + 1 else 0


async def _of_other(
    log: ReadableLog, history: History, asked: _Asked, progress: Callable[[int], None] | None
) -> Answer | None:
    """Return the answer for a pod group, node or queue; None if the log has to be followed from its first record.

    Raises UsageError if there is no such subject.
    """
    start_ns = await recorded_at_ns(log, log.base.position + 1)
    meant = candidates(asked.subject)
    now = None
    if len(meant) > 1 or meant[0][0] in ("Pod", "PodGroup"):
        now = await history.facts_at_position(asked.until)
    found = await _named(log, now, asked, start_ns)
    if found[0] == "Pod" or (now is not None and now.left_out):
        return None
    kind, key, own = found
    if kind == "PodGroup" and now is not None:
        begin = await _begin_of_group(log, history, key, own, now)
        begin = await _before_causes(log, begin)
    else:
        begin = await history.nearest(max(asked.since - 1, 0)) + 1
    inquiry = Inquiry(f"{kind}/{key}", since=asked.since, with_every_node=asked.with_every_node)
    inquiry.add_own(await _read(log, [one for one in own if one < begin], start_ns))
    before = await history.facts_at_position(begin - 1)
    if before.left_out:
        return None
    inquiry.go_to(before, start_ns, start_ns)
    last_own = max(own, default=0)
    async for entries in log.read(after=begin - 1, until=asked.until):
        for entry in entries:
            try:
                inquiry.take(entry.record, entry.content)
            except ApplyError:
                return None  # It is left out by the fold.
        position = entries[-1].record.position
        if progress is not None:
            progress(position)
        if kind == "PodGroup" and now is not None and position > last_own:
            is_gone = not inquiry.has(kind, key) and key not in now.cluster.groups
            if is_gone:
                break
    if now is not None:
        inquiry.go_to(now, await recorded_at_ns(log, asked.until), start_ns)
    return inquiry.answer()


async def _named(
    log: ReadableLog, now: State | None, asked: _Asked, start_ns: int
) -> tuple[str, str, list[int]]:
    """Return the kind and key that a name means, and the positions of its own records.

    What is there `now` goes before what was there; with one meaning only, `now` need not be given. Raises UsageError if the log
    has neither.
    """
    inquiry = Inquiry(asked.subject)
    if now is not None:
        inquiry.go_to(now, await recorded_at_ns(log, asked.until), start_ns)
    seen: list[tuple[str, str, list[int]]] = []
    for kind, key in candidates(asked.subject):
        own = await log.positions_of([_subject(kind, key)], asked.until)
        if now is None or inquiry.has(kind, key):
            return kind, key, own
        if own:
            seen.append((kind, key, own))
    if not seen:
        raise inquiry.unknown()
    return seen[0]


def _subject(kind: str, key: str) -> str:
    return f"{kind}/{key}" if kind in ("Pod", "PodGroup") else f"{kind}//{key}"


async def _begin_of_group(
    log: ReadableLog, history: History, key: str, own: Sequence[int], now: State
) -> int:
    """Return the position of the first record of a pod group or of its first pods."""
    first = now if not own else await history.facts_at_position(own[0])
    begin = own[0] if own else first.position
    group = first.cluster.groups.get(key)
    uids = {} if group is None else {f"Pod/{one.key}": one.facts.uid for one in group.pods.values()}
    of_pod: dict[str, int] = {}
    async for entry in each_entry(log, await log.positions_of(list(uids), begin)):
        record, uid = entry.record, uids[entry.record.subject]
        if getattr(event_of(record), "uid", uid) != uid:
            of_pod.pop(record.subject, None)  # An earlier pod of that name.
        else:
            of_pod.setdefault(record.subject, record.position)
    return min((begin, *of_pod.values()))


async def _before_causes(log: ReadableLog, begin: int) -> int:
    """Return a position such that the causes that are shown of a record are behind it."""
    after = max(begin - CAUSES_RECORDS, log.base.position)
    before_last = (await _cycles_before_last(log, [begin - 1])).get(begin - 1, 0)
    return before_last if before_last > after else after + 1


async def _of_pod(
    log: ReadableLog, history: History, subject: str, until: int, *, with_every_node: bool
) -> Answer | None:
    """Return the answer for a pod in two passes; None if the subject is no pod, or has to be followed through the log."""
    kind, key = candidates(subject)[0]
    if kind != "Pod":
        return None
    start_ns = await recorded_at_ns(log, log.base.position + 1)
    own_positions = await log.positions_of([f"Pod/{key}"], until)
    begun = await _begun(log, history, key)
    if not (own_positions or begun):
        return None
    own = await _read(log, own_positions, start_ns)
    lives = lives_of(own, begun)
    if not lives or len(lives) > LIVES_MAX or joins_another_group(own):
        return None
    last = None
    bound = last_bound(own) or 0
    if bound > log.base.position:
        # The placement is explained there, and State at the moment is folded on from there if no snapshot is nearer.
        before = await history.facts_at_position(bound - 1)
        if len(lives) == 1 and await _means_nothing_else(log, subject, until):
            last = as_last_seen(own, before)
    if last is not None and lives[-1].end is not None:
        state, groups = State(FEATURES), {lives[-1]: last.group_key}
    else:
        states = [await history.facts_at_position((one.end or until + 1) - 1) for one in lives]
        pods = [state.cluster.pods.get(one.uid) for one, state in zip(lives, states, strict=True)]
        last = pods[-1]
        if last is None or any(state.left_out for state in states):
            return None
        state = states[-1] if lives[-1].end is None else await history.facts_at_position(until)
        if not _is_first_there(state, subject, last.facts.uid):
            return None
        groups = {
            life: "" if pod is None else pod.group_key
            for life, pod in zip(lives, pods, strict=True)
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
    return inquiry.answer_for(trail, until)


async def _means_nothing_else(log: ReadableLog, subject: str, until: int) -> bool:
    """Return True if a name of a pod is not that of anything else with records."""
    for kind, key in candidates(subject)[1:]:
        if await log.positions_of([_subject(kind, key)], until):
            return False
    return True


async def _begun(log: ReadableLog, history: History, key: str) -> list[Life]:
    """Return the life of the pod that is there before the first record of a log that begins with facts."""
    base = log.base.position
    if log.base == GENESIS:
        return []
    pods = (await history.facts_at_position(base)).cluster.pods.values()
    return [Life(one.facts.uid, base, None) for one in pods if one.key == key]


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
        if group:
            found += await log.positions_of([f"PodGroup/{group}"], end)
            found += await log.positions_of_kinds(FAVOURING, life.begin, end)
    return found


async def _causes(
    log: ReadableLog, entries: Sequence[LoggedEvent], start_ns: int
) -> dict[int, LoggedEvent]:
    """Return the causes of records that are shown: those since the cycle before the last that the log holds."""
    causes = [one.record for one in entries if (one.record.cause or 0) > log.base.position]
    since = await _cycles_before_last(log, [one.position for one in causes])
    wanted = {one.cause or 0 for one in causes if (one.cause or 0) >= since[one.position]}
    return {one.record.position: one for one in await _read(log, sorted(wanted), start_ns)}


async def _cycles_before_last(log: ReadableLog, positions: Sequence[int]) -> dict[int, int]:
    """Return the cycle before the last one at or before each position that the log holds; 0 for none."""
    last = await log.cycles_at(positions)
    before = await log.cycles_at(sorted({one - 1 for one in last.values() if one}))
    return {position: before.get(cycle - 1, 0) for position, cycle in last.items()}


async def _read(log: ReadableLog, positions: Sequence[int], start_ns: int) -> list[LoggedEvent]:
    if not positions:
        return []
    shadow = await is_shadow(log)
    return [
        LoggedEvent(one.record, event_of(one.record), one.content, start_ns, is_shadow=shadow)
        for one in await entries_at(log, positions)
    ]
