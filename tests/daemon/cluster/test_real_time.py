"""The simulated cluster in real time keeps itself in a file that outlives the daemon."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.world_file import WorldFile
from events.errors import ClusterError, SettingsError
from events.messages import (
    Accepted,
    BindRequest,
    ListCompleted,
    ObjectSeen,
    PodGroupPhaseRequest,
    Rejected,
    WatchMessage,
)
from simulator.scenario import Scenario, parse_scenario

SECOND = 1_000_000_000
ORIGIN = 1_700_000_000 * SECOND
SCENARIO = parse_scenario(
    """\
scenario: two pods
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
  - {kind: PodGroup, metadata: {name: g}}
  - {kind: Pod, metadata: {name: a, annotations: {muster.sh/run-seconds: "60"}}}
  - {kind: Pod, metadata: {name: b}}
""",
    "two.yaml",
)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ns = ORIGIN

    def __call__(self) -> int:
        return self.now_ns


def start(path: Path, clock: Hands, scenario: Scenario = SCENARIO) -> RealTimeCluster:
    """A cluster that starts, or starts again, from its file."""
    return RealTimeCluster(scenario, WorldFile(path, scenario, clock()), clock)


def bind(name: str, uid: str = "") -> BindRequest:
    """A binding to the only node."""
    return BindRequest(5, "default", name, uid, "n1")


async def next_batch(batches: AsyncGenerator[list[WatchMessage], None]) -> list[WatchMessage]:
    """What a reader sees next."""
    return await anext(batches)


async def next_sightings(cluster: RealTimeCluster) -> list[WatchMessage]:
    """The next batch of a new reader."""
    async with aclosing(cluster.messages()) as batches:
        return await anext(batches)


def running(messages: list[WatchMessage]) -> int:
    """How many of the pods seen are running."""
    return sum(b'"phase":"Running"' in one.raw for one in messages if isinstance(one, ObjectSeen))


async def test_what_was_answered_is_there_after_a_death(tmp_path: Path) -> None:
    clock = Hands()
    cluster = start(tmp_path / "w.db", clock)
    assert await cluster.perform(bind("a")) == Accepted()
    await cluster.perform(PodGroupPhaseRequest(6, "default", "g", "", "Inqueue"))
    await cluster.close()
    clock.now_ns += 5 * SECOND
    again = start(tmp_path / "w.db", clock)
    assert running(await next_sightings(again)) == 1
    refused = await again.perform(BindRequest(9, "default", "a", "", "n2"))
    assert isinstance(refused, Rejected)
    await again.close()


async def test_the_journal_can_be_read_by_anyone_and_tells_all(tmp_path: Path) -> None:
    cluster = start(tmp_path / "w.db", Hands())
    await cluster.perform(bind("a"))
    await cluster.perform(bind("a"))
    await cluster.perform(bind("a", uid="other"))
    await cluster.close()
    connection = sqlite3.connect(tmp_path / "w.db")
    rows = connection.execute("select verb, name, value, decision, result from journal").fetchall()
    connection.close()
    assert rows == [
        ("bind", "a", "n1", 5, "done"),
        ("bind", "a", "n1", 5, "again"),
        ("bind", "a", "n1", 5, "Conflict"),
    ]


async def test_calls_that_come_together_are_all_answered(tmp_path: Path) -> None:
    cluster = start(tmp_path / "w.db", Hands())
    replies = await asyncio.gather(*(cluster.perform(bind(name)) for name in ("a", "b", "none")))
    assert [type(reply) for reply in replies] == [Accepted, Accepted, Rejected]
    await cluster.close()


async def test_a_reader_sees_what_happens_when_it_happens(tmp_path: Path) -> None:
    clock = Hands()
    cluster = start(tmp_path / "w.db", clock)
    async with aclosing(cluster.messages()) as batches:
        first = await anext(batches)
        assert isinstance(first[-1], ListCompleted)
        await cluster.perform(bind("a"))
        assert len(await anext(batches)) == 2
        clock.now_ns += 60 * SECOND
        (finished,) = await anext(batches)
        assert isinstance(finished, ObjectSeen)
        assert b'"phase":"Succeeded"' in finished.raw
    await cluster.close()


async def test_a_reader_that_waits_is_woken_by_a_call(tmp_path: Path) -> None:
    cluster = start(tmp_path / "w.db", Hands())
    async with aclosing(cluster.messages()) as batches:
        await anext(batches)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(next_batch(batches))
            await asyncio.sleep(0)
            await cluster.perform(bind("b"))
        assert len(waiting.result()) == 2
    await cluster.close()


async def test_a_clock_that_was_set_back_does_not_turn_time_back(tmp_path: Path) -> None:
    clock = Hands()
    cluster = start(tmp_path / "w.db", clock)
    clock.now_ns += 9 * SECOND
    await cluster.perform(bind("a"))
    clock.now_ns -= 5 * SECOND
    assert await cluster.perform(bind("b")) == Accepted()
    await cluster.close()


async def test_a_world_that_cannot_be_kept_answers_no_more(tmp_path: Path) -> None:
    file = WorldFile(tmp_path / "w.db", SCENARIO, ORIGIN)
    cluster = RealTimeCluster(SCENARIO, file, Hands())
    file.close()
    for name in ("a", "b"):
        with pytest.raises(ClusterError, match="the world cannot be written"):
            await cluster.perform(bind(name))


async def test_two_simulations_of_one_world_cannot_both_answer(tmp_path: Path) -> None:
    one, other = start(tmp_path / "w.db", Hands()), start(tmp_path / "w.db", Hands())
    await one.perform(bind("a"))
    with pytest.raises(ClusterError, match="the world cannot be written"):
        await other.perform(bind("a"))


def test_a_file_belongs_to_one_scenario(tmp_path: Path) -> None:
    WorldFile(tmp_path / "w.db", SCENARIO, ORIGIN).close()
    with pytest.raises(SettingsError, match="by another scenario"):
        WorldFile(tmp_path / "w.db", Scenario(name="another", period_ns=7), ORIGIN)
    (tmp_path / "text").write_text("this is not a database, and long enough to be told from one")
    with pytest.raises(SettingsError, match="not a world that can be opened"):
        WorldFile(tmp_path / "text", SCENARIO, ORIGIN)
    with pytest.raises(SettingsError, match="not a world that can be opened"):
        WorldFile(tmp_path / "none" / "w.db", SCENARIO, ORIGIN)


async def test_a_reader_can_ask_for_everything_once_more(tmp_path: Path) -> None:
    cluster = start(tmp_path / "w.db", Hands())
    async with aclosing(cluster.messages()) as batches:
        first = await anext(batches)
        cluster.resume_from({})
        assert await anext(batches) == first
    await cluster.close()
