"""The judge: what the log says beside what really happened, as the world's journal tells it."""

import sqlite3
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.log.opening import open_log
from daemon.log.verify import verify
from events.cluster import ObjectDeleted
from events.codec import event_of
from events.daemon import DaemonStarted
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from events.normalize import JsonObject
from events.outcome import BindFailed, PodBound, ShadowDecisionEnded
from features.table import FEATURES
from projections.state import State
from replay.log_replay import Replay
from simulator.cluster import SimulatedCluster
from simulator.journal import JournalEntry, rebuild_cluster
from simulator.manifest_fields import node_of, phase_of, section, uid_of
from simulator.scenario import Scenario

Nomination = tuple[int, str]
"""The position of a decision, and the UID of a pod of it or its pod group."""


class Verdict(Struct, frozen=True):
    """What was found, where all is well."""

    records: int
    starts: int
    epoch: int
    decided: int
    """Pods that were decided on."""
    bound: int
    """Pods that the cluster bound."""
    again: int
    """Bindings that were asked for once more, and had been done."""
    refused: int


async def judge(url: str, world_path: Path, scenario: Scenario) -> Verdict:
    """Whether the log is whole, and it and the world agree. What is not so is an AssertionError."""
    log = await open_log(url)
    try:
        await verify(log)  # Positions dense, chain whole, batches whole, objects there.
        entries = await entries_of(log)
    finally:
        await log.close()
    calls, origin_ns = journal(world_path)
    state = replayed(entries)
    decided = decided_in(entries)
    _check_calls(calls, decided, evicted_in(entries), _phases(entries))
    check_outcomes(entries, decided)
    _check_world(state, scenario, calls, origin_ns, entries[-1].record.recorded_at_ns)
    results = [call.result for call in calls if call.verb == "bind"]
    return Verdict(
        records=len(entries),
        starts=sum(isinstance(event_of(one.record), DaemonStarted) for one in entries),
        epoch=entries[-1].record.epoch,
        decided=len(decided),
        bound=results.count("done"),
        again=results.count("again"),
        refused=len(results) - results.count("done") - results.count("again"),
    )


async def entries_of(log: ReadableLog) -> list[Entry]:
    """All that a log holds."""
    return [entry async for entries in log.read() for entry in entries]


def journal(path: Path) -> tuple[list[JournalEntry], int]:
    """Every call that was made of a world, and when its time began. May be asked while it is written."""
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=10)) as connection:
        names = ", ".join(
            structs.fields(JournalEntry)[n].name for n in range(len(structs.fields(JournalEntry)))
        )
        query = f"select {names} from journal order by id"  # noqa: S608 - the fields of a class
        calls = [JournalEntry(*row) for row in connection.execute(query)]
        (origin_ns,) = connection.execute("select origin_ns from world").fetchone()
    return calls, int(origin_ns)


def replayed(entries: list[Entry]) -> State:
    """State after a replay that found nothing other than the log says, and that adds up."""
    replay = Replay()
    for entry in entries:
        divergence = replay.take(entry.record, entry.content)
        assert divergence is None, divergence
    divergence = replay.finish()
    assert divergence is None, divergence
    replay.state.validate()
    return replay.state


def decided_in(entries: list[Entry]) -> dict[Nomination, str]:
    """Decision and pod to the node decided on."""
    decided: dict[Nomination, str] = {}
    for entry in entries:
        event = event_of(entry.record)
        if isinstance(event, GangBindDecided):
            for one in event.placements:
                decided[entry.record.position, one.uid] = one.node
    return decided


def evicted_in(entries: list[Entry]) -> dict[Nomination, str]:
    """Decision and pod to the node that the pod is to leave."""
    evicted: dict[Nomination, str] = {}
    for entry in entries:
        event = event_of(entry.record)
        if isinstance(event, EvictionDecided):
            for one in event.evictions:
                evicted[entry.record.position, one.uid] = one.node
    return evicted


def _phases(entries: list[Entry]) -> set[tuple[int, str, str]]:
    """What was there to be told of pod groups: since which record, whose, and which phase."""
    state = State(FEATURES)
    told: set[tuple[int, str, str]] = set()
    for entry, follows in zip_longest(entries, entries[1:]):
        state.apply(entry.record, event_of(entry.record), entry.content)
        if follows is None or follows.record.batch != entry.record.batch:
            state.settle()
        for key in state.cluster.pending_status.phases:
            group = state.cluster.groups[key]
            told.add((group.decided.reported_status.since, key, group.decided.phase))
    return told


def _check_calls(
    calls: list[JournalEntry],
    decided: dict[Nomination, str],
    evicted: dict[Nomination, str],
    phases: set[tuple[int, str, str]],
) -> None:
    """Nothing was done that the log does not hold, and nothing twice."""
    bound: dict[str, JournalEntry] = {}
    for call in calls:
        if call.verb == "phase":
            told = (call.decision, f"{call.namespace}/{call.name}", call.value)
            assert told in phases, f"{call} was carried out, and the log has no such phase"
            continue
        of_kind = evicted if call.verb in ("evict", "delete") else decided
        node = of_kind.get((call.decision, call.uid))
        assert node == call.value, f"{call} was carried out, but the log decided on {node}"
        if call.result == "done" and call.verb == "bind":
            assert call.uid not in bound, f"bound twice: {bound[call.uid]} and {call}"
            bound[call.uid] = call


def check_outcomes(entries: list[Entry], decided: dict[Nomination, str]) -> None:
    """No decision is lost: each has an outcome, or its pod is gone."""
    left = dict.fromkeys(decided)
    gone: set[str] = set()
    for entry in entries:
        event = event_of(entry.record)
        outcomes = PodBound | BindFailed | ShadowDecisionEnded
        if isinstance(event, outcomes) and entry.record.cause is not None:
            left.pop((entry.record.cause, event.uid), None)
        elif isinstance(event, ObjectDeleted):
            gone.add(event.uid)
    lost = [promise for promise in left if promise[1] not in gone]
    assert not lost, f"decided, and nothing came of it: {lost}"


def _check_world(
    state: State, scenario: Scenario, calls: list[JournalEntry], origin_ns: int, until_ns: int
) -> None:
    """State knows the pods that are there, each where it really is."""
    simulated = rebuild_cluster(scenario, calls, origin_ns)
    simulated.advance(max(simulated.now_ns, until_ns - origin_ns))
    there = {uid_of(pod): (node_of(pod), phase_of(pod)) for pod in pods_of(simulated)}
    known = {uid: (pod.node, pod.facts.phase) for uid, pod in state.cluster.pods.items()}
    assert known == there


def pods_of(simulated: SimulatedCluster) -> list[JsonObject]:
    """The pods of a world. Its watchers list again."""
    simulated.relist()
    shown = [
        msgspec.json.decode(one.raw)
        for one in simulated.poll_watch()
        if isinstance(one, ObjectSeen)
    ]
    return [one for one in shown if one["kind"] == "Pod" and section(one, "metadata")]
