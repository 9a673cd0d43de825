"""Whatever moment the daemon dies at: the log is whole, and the cluster did what the log says, once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from daemon.clock import WallClock
from simulator.journal import rebuild_cluster
from simulator.scenario import Scenario
from tests.storm.arrivals import LAST, write_storm
from tests.storm.daemon_process import DaemonProcess, MakeDaemon, chance
from tests.storm.judge import Verdict, journal, judge

SEED = 20
LEAST_SECONDS, MOST_SECONDS = 0.05, 0.8
"""From the moment it has begun to that at which it is killed."""
POINTS = ("inside_commit", "after_commit", "after_effect")
TIMES_MOST = 12
"""A named point is fatal the first to the so-manieth time that it is reached."""
KILLED = 137
LONGER = (4, 16)
"""How much longer a storm is made where it was over too soon."""
SETTLED_SECONDS = 0.5
"""How long a cluster in which nothing more happens is left alone before the daemon is stopped."""


async def storm(daemon: DaemonProcess, kills: int, rounds: int, seed: int) -> bool:
    """Kill it at so many moments; in the first part it also dies at each named point, so many times.

    False where the arrivals ended before it came to a named point.
    """
    deaths = [(point, turn) for turn in range(rounds) for point in POINTS]
    each = max(1, kills // (3 * max(1, len(deaths))))
    for index in range(kills):
        await daemon.start()
        await daemon.until_told()
        span = MOST_SECONDS - LEAST_SECONDS
        await asyncio.sleep(LEAST_SECONDS + span * chance(seed, "kill", index))
        await daemon.kill()
        if deaths and index % each == 0:
            point, turn = deaths.pop(0)
            if not await crash(daemon, point, 1 + int(TIMES_MOST * chance(seed, point, turn))):
                return False
    assert not deaths
    return True


async def crash(daemon: DaemonProcess, point: str, times: int) -> bool:
    """Let it die when it comes to a point for the so-manieth time; False where there is too little left to do."""
    await daemon.start(crash_at=f"{point}:{times}")
    is_over = False
    while daemon.is_alive:
        if is_over:
            await daemon.kill()
            return False
        is_over = any(call.name == LAST for call in journal(daemon.world)[0])
        await asyncio.sleep(SETTLED_SECONDS)
    assert await daemon.died() == KILLED, daemon.told[-2000:]
    return True


async def killed_in_a_storm(
    folder: Path,
    make_daemon: MakeDaemon,
    new_log: Callable[[str], Awaitable[str]],
    *,
    seconds: int,
    waves_per_second: float,
    kills: int,
    rounds: int,
    seed: int,
) -> Verdict:
    """Kill a daemon in a storm that is not over before the last named point. A slow machine needs a longer one."""
    longer = seconds
    for longer in (seconds, *(seconds * times for times in LONGER)):
        path = folder / f"storm-{longer}.json"
        scenario = write_storm(path, seconds=longer, waves_per_second=waves_per_second)
        daemon = make_daemon(await new_log(f"killed_{longer}"), path)
        if await storm(daemon, kills=kills, rounds=rounds, seed=seed):
            return await weathered(daemon, scenario)
    raise AssertionError(f"a storm of {longer} s is over before the daemon died")


async def weathered(
    daemon: DaemonProcess, scenario: Scenario, *, is_running: bool = False
) -> Verdict:
    """Let it live until nothing more happens, stop it in good order, and judge."""
    if not is_running:
        await daemon.start()
        await daemon.until_told()
    await until_settled(daemon.world, scenario)
    assert await daemon.stop() == 0, daemon.told[-2000:]
    return await judge(daemon.log, daemon.world, scenario)


async def until_settled(world_path: Path, scenario: Scenario) -> None:
    """Until nothing more will happen in the world by itself."""
    now_ns = WallClock().now_ns
    async with asyncio.timeout(600):
        while True:
            calls, origin_ns = journal(world_path)
            world = rebuild_cluster(scenario, calls, origin_ns)
            world.advance(max(world.now_ns, now_ns() - origin_ns))
            await asyncio.sleep(SETTLED_SECONDS)
            is_quiet = world.settled and len(journal(world_path)[0]) == len(calls)
            if is_quiet and any(call.name == LAST for call in calls):
                return


async def test_a_daemon_killed_at_any_moment_goes_on_where_it_was(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    async def new_log(name: str) -> str:
        return str(tmp_path / f"{name}.db")

    verdict = await killed_in_a_storm(
        *(tmp_path, make_daemon, new_log),
        seconds=6,
        waves_per_second=4,
        kills=3,
        rounds=0,  # tests/daemon/cli/test_run.py dies at the named points.
        seed=SEED,
    )
    assert 4 <= verdict.starts <= verdict.epoch <= 5, verdict


@pytest.mark.soak
async def test_a_daemon_killed_two_hundred_times_goes_on_where_it_was(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    async def new_log(name: str) -> str:
        return str(tmp_path / f"{name}.db")

    verdict = await killed_in_a_storm(
        *(tmp_path, make_daemon, new_log),
        seconds=400,
        waves_per_second=2,
        kills=200,
        rounds=10,
        seed=SEED,
    )
    assert 201 <= verdict.starts <= verdict.epoch <= 231, verdict
