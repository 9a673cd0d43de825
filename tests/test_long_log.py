"""The log of the benchmark `history` is a log like any other: it verifies, and is replayed to the same decisions."""

import asyncio

import pytest

from benchmarks.history import PERIOD_SECONDS, START, contents_of, write_log
from daemon.log.opening import open_log
from daemon.log.verify import verify
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.duration import SECOND
from replay.log_time import LogTime

RECORDS = 12_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log in which a small cluster has the same hour a few times."""
    path = str(tmp_path_factory.mktemp("long") / "long.db")
    asyncio.run(write_log(path, RECORDS, percent=4, every=2_000))
    return path


async def test_each_repetition_holds_the_same_decisions_about_other_pods(place: str) -> None:
    log = await open_log(place)
    nodes: list[list[str]] = []
    pods: list[str] = []
    began_ns = -1
    async for entries in log.read():
        for one in entries:
            event = event_of(one.record)
            if not isinstance(event, GangBindDecided):
                continue
            since_ns = one.record.recorded_at_ns - int(START.timestamp()) * SECOND
            hour = since_ns // (PERIOD_SECONDS * SECOND)
            if hour != began_ns:
                began_ns = hour
                nodes.append([])
            nodes[-1] += [placed.node for placed in event.placements]
            pods += [placed.pod for placed in event.placements]
    await log.close()
    assert len(nodes) > 2
    assert all(one == nodes[0] for one in nodes)
    assert len(set(pods)) == len(pods)


async def test_it_verifies_and_replays_to_the_same_decisions(place: str) -> None:
    log = await open_log(place)
    assert (await verify(log)).records >= RECORDS
    assert (await replay_log(log)).divergence is None
    await log.close()


async def test_what_is_asked_about_it_is_there(place: str) -> None:
    found = contents_of(place, stretch_records=3_000)
    assert found.records >= RECORDS
    assert found.snapshots >= RECORDS // 2_000 - 1
    log = await open_log(place)
    answer = await why(log, found.pod, LogTime(position=found.bound_at))
    await log.close()
    assert [one.kind for one in answer.steps][-1] == "pod_bound.v1"
    first, last = found.stretch
    assert first < found.bound_at < last
