"""Run a scenario in virtual time, on the loop, the log and the core of the daemon."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.stepped import SteppedCluster, VirtualClock
from daemon.fold import refolder
from daemon.log.contract import Log
from daemon.loop import Loop, Running
from daemon.loop_mode import SteppedMode
from daemon.version import VERSION
from events.daemon import PolicyChanged
from events.record import Head
from projections.policy.policy import BUILT_IN
from projections.state import State
from simulator.cluster import SimulatedCluster
from simulator.scenario import Scenario

HOLDER: Final = "simulation"
"""The holder of a simulation's log."""

SCHEDULER_NAMES: Final = ("muster", "volcano")
"""The schedulerNames that a simulation handles: manifests made for Volcano run unchanged."""

PROGRESS_SECONDS: Final = 0.1
"""The time between two calls of `progress`."""


class SimulationRun(Struct):
    """A finished simulation."""

    scenario: Scenario
    state: State
    head: Head
    cluster: SimulatedCluster
    examined: int
    """How often a node was scored for an equivalence class."""
    groups_examined: int
    """How often a pod group was tried."""


async def simulate(
    scenario: Scenario,
    log: Log,
    *,
    with_views: bool,
    progress: Callable[[int], None] | None = None,
) -> SimulationRun:
    """Run a scenario, with the workload of its trace, in virtual time.

    `progress` is called with the log's position every PROGRESS_SECONDS.
    """
    simulated = SimulatedCluster(scenario)
    cluster = SteppedCluster(simulated)
    running = Running(
        holder=HOLDER,
        version=VERSION,
        period_ns=scenario.period_ns,
        policy=policy_of(scenario),
        scheduler_names=SCHEDULER_NAMES,
    )
    clock = VirtualClock(cluster, scenario.until_ns)
    mode = SteppedMode(clock, scenario.cycles)
    loop = Loop(log, cluster, clock, refolder(log, with_views=with_views), running, mode=mode)
    await run_loop(loop, progress)
    engine = loop.engine
    assert engine is not None
    return SimulationRun(
        scenario=scenario,
        state=engine.state,
        head=engine.head,
        cluster=simulated,
        examined=engine.decider.examined,
        groups_examined=engine.decider.session.groups_examined,
    )


async def run_loop(loop: Loop, progress: Callable[[int], None] | None) -> None:
    """Run a loop to its end. `progress` is called with the log's position every PROGRESS_SECONDS."""
    if progress is None:
        await loop.run()
        return

    async def report() -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            if loop.engine is not None:
                progress(loop.engine.head.position)

    async with asyncio.TaskGroup() as tasks:
        teller = tasks.create_task(report(), name="progress")
        try:
            await loop.run()
        finally:
            teller.cancel()


def policy_of(scenario: Scenario) -> PolicyChanged:
    """The policy of a scenario, or the built-in one."""
    if scenario.policy is None:
        return PolicyChanged(source="built-in", policy=msgspec.Raw(BUILT_IN))
    content = msgspec.json.encode(scenario.policy, order="deterministic")
    return PolicyChanged(source=scenario.policy_file or "scenario", policy=msgspec.Raw(content))
