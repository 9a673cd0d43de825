"""`muster run`: the daemon, in real time."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final

import click
import msgspec
import structlog
from msgspec import Struct

from daemon.cli.assemble import VERSION, policy_of, refolder
from daemon.cli.inputs import load_scenario, read_policy
from daemon.clock import WallClock
from daemon.cluster.simulated import SimulatedCluster
from daemon.cluster.world_file import WorldFile
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.store import no_faults
from daemon.loop import Loop, Running
from daemon.settings import Settings, read_settings
from events.errors import UsageError
from events.process import PolicyChanged
from events.record import Head
from events.sighting import Reply, Request, Sighting
from projections.batch import Batch
from replay.world.scenario import Scenario

INFO: Final = 20
SECOND: Final = 1_000_000_000
POINTS: Final = ("inside_commit", "after_commit", "after_effect")
"""Where a daemon can be made to die on purpose: before a commit is done; between it and the effect of
what it holds; between an effect and the record of its outcome."""
KILLED: Final = 137

logger: Final = structlog.get_logger("muster")


class Options(Struct, frozen=True):
    """What the command line says."""

    scenario: Path | None
    world: Path | None
    log: str | None
    policy: Path | None
    config: Path | None


@click.command()
@click.option(
    "--simulate",
    "scenario",
    type=click.Path(path_type=Path),
    metavar="SCENARIO",
    help="Run against a simulated cluster, in real time, that begins as the scenario says.",
)
@click.option(
    "--world",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the simulated cluster keeps itself: it outlives the daemon.",
)
@click.option("--log", metavar="LOG", envvar="MUSTER_LOG", help="The log; else MUSTER_LOG says.")
@click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="The policy file.")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="The settings file."
)
@click.option("--crash-at", metavar="POINT[:N]", default="", hidden=True)
def run(crash_at: str, **given: Path | str | None) -> None:
    """The daemon: observe, decide, record, act, until SIGTERM or SIGINT.

    In this release it runs against a simulated cluster only. What a scenario expects, and its `until`,
    do not count here. Whatever is recorded is told on stderr, a line a record.

    Example:

    \b
        muster run --simulate docs/examples/quota.yaml --world quota.world --log quota.db
    """
    options = msgspec.convert(given, Options)
    _tell_on_stderr()
    asyncio.run(_run(options, _Crash(crash_at)))


async def _run(options: Options, crash: "_Crash") -> None:
    settings = Settings() if options.config is None else read_settings(options.config)
    scenario = _scenario(options)
    url = options.log or settings.log
    if url is None:
        raise UsageError("the log has no name: give --log, MUSTER_LOG or `log` in the settings")
    running = _running(options, settings, scenario)
    assert options.world is not None
    stop, clock = _Stop(), WallClock()
    _on_signals(stop)
    log = await open_log(url, "write", faults=crash if crash.point else no_faults)
    try:
        file = WorldFile(options.world, scenario, clock.now_ns())
        cluster = SimulatedCluster(scenario, file, clock.now_ns)
        shore = _Shore(cluster, crash)
        try:
            secret = settings.secret_annotations
            refold = refolder(log, with_views=True, audits=True, secret=secret)
            loop = Loop(_ToldLog(log), shore, clock, refold, running)
            stop.reaches(loop.stop)
            await loop.run()
            logger.info("daemon stopped", position=log.head.position, digest=log.head.digest)
        finally:
            await cluster.close()
    finally:
        await log.close()


def _scenario(options: Options) -> Scenario:
    if options.scenario is None:
        raise UsageError(
            "running against a Kubernetes API server is not part of this release; "
            "--simulate SCENARIO --world FILE runs against a simulated cluster"
        )
    if options.world is None:
        raise UsageError("--simulate needs --world FILE, where the simulated cluster keeps itself")
    return load_scenario(options.scenario).scenario


def _running(options: Options, settings: Settings, scenario: Scenario) -> Running:
    seconds = settings.period_seconds
    return Running(
        holder=settings.holder,
        version=VERSION,
        period_ns=scenario.period_ns if seconds is None else round(seconds * SECOND),
        scheduler_names=settings.scheduler_names,
        policy=_policy(options, settings, scenario),
        in_flight_max=settings.requests_at_once,
        grace_ns=round(settings.grace_seconds * SECOND),
        snapshot_every=settings.snapshot_every,
    )


def _policy(options: Options, settings: Settings, scenario: Scenario) -> PolicyChanged:
    path = options.policy
    if path is None and settings.policy is not None:
        assert options.config is not None
        path = options.config.parent / settings.policy
    if path is None:
        return policy_of(scenario)
    return PolicyChanged(source=path.name, policy=msgspec.Raw(read_policy(path)))


class _Stop:
    """A wish to stop, which may come before there is anything to be stopped."""

    def __init__(self) -> None:
        self._is_wished = False
        self._stop: Callable[[], None] | None = None

    def __call__(self) -> None:
        self._is_wished = True
        if self._stop is not None:
            self._stop()

    def reaches(self, stop: Callable[[], None]) -> None:
        """From here on the wish is granted by `stop`."""
        self._stop = stop
        if self._is_wished:
            stop()


def _on_signals(stop: Callable[[], None]) -> None:
    """The first signal stops in good order; a second one is not waited for."""
    running = asyncio.get_running_loop()

    def once() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            running.remove_signal_handler(number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, once)


def _tell_on_stderr() -> None:
    is_watched = sys.stderr.isatty()
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if is_watched:
        renderer = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


class _ToldLog:
    """A log whose decisions and outcomes are told aloud once they are durable."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def append(self, batch: Batch) -> None:
        await self._log.append(batch)
        for record in batch.records:
            if "_observed." not in record.kind:
                logger.info(
                    record.kind.partition(".")[0],
                    position=record.position,
                    cycle=record.cycle,
                    cause=record.cause,
                    subject=record.subject,
                )

    async def take_over(self, holder: str) -> Head:
        return await self._log.take_over(holder)

    async def reopen(self) -> Head:
        return await self._log.reopen()

    async def save_snapshot(self, position: int, digest: str, version: int, payload: bytes) -> None:
        await self._log.save_snapshot(position, digest, version, payload)


class _Crash:
    """Dies the N-th time that a point is reached."""

    def __init__(self, told: str) -> None:
        self.point, _, times = told.partition(":")
        if self.point and self.point not in POINTS:
            raise UsageError(f"--crash-at {told}: known points are {', '.join(POINTS)}")
        if times and not times.isdecimal():
            raise UsageError(f"--crash-at {told}: {times} is not a number")
        self._left = int(times or 1)

    def __call__(self, point: str) -> None:
        if point == self.point:
            self._left -= 1
            if self._left == 0:
                os._exit(KILLED)


class _Shore:
    """The cluster, on whose shore a daemon can be made to die."""

    def __init__(self, cluster: SimulatedCluster, crash: _Crash) -> None:
        self._cluster = cluster
        self._crash = crash

    def sightings(self) -> AsyncIterator[list[Sighting]]:
        return self._cluster.sightings()

    def show_since(self, progress: Mapping[str, str]) -> None:
        self._cluster.show_since(progress)

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        answered = await self._cluster.attempt(request)
        self._crash("after_effect")
        return answered
