"""Folding a log, and folding it and deciding again: records a second of the log of the openb demo.

The log is read from SQLite; the chain is checked and every object unpacked, checked and decoded.
"""

from collections.abc import Awaitable, Callable
from time import perf_counter

from benchmarks.driving import folder
from benchmarks.figures import Figure
from benchmarks.scale import Scale
from daemon.fold import fold
from daemon.log.contract import ReadableLog
from daemon.log.opening import open_log
from daemon.simulation import simulate
from replay.log_replay import Replay
from simulator.generated_workload import with_workload
from simulator.openb_table import shipped_table
from simulator.openb_workload import openb_workload
from simulator.scenario import Scenario, parse_scenario


def openb(percent: int) -> Scenario:
    """The scenario of the demo."""
    text = f"scenario: openb\nworkload: {{name: openb, scale: {percent / 100}}}\n"
    scenario = parse_scenario(text, "benchmark")
    assert scenario.workload is not None
    return with_workload(scenario, openb_workload(scenario.workload, shipped_table()))


async def measure(scale: Scale) -> list[Figure]:
    """The openb workload simulated once, its log folded and replayed several times."""
    with folder() as place:
        path = str(place / "openb.db")
        log = await open_log(path, "write")
        began = perf_counter()
        done = await simulate(openb(scale.openb_percent), log, with_views=True)
        seconds = perf_counter() - began
        await log.close()
        records = done.head.position
        read = await _best(_read, path, scale.repeats)
        folded = await _best(_fold, path, scale.repeats)
        replayed = await _best(_replay, path, scale.repeats)
    return [
        Figure(
            benchmark="fold",
            name="openb simulated on SQLite, with views",
            value=records / seconds,
            unit="records/s",
            detail={"records": records, "seconds": seconds, "examined": done.examined},
        ),
        Figure(
            benchmark="fold",
            name="read from SQLite, objects checked",
            value=records / read,
            unit="records/s",
        ),
        Figure(
            benchmark="fold",
            name="folded",
            value=records / folded,
            unit="records/s",
            bound="at least",
            target=50_000,
            detail={"records": records},
        ),
        Figure(
            benchmark="fold",
            name="folded and decided again",
            value=records / replayed,
            unit="records/s",
            bound="at least",
            target=15_000,
            detail={"records": records},
        ),
    ]


async def _best(work: Callable[[ReadableLog], Awaitable[None]], path: str, repeats: int) -> float:
    seconds: list[float] = []
    for _ in range(repeats):
        log = await open_log(path)
        began = perf_counter()
        await work(log)
        seconds.append(perf_counter() - began)
        await log.close()
    return min(seconds)


async def _read(log: ReadableLog) -> None:
    async for _ in log.read():
        pass


async def _fold(log: ReadableLog) -> None:
    await fold(log)


async def _replay(log: ReadableLog) -> None:
    replay = Replay(log.base)
    async for entries in log.read():
        for entry in entries:
            found = replay.take(entry.record, entry.content)
            assert found is None, found
    found = replay.finish()
    assert found is None, found
