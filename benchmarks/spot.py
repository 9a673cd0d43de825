"""An hour of the spot-gpu workload: 4,278 nodes, gangs of 84 organizations, HP that evicts Spot.

All of it counts: the simulated cluster, the log on SQLite and its views. The log is then decided again.
It runs in a process of its own, for its memory: python -m benchmarks.spot PERCENT
"""

import asyncio
import logging
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from time import perf_counter

import msgspec
import structlog
from msgspec import Struct

from benchmarks.driving import folder
from benchmarks.figures import Figure
from benchmarks.scale import Scale
from daemon.cli.run_report import memory_mib
from daemon.log.opening import open_log
from daemon.simulation import simulate
from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from replay.log_replay import Replay
from simulator.generated_workload import with_workload
from simulator.scenario import Scenario, parse_scenario
from simulator.scenario_sources import generate_workload

TEXT = """\
scenario: spot-gpu
workload: {{name: spot-gpu, scale: {scale}, window: 1h, load: 1.2, spot: 0.5}}
until: 1h
"""


class RunResult(Struct):
    """What came of one run."""

    records: int
    bound: int
    evicted: int
    cycles: int
    seconds: float
    replay_seconds: float
    peak_mib: int


async def measure(scale: Scale) -> list[Figure]:
    """The workload simulated once, and its log decided again."""
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.spot", str(scale.spot_percent)), stdout=PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the spot-gpu workload failed"
    result = msgspec.json.decode(output, type=RunResult)
    detail: dict[str, float] = {
        "records": result.records,
        "evicted": result.evicted,
        "cycles": result.cycles,
    }
    name = f"spot-gpu, an hour of {scale.spot_percent} %"
    figures = (
        ("pods bound, simulated on SQLite with views", result.bound / result.seconds, "pods/s"),
        ("pods bound, decided again", result.bound / result.replay_seconds, "pods/s"),
        ("records decided again", result.records / result.replay_seconds, "records/s"),
        ("memory, peak", result.peak_mib, "MiB"),
    )
    return [
        Figure(benchmark="spot", name=f"{name}: {what}", value=value, unit=unit, detail=detail)
        for what, value, unit in figures
    ]


def scenario_of(percent: int) -> Scenario:
    """The workload, scaled."""
    scenario = parse_scenario(TEXT.format(scale=percent / 100), "benchmark")
    assert scenario.workload is not None
    return with_workload(scenario, generate_workload(scenario.workload))


async def run(percent: int) -> RunResult:
    """Simulate, then decide again."""
    scenario = scenario_of(percent)
    with folder() as place:
        log = await open_log(str(place / "spot.db"), "write")
        began = perf_counter()
        done = await simulate(scenario, log, with_views=True)
        seconds = perf_counter() - began
        peak, bound, evicted, replay = memory_mib(), 0, 0, Replay(log.base)
        began = perf_counter()
        async for entries in log.read():
            for entry in entries:
                found = replay.take(entry.record, entry.content)
                assert found is None, found
                event = event_of(entry.record)
                bound += len(event.placements) if isinstance(event, GangBindDecided) else 0
                evicted += len(event.evictions) if isinstance(event, EvictionDecided) else 0
        replay_seconds = perf_counter() - began
        await log.close()
    return RunResult(
        records=done.head.position,
        bound=bound,
        evicted=evicted,
        cycles=replay.counts.cycles,
        seconds=seconds,
        replay_seconds=replay_seconds,
        peak_mib=peak,
    )


def main() -> None:
    """Run it, and say what came of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    result = asyncio.run(run(int(sys.argv[1])))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
