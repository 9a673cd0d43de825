"""Reduce a log to a scenario that still shows a condition.

First the cycle that shows it is found, and the objects as they stood before it. Then these are reduced: each trial
holds one cycle over some of them. The time of the search is bounded by the caller.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct, structs

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.bases import past_at_base
from daemon.queries.log_state import check_complete
from daemon.queries.replay import begin_replay
from daemon.view_rebuild import batches
from events.codec import event_of
from events.cycle import CycleOpened
from events.daemon import PolicyChanged
from events.decision import INTERNAL_ERROR, Decision
from events.errors import MusterError, UsageError
from events.record import Record
from projections.left_out import LeftOut, folded
from projections.state import State
from replay.log_replay import Divergence, Replay
from simulator.delta_debugging import SearchEndedError, minimize
from simulator.log_timeline import (
    TimedChange,
    TimelineTracker,
    timeline_scenario,
    without_noise,
)
from simulator.manifest import LocatedManifest
from simulator.reduce import Reduced, Reduction
from simulator.reduce_condition import DIVERGENCE, ERROR, PENDING, Condition, matches
from simulator.reduce_target import (
    CycleOutcome,
    Item,
    ItemPattern,
    Target,
    Waiting,
    divergence_target,
    items_of,
    shows,
    subjects_of,
)
from simulator.reduce_trial import ReductionTrial, decisions_of_cycle
from simulator.scenario import Scenario
from simulator.standing_objects import PLACED_POD, ObjectTracker, StandingObject, standing_objects

Progress = Callable[[int], None]

CONTEXT_MAX: Final = 12
"""The most pods on the nodes of a divergence that are never removed."""

_DEMANDS: Final = (("spec",), ("status", "allocatable"))
_NAMES: Final = (("metadata", "labels"), ("metadata", "annotations"))


class Stretch(Struct, frozen=True):
    """The part of a log in which a condition is looked for, and the policy to decide by (None: the recorded one)."""

    first: int
    last: int
    policy: bytes | None = None


class StartingPoint(Struct, frozen=True):
    """A cycle that shows a condition, with all that is needed to hold it again."""

    place: str
    position: int
    """Of the record that shows the condition."""
    cycle: int
    """Of the cycle; for what holds at the end, of the next record."""
    records: int
    what: str
    """What was found there, in a few words."""
    target: Target
    policy: PolicyChanged
    objects: tuple[StandingObject, ...]
    related: tuple[str, ...]
    """Subjects of the objects that the decision names."""
    groups: tuple[dict[str, None], ...]
    """Pod groups that wait: those that the cycle decided about, and those that the condition is about. The others keep
    the refusals of earlier cycles, which a scenario does not have."""
    at_ns: int
    """The time of the cycle."""
    period_ns: int
    decider: int
    """Version of the deciding code that the cycle was recorded with; 0 if there is none."""


class _Moment(Struct, frozen=True):
    position: int
    cycle: int
    what: str


async def starting_point(
    log: ReadableLog,
    condition: Condition,
    stretch: Stretch,
    scheduler_names: tuple[str, ...],
    progress: Progress | None = None,
) -> StartingPoint | None:
    """Return the first cycle of a stretch that shows a condition; None if there is none.

    Raises UsageError for a divergence that is not in a cycle. `scheduler_names` are those of a simulation.
    """
    check_complete(log)
    before = await past_at_base(log)

    async def attempt(left_out: LeftOut) -> StartingPoint | None:
        moment = await _find(log, condition, stretch, left_out, progress)
        if moment is None:
            return None
        return await _gather(log, before, condition, stretch, moment, scheduler_names, left_out)

    return await folded(attempt)


async def _find(
    log: ReadableLog,
    condition: Condition,
    stretch: Stretch,
    left_out: LeftOut,
    progress: Progress | None,
) -> _Moment | None:
    if condition.kind == DIVERGENCE:
        return await _find_divergence(log, condition, stretch, left_out, progress)
    if condition.kind == PENDING:
        return _Moment(stretch.last, stretch.last + 1, "a pod group waits at the end")
    async for entries in log.read(after=stretch.first - 1, until=stretch.last):
        for entry in entries:
            event = event_of(entry.record)
            if isinstance(event, Decision) and _has_match(condition, event):
                assert entry.record.cycle is not None
                return _Moment(entry.record.position, entry.record.cycle, event.lines()[0])
    return None


def _has_match(condition: Condition, event: Decision) -> bool:
    return any(condition.matches(word, item) for word, item in items_of((event,)))


async def _find_divergence(
    log: ReadableLog,
    condition: Condition,
    stretch: Stretch,
    left_out: LeftOut,
    progress: Progress | None,
) -> _Moment | None:
    replay = await begin_replay(log, stretch.policy, left_out)
    async for batch in batches(log):
        if batch[0].record.position > stretch.last:
            break
        is_compared = batch[-1].record.position >= stretch.first
        for entry in batch:
            before = replay.head
            if not is_compared:
                replay.fold(entry.record, entry.content)
                continue
            found = replay.take(entry.record, entry.content)
            while found is not None:
                if _is_wanted(condition, found, entry.record):
                    return _moment_of(found)
                # Go on behind it: the rest of its cycle is taken as it is recorded.
                replay = Replay(before, policy=stretch.policy, state=replay.state)
                replay.state.left_out = left_out
                if found.recorded is not None:
                    replay.fold(entry.record, entry.content)
                    is_compared = False
                    found = None
                else:
                    found = replay.take(entry.record, entry.content)
        if progress is not None:
            progress(replay.head.position)
    found = replay.finish()
    return None if found is None or not _is_wanted(condition, found, None) else _moment_of(found)


def _is_wanted(condition: Condition, found: Divergence, record: Record | None) -> bool:
    """Return True if either side of a divergence has the fields of the condition."""
    if not condition.fields:
        return True
    events = [] if found.recorded is None or record is None else [event_of(record)]
    if found.decided is not None and record is not None:
        side = structs.replace(
            record,
            kind=found.decided.kind,
            subject=found.decided.subject,
            body=found.decided.body,
        )
        events.append(event_of(side))
    decisions = [one for one in events if isinstance(one, Decision)]
    return any(matches(condition.fields, word, item) for word, item in items_of(decisions))


def _moment_of(found: Divergence) -> _Moment:
    if not found.cycle:
        raise UsageError(
            f"divergence at position {found.position}: {found.what}; it is not in a cycle, so no scenario can show it: "
            f"see `muster replay`"
        )
    return _Moment(found.position, found.cycle, found.what)


async def _gather(
    log: ReadableLog,
    before: list[Entry],
    condition: Condition,
    stretch: Stretch,
    moment: _Moment,
    scheduler_names: tuple[str, ...],
    left_out: LeftOut,
) -> StartingPoint | None:
    """Fold up to the cycle, and state what must be shown."""
    replay = await begin_replay(log, stretch.policy, left_out)
    tracker = _tracked(before)
    async for entries in log.read(until=moment.cycle - 1):
        for entry in entries:
            replay.fold(entry.record, entry.content)
            if entry.record.position not in left_out:
                tracker.add(entry.record, event_of(entry.record), entry.content)
    state = replay.state
    state.settle()
    records = [
        entry.record
        async for entries in log.read(after=moment.cycle - 1, until=stretch.last)
        for entry in entries
        if entry.record.cycle == moment.cycle
    ]
    opened = next((one for one in map(event_of, records) if isinstance(one, CycleOpened)), None)
    at_ns = state.now_ns if opened is None else opened.at_ns
    objects = standing_objects(tracker.contents(state), state, at_ns, scheduler_names)
    document = state.policy_document
    recorded = [one for one in map(event_of, records) if isinstance(one, Decision)]
    found = _target(condition, state, recorded, at_ns)
    if found is None:
        return None
    target, decided = found
    items = _target_items(target, recorded)
    waiting = {} if target.waiting is None else {target.waiting.pod_group: None}
    groups = {**_groups_of(items), **waiting}
    return StartingPoint(
        place=log.place,
        position=moment.position,
        cycle=moment.cycle,
        records=log.head.position,
        what=moment.what,
        target=target,
        policy=PolicyChanged(source="log", policy=msgspec.Raw(document)),
        objects=tuple(objects),
        at_ns=at_ns,
        period_ns=state.period_ns,
        related=tuple(dict.fromkeys(name for _, one in items for name in subjects_of(one))),
        groups=(_groups_of(items_of((*recorded, *decided))), groups),
        decider=0 if opened is None else opened.decider,
    )


def _tracked(before: list[Entry]) -> ObjectTracker:
    """Return a tracker of the objects with which a log begins."""
    tracker = ObjectTracker()
    for entry in before:
        tracker.add(entry.record, event_of(entry.record), entry.content)
    return tracker


def _target(
    condition: Condition, state: State, recorded: Sequence[Decision], at_ns: int
) -> tuple[Target, Sequence[Decision]] | None:
    """Return what must be shown, and the decisions that are made now where they matter. State is changed."""
    fields = condition.fields
    if condition.kind == PENDING:
        waiting = _waiting_target(fields, state)
        return None if waiting is None else (waiting, ())
    if condition.kind != DIVERGENCE:
        named = {key: one for key, one in fields.items() if key not in ("kind", "message")}
        pattern = ItemPattern(fields.get("kind", ""), named, message=fields.get("message", ""))
        if condition.kind == ERROR:
            words = [word for word, one in items_of(recorded) if condition.matches(word, one)]
            fields = {**named, "code": INTERNAL_ERROR}
            pattern = structs.replace(pattern, word=words[0], fields=fields)
        return Target(made=(pattern,), is_error=condition.kind == ERROR), ()
    decided = decisions_of_cycle(state, at_ns)
    target = divergence_target(recorded, decided, state)
    return None if target is None else (target, decided)


def _waiting_target(fields: dict[str, str], state: State) -> Target | None:
    for key, group in sorted(state.cluster.groups.items()):
        refusal = group.main_refusal
        if refusal is None or group.is_foreign:
            continue
        values = {"pod_group": key, "queue": group.queue, "code": refusal.code}
        named = (values[name] == value for name, value in fields.items() if name != "message")
        if all(named) and fields.get("message", "") in refusal.message:
            return Target(waiting=Waiting.of(key, refusal, with_words=True))
    return None


def _groups_of(items: Sequence[Item]) -> dict[str, None]:
    """Return the pod groups that entries of decisions name."""
    return dict.fromkeys(
        name for _, one in items for name in (one.pod_group, one.in_favour_of) if name
    )


def _target_items(target: Target, recorded: Sequence[Decision]) -> list[Item]:
    """Return the entries of decisions that a target is about."""
    items = [one for one in (target.recorded, target.decided) if one is not None]
    for event in recorded:
        of_event = items_of((event,))
        if any(pattern.matches(one) for pattern in target.made for one in of_event):
            return [*items, *of_event]
    return items


class Search(Struct):
    """A finished search for few objects."""

    target: Target
    """What the scenario shows; less than what was asked for where not even all objects show that."""
    reduced: Reduced | None
    """None if one cycle over all objects does not show the condition: it depends on more than they hold."""
    trials: int


def reduce_objects(
    start: StartingPoint,
    pinned: Sequence[str],
    scheduler_names: tuple[str, ...],
    is_over: Callable[[], bool],
    changed: Progress | None = None,
) -> Search:
    """Return the fewest objects found for which one cycle shows the condition.

    `pinned` are subjects of objects that stay; UsageError names one that is not there. `is_over` is asked before each
    trial whether the time limit is reached; `changed` is called with the number of objects left.
    """
    known = {one.subject: None for one in start.objects}
    for subject in pinned:
        if subject not in known:
            raise UsageError(
                f"--pin {subject.replace('//', '/')}: there is no such object before position {start.cycle} of {start.place}"
            )
    trial = ReductionTrial(start.policy, scheduler_names)
    found = _first_shown(start, pinned, trial)
    if found is None:
        return Search(start.target, None, trial.count)
    target, objects = found

    def holds(objects: Sequence[LocatedManifest]) -> bool:
        if is_over():
            raise SearchEndedError
        return trial.shows(target, objects)

    reduced = Reduction(
        objects,
        holds,
        (*target.pinned, *pinned, *_pods_on_named_nodes(start, target)),
        kept_fields=_kept_fields(target),
        changed=changed,
    ).run()
    return Search(target, reduced, trial.count)


def _first_shown(
    start: StartingPoint, pinned: Sequence[str], trial: ReductionTrial
) -> tuple[Target, list[StandingObject]] | None:
    """Return objects that show the target, and what they show of it; None if even all do not."""
    candidates = list(_candidates(start, dict.fromkeys((*start.target.pinned, *pinned))))
    for target in _weaker(start.target):
        tried: dict[int, None] = {}
        for objects in candidates:
            if len(objects) in tried:
                continue
            tried[len(objects)] = None
            if trial.shows(target, [one.located for one in objects]):
                return target, objects
    return None


def _weaker(target: Target) -> Iterator[Target]:
    """Yield a target, then with less that it requires in addition to the condition."""
    yield target
    if target.recorded_nodes:
        yield structs.replace(target, recorded_nodes=())
    waiting = target.waiting
    if waiting is not None and waiting.message_words:
        yield structs.replace(target, waiting=structs.replace(waiting, message_words=""))


def _candidates(start: StartingPoint, kept: dict[str, None]) -> Iterator[list[StandingObject]]:
    """Yield sets of objects to begin with, the small ones first: most conditions depend on few objects.

    These are what the decision names, with the pods of the named nodes; then also what else the cycle decided about;
    then also all nodes, without their pods; then all objects, and these without pods that wait.
    """
    related = dict.fromkeys((*start.related, *kept))
    of_cycle, of_target = start.groups

    def is_near(one: StandingObject, groups: dict[str, None], *, with_nodes: bool) -> bool:
        if one.subject in related or one.unit in related or one.waits_in in groups:
            return True
        is_node = one.located.kind.kind == "Node"
        return with_nodes if is_node else one.located.kind.kind not in ("Pod", "PodGroup")

    for groups, with_nodes in (
        (of_target, False),
        ({**of_cycle, **of_target}, False),
        (of_target, True),
    ):
        yield [one for one in start.objects if is_near(one, groups, with_nodes=with_nodes)]
    yield list(start.objects)
    for groups in start.groups:
        yield [
            one
            for one in start.objects
            if not one.waits_in or one.waits_in in groups or one.subject in kept
        ]


def _pods_on_named_nodes(start: StartingPoint, target: Target) -> Iterator[str]:
    """Yield the pods that stay where a recorded binding is not made now: those on the nodes of both sides, unless they
    are many. Which node is better depends on what is free there, for the version that wrote the log as well."""
    named = dict.fromkeys(
        f"Node//{one[1].node}" for one in (target.recorded, target.decided) if one is not None
    )
    pods = [one.subject for one in start.objects if one.sort == PLACED_POD and one.unit in named]
    if target.recorded is not None and target.recorded[0] == "bind" and len(pods) <= CONTEXT_MAX:
        yield from pods


def _kept_fields(target: Target) -> tuple[tuple[str, ...], ...]:
    """Return the paths of fields that stay where a recorded decision is not made now: why not may depend on them.

    Labels and annotations can go where each trial checks that the recorded binding is possible.
    """
    if not target.not_made:
        return ()
    return _DEMANDS if target.recorded_nodes else (*_DEMANDS, *_NAMES)


class TimelineSearch(Struct):
    """A finished search for few changes."""

    target: Target
    changes: tuple[TimedChange, ...] | None
    """None if not even all changes show the condition."""
    before: int
    """The number of changes in the log."""
    until_ns: int
    is_complete: bool
    trials: int


async def timeline_of(
    log: ReadableLog,
    start: StartingPoint,
    stretch: Stretch,
    scheduler_names: tuple[str, ...],
    progress: Progress | None = None,
) -> tuple[list[TimedChange], int]:
    """Return the changes from outside up to the cycle of a starting point, and its time on their timeline."""
    before = await past_at_base(log)

    async def attempt(left_out: LeftOut) -> tuple[list[TimedChange], int]:
        replay = await begin_replay(log, stretch.policy, left_out)
        tracker = TimelineTracker(scheduler_names)
        if before:
            objects = standing_objects(
                _tracked(before).contents(replay.state), replay.state, 0, scheduler_names
            )
            tracker.begin(objects, before[-1].record.recorded_at_ns)
        async for entries in log.read(until=start.cycle - 1):
            for entry in entries:
                event = event_of(entry.record)
                if entry.record.position not in left_out:
                    tracker.add(entry.record, event, entry.content, replay.state)
                replay.fold(entry.record, entry.content)
                replay.state.settle()
                tracker.add_applied(entry.record, event, replay.state)
            if progress is not None:
                progress(replay.head.position)
        return tracker.changes(), max(0, start.at_ns - tracker.origin_ns)

    return await folded(attempt)


def reduce_timeline(
    start: StartingPoint,
    changes: Sequence[TimedChange],
    until_ns: int,
    run: Callable[[Scenario], CycleOutcome],
    is_over: Callable[[], bool],
    changed: Progress | None = None,
) -> TimelineSearch:
    """Return the fewest changes found for which a simulation up to `until_ns` shows the condition.

    Pod groups are removed whole first, then single changes. `run` simulates a scenario.
    """
    target = structs.replace(start.target, recorded_nodes=())
    trials = 0

    def shown(chosen: Sequence[TimedChange]) -> bool:
        nonlocal trials
        if is_over():
            raise SearchEndedError
        trials += 1
        there = {one.subject: None for one in chosen}
        if any(subject not in there for subject in pinned):
            return False
        scenario = timeline_scenario(chosen, start.period_ns, until_ns, start.policy)
        return shows(target, run(scenario))

    known = {one.subject: None for one in changes}
    pinned = [one for one in target.pinned if one in known]
    best: list[TimedChange] | None = None
    is_complete = True

    def holds(chosen: Sequence[TimedChange]) -> bool:
        nonlocal best, is_complete
        try:
            is_shown = shown(chosen)
        except SearchEndedError:
            is_complete = False
            raise
        except MusterError:
            return False
        if is_shown and (best is None or len(chosen) <= len(best)):
            best = list(chosen)
            if changed is not None:
                changed(len(best))
        return is_shown

    with suppress(SearchEndedError):
        any(map(holds, _timelines(start, changes)))
    if best is not None and is_complete:
        of_unit: dict[str, list[int]] = {}
        first = list(best)
        for index, one in enumerate(first):
            of_unit.setdefault(one.unit, []).append(index)

        def holds_for_units(units: Sequence[str]) -> bool:
            there = sorted(index for unit in units for index in of_unit[unit])
            return holds([first[index] for index in there])

        minimize(list(of_unit), holds_for_units)
    if best is not None and is_complete:
        minimize(list(best), holds)
    if best is not None and is_complete:
        with suppress(SearchEndedError):
            holds(list(without_noise(best)))
    found = None if best is None else tuple(best)
    return TimelineSearch(target, found, len(changes), until_ns, is_complete, trials)


def _timelines(
    start: StartingPoint, changes: Sequence[TimedChange]
) -> Iterator[Sequence[TimedChange]]:
    """Yield the changes of objects that the decision names, then also those of all nodes, then all."""
    related = dict.fromkeys((*start.related, *(f"PodGroup/{one}" for one in start.groups[1])))
    kinds = ("Pod", "PodGroup")
    for others in ((*kinds, "Node"), kinds, ()):
        yield [
            one
            for one in changes
            if one.subject in related or one.unit in related or one.kind.kind not in others
        ]
