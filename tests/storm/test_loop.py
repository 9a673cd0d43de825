"""The loop among shores that refuse, do not answer, and go away."""

import asyncio
from pathlib import Path

import pytest

from daemon.log.memory import MemoryLog
from events.cluster import KindListed, ObjectDeleted, ObjectObserved
from events.cycle import CycleOpened
from events.daemon import DaemonStarted
from events.decisions.gang_bind import GangBindDecided
from events.errors import FencedError
from events.outcome import BindFailed, BindOutcomeUnknown, PodBound
from events.record import Head
from events.union import Event
from projections.kind_table import REQUIRED
from tests.storm.rig import PATIENCE_SECONDS, Rig

NODE = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 20}}}
"""
POD = """\
  - {kind: Pod, metadata: {name: a}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
"""
FOUR = NODE + POD.replace("{name: a}", '{name: "a{i}"}').rstrip()[:-1] + ", count: 4}\n"


async def test_what_is_refused_is_tried_again_later(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE + POD)
    rig.cluster.moods.append("refuse")
    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) == 1)
    assert rig.count(BindFailed) == 1
    assert rig.bound() == ["a"]
    assert await rig.known() == {"a": "n1"}


async def test_what_was_not_answered_is_asked_again_and_done_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE + POD)
    rig.cluster.moods.append("lose")
    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) == 1)
    assert rig.count(BindOutcomeUnknown) == 1
    assert [call.result for call in rig.calls()] == ["done", "again"]
    assert await rig.known() == {"a": "n1"}


@pytest.mark.parametrize("is_in_the_log", [False, True])
async def test_nothing_is_done_while_the_log_is_away(tmp_path: Path, is_in_the_log: bool) -> None:
    """Whether or not the batch with the decision is in the log, whose answer did not come."""
    rig = Rig(tmp_path, FOUR)
    rig.log.leaves_at, rig.log.takes_it_in = GangBindDecided.kind, is_in_the_log
    async with rig.runs():
        await rig.until(lambda: rig.log.failures >= 2)
        assert rig.calls() == []
        assert not rig.loop.health.is_ready
        assert "log" in rig.loop.health.reasons
        rig.log.is_away = False
        await rig.until(lambda: rig.count(PodBound) == 4)
    assert sorted(rig.bound()) == ["a1", "a2", "a3", "a4"]
    assert "log" not in rig.loop.health.reasons
    assert len(await rig.known()) == 4


async def test_after_the_log_was_away_all_is_listed_before_anything_is_decided(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, FOUR)

    def since_it_is_back() -> list[type[Event]]:
        kinds = [type(event) for event in rig.events()]
        return kinds[kinds.index(DaemonStarted, 1) :] if kinds.count(DaemonStarted) == 2 else []

    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) == 4)
        rig.log.is_away = True
        rig.cluster.resume_from({})
        await rig.until(lambda: rig.log.failures >= 2)
        rig.log.is_away = False
        await rig.until(lambda: since_it_is_back().count(KindListed) >= len(REQUIRED))
    after = since_it_is_back()
    listed = [index for index, kind in enumerate(after) if kind is KindListed]
    assert CycleOpened not in after[: listed[len(REQUIRED) - 1]]
    assert ObjectObserved not in after, "what is known already is not told again"


@pytest.mark.parametrize("intake", [1, 10_000])
async def test_what_vanished_while_the_log_was_away_is_gone(tmp_path: Path, intake: int) -> None:
    """Also where the watch had shown it, and there was no room to take it in."""
    steps = """\
steps:
  - {at: 300ms, apply: [{kind: Pod, metadata: {name: b}, spec: {schedulerName: other}}]}
  - {at: 400ms, apply: [{kind: Pod, metadata: {name: c}, spec: {schedulerName: other}}]}
  - {at: 600ms, delete: [{kind: Pod, name: a}, {kind: Pod, name: b}, {kind: Pod, name: c}]}
"""
    rig = Rig(tmp_path, NODE + POD + steps, intake_max=intake)
    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) == 1)
        rig.log.is_away = True
        await asyncio.sleep(0.8)
        rig.log.is_away = False
        await rig.until(lambda: rig.count(ObjectDeleted) >= 1)
        await asyncio.sleep(0.1)
    gone = [event for event in rig.events() if isinstance(event, ObjectDeleted)]
    assert [event.synthesized for event in gone] == [True]
    assert await rig.known() == {}


def one_after_the_other(count: int) -> str:
    """Steps in which pods of another scheduler come, which no cycle decides on."""
    return "steps:\n" + "".join(
        f"  - {{at: {300 + 40 * index}ms, apply: [{{kind: Pod, metadata: {{name: b{index}}}, "
        "spec: {schedulerName: other}}]}\n"
        for index in range(count)
    )


def names_of(rig: Rig) -> set[str]:
    """Return the pods that State holds."""
    engine = rig.loop.engine
    return (
        set() if engine is None else {one.facts.name for one in engine.state.cluster.pods.values()}
    )


def is_quiet(rig: Rig) -> bool:
    """Return True if all was listed and nothing is under way; the next cycle is a period away."""
    engine, is_busy = rig.loop.engine, rig.loop.in_flight or rig.loop.intake
    return bool(rig.loop.is_synced and engine and not is_busy and rig.log.head == engine.head)


async def test_batches_are_taken_in_while_earlier_ones_are_made_durable(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE + POD + one_after_the_other(8), period_ns=60_000_000_000)
    async with rig.runs():
        await rig.until(lambda: is_quiet(rig))
        rig.log.answers.clear()
        await rig.until(lambda: len(names_of(rig)) >= 6)
        head = rig.loop.engine.head if rig.loop.engine else None
        assert head is not None
        assert rig.log.head.position < head.position - 2
        rig.log.answers.set()
        await rig.until(lambda: len(names_of(rig)) == 9)
    batches = {record.batch for record in rig.log.memory.records}
    assert len(batches) >= 6, "each batch stays one of its own"
    assert set(await rig.known()) == {"a", *(f"b{index}" for index in range(8))}


async def test_several_batches_ahead_of_a_log_that_fails_are_taken_in_again(
    tmp_path: Path,
) -> None:
    """None of them is in the log; State is folded again from what is."""
    rig = Rig(tmp_path, NODE + POD + one_after_the_other(8), period_ns=60_000_000_000)
    async with rig.runs():
        await rig.until(lambda: is_quiet(rig))
        rig.log.answers.clear()
        await rig.until(lambda: len(names_of(rig)) >= 6)
        rig.log.is_away = True
        rig.log.answers.set()
        await rig.until(lambda: rig.log.failures >= 3)
        assert not rig.loop.health.is_ready
        rig.log.is_away = False
        await rig.until(lambda: len(names_of(rig)) == 9)
    assert set(await rig.known()) == {"a", *(f"b{index}" for index in range(8))}
    assert rig.count(DaemonStarted) == 2


async def test_stopping_makes_batches_durable_that_are_ahead(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE + POD + one_after_the_other(5), period_ns=60_000_000_000)
    async with rig.runs():
        await rig.until(lambda: is_quiet(rig))
        rig.log.answers.clear()
        await rig.until(lambda: len(names_of(rig)) == 6)
        rig.loop.stop()
        await asyncio.sleep(0)
        rig.log.answers.set()
    assert set(await rig.known()) == {"a", *(f"b{index}" for index in range(5))}


async def test_no_request_is_made_while_observations_before_it_are_not_durable(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, FOUR)
    async with rig.runs():
        await rig.until(lambda: rig.loop.engine is not None and rig.loop.engine.head.position > 0)
        rig.log.answers.clear()
        await asyncio.sleep(0.3)  # Cycles are due; were a request made, it would be made by now.
        assert rig.calls() == []
        rig.log.answers.set()
        await rig.until(lambda: rig.count(PodBound) == 4)
    assert len(await rig.known()) == 4


async def test_a_fenced_daemon_sends_no_more_requests(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FOUR, in_flight_max=1)
    rig.cluster.moods.append("hang")
    with pytest.RaisesGroup(FencedError, flatten_subgroups=True):
        async with rig.runs():
            await rig.until(lambda: len(rig.cluster.asked) == 1)
            await MemoryLog(rig.log.memory).take_over("another")
            rig.cluster.resume_from({})
            await asyncio.sleep(PATIENCE_SECONDS)
    assert rig.cluster.asked == ["a1"]


async def test_a_log_that_someone_writes_is_taken_over_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, NODE + POD)
    failures = iter([FencedError("its head moved"), FencedError("and again")])
    take_over = rig.log.take_over

    async def raced(holder: str) -> Head:
        for failure in failures:
            raise failure
        return await take_over(holder)

    monkeypatch.setattr(rig.log, "take_over", raced)
    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) == 1)
    assert rig.log.head.epoch == 1


async def test_stopping_waits_for_what_is_under_way_and_records_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FOUR, in_flight_max=2)
    rig.cluster.moods += ["hang", "hang"]
    async with rig.runs():
        await rig.until(lambda: len(rig.cluster.asked) == 2)
        rig.loop.stop()
        await asyncio.sleep(0.1)
        assert rig.count(PodBound) == 0
        rig.cluster.released.set()
    assert rig.count(PodBound) == 4
    assert len(await rig.known()) == 4


async def test_what_was_answered_is_not_asked_again_before_it_is_recorded(tmp_path: Path) -> None:
    """The cycle that comes between an answer and its record finds the binding still open."""
    later = """\
steps:
  - {at: 100ms, apply: [{kind: Pod, metadata: {name: b}, spec: {containers: [{name: m}]}}]}
  - {at: 150ms, apply: [{kind: Pod, metadata: {name: c}, spec: {containers: [{name: m}]}}]}
  - {at: 200ms, apply: [{kind: Pod, metadata: {name: d}, spec: {containers: [{name: m}]}}]}
"""
    rig = Rig(tmp_path, FOUR + later)
    rig.log.seconds = 0.03
    async with rig.runs():
        await rig.until(lambda: rig.count(PodBound) >= 7)
    assert [call.result for call in rig.calls()] == ["done"] * 7
