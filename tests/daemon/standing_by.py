"""A log that is being written, and a standby beside it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from daemon.fold import refolder
from daemon.log.anchors import Anchor
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.simulation import simulate
from daemon.standby import StandbyFollower
from engine.engine import Engine
from events.daemon import DaemonStarted
from projections import snapshot
from projections.views.project import Views
from simulator.scenario import parse_scenario
from simulator.scenario_sources import load_sources

SLICE = """
scenario: a small slice of the openb mix
workload: {name: openb, scale: 0.01, window: 60s}
until: 120s
"""
LONGER_SLICE = SLICE.replace("0.01", "0.02")
DEADLINE_SECONDS = 20.0


async def write(log: Log, text: str = SLICE) -> None:
    """Let a simulation fill a log, with its views."""

    def read(path: str) -> str:
        raise AssertionError(path)

    scenario = load_sources(parse_scenario(text, "slice"), read).scenario
    await simulate(scenario, log, with_views=True)


def follower(
    url: str,
    *,
    retry_seconds: float = 0.1,
    stated_anchor: Callable[[], Anchor | None] = lambda: None,
) -> StandbyFollower:
    """A standby of the log at a URL."""

    async def reading() -> SqlLog:
        log = await open_log(url, "read")
        assert isinstance(log, SqlLog)
        return log

    return StandbyFollower(reading, retry_seconds=retry_seconds, stated_anchor=stated_anchor)


@asynccontextmanager
async def following(standby: StandbyFollower) -> AsyncIterator[StandbyFollower]:
    """A standby that follows as long as the block lasts; it must have been warm by its end."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(standby.follow())
        try:
            yield standby
        finally:
            task.cancel()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what others do."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():  # noqa: ASYNC110  # the condition has no event to wait for
            await asyncio.sleep(0.01)


def rows_of(views: Views) -> dict[str, object]:
    """All that views remember. From when on a row holds, only a history knows."""
    found: dict[str, object] = {}
    for name, current in views._current.items():  # noqa: SLF001  # nothing else shows it
        rows = current.rows.items()
        has_history = current.view.history
        since = {key: (row, at if has_history else 0) for key, (row, at, _) in rows}
        keys = {key[0]: {*current.keys_of(key[0])} for key in current.rows}
        found[name] = (since, keys, current.checksum)
    for apart in (views._placements, views._pods):  # noqa: SLF001
        found[type(apart).__name__] = vars(apart)
    return found


async def must_equal_a_cold_fold(warm: Engine, log: Log) -> None:
    """Whatever a standby hands over is what a fold of the whole log would have made, order included; and
    both go on alike."""
    cold = await refolder(log, with_views=True)(log.head)
    assert warm.head == cold.head
    assert snapshot.take(warm.state) == snapshot.take(cold.state)
    assert warm._views is not None  # noqa: SLF001
    assert cold._views is not None  # noqa: SLF001
    assert rows_of(warm._views) == rows_of(cold._views)  # noqa: SLF001
    warm.state.validate()
    started = DaemonStarted(
        holder="next", version="1", period_ns=1_000_000_000, scheduler_names=("muster",)
    )
    at_ns = warm.state.now_ns + 1_000_000_000
    for engine in (warm, cold):
        engine.start(started, None, log.head.epoch, at_ns)
    mine, theirs = warm.cycle(at_ns), cold.cycle(at_ns)
    assert (mine is None) == (theirs is None)
    assert warm.head == cold.head
    if mine is not None and theirs is not None:
        assert mine.views == theirs.views
