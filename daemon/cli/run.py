"""`muster run`: the daemon, in real time."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
import msgspec
import structlog
from msgspec import Struct, structs

from daemon.address import parse_address
from daemon.app import DaemonConfig, run_daemon
from daemon.cli import volcano_flags
from daemon.cli.inputs import load_scenario, read_cluster_policy
from daemon.clock import WallClock
from daemon.cluster.client.credentials import Access
from daemon.cluster.real_time import RealTimeCluster
from daemon.cluster.server.simulated_api_server import Listening, running_server
from daemon.cluster.world_file import WorldFile
from daemon.connections import raise_descriptor_limit
from daemon.fold import refolder
from daemon.log.auditing import keep_audited
from daemon.log.lost_records import keep_end_checked
from daemon.log.opening import open_log
from daemon.log.shadow_mode import check_mode
from daemon.loop import Loop, Running
from daemon.observability import Observability
from daemon.policy_check import PLAIN
from daemon.policy_file import PolicyFile
from daemon.settings import Settings, as_shadow, read_settings, supervision
from daemon.simulation import policy_of
from daemon.stderr import Teller, say_on_stderr
from daemon.stop_signal import Stop, on_signals
from daemon.version import VERSION
from events.daemon import PolicyChanged
from events.errors import UsageError
from projections.policy.policy import BUILT_IN
from projections.policy.policy import PLAIN as PLAIN_POLICY
from scheduling.decide import DECIDER
from simulator.scenario import Scenario

SECOND: Final = 1_000_000_000

PERIOD_SECONDS: Final = 1.0
"""The default of the shortest time between two cycles."""

logger: Final = structlog.get_logger("muster")


class Options(Struct, frozen=True):
    """The options of the command line."""

    scenario: Path | None = None
    world: Path | None = None
    log: str | None = None
    policy: Path | None = None
    config: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    listen: str | None = None
    http: str | None = None
    scheduler_names: tuple[str, ...] = ()
    shadow: bool = False
    of: str | None = None
    volcano: Mapping[str, str] = {}
    """Flags of Volcano's scheduler, by name."""


class _Run(click.Command):
    """The command, which accepts the arguments of Volcano's scheduler too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, volcano_flags.without_redirection(args))


@click.command(cls=_Run)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The kubeconfig; by default, in a pod, its service account.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--log", metavar="LOG", envvar="MUSTER_LOG", help="The log; by default MUSTER_LOG.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The policy file, or `plain` for the built-in policy without quotas.",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="The settings file."
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="Pods with this schedulerName are ours; may be given more than once. Default: muster.",
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Record, and decide beside other schedulers, without acting: nothing is written to the API server.",
)
@click.option(
    "--of",
    metavar="NAME,...",
    help="With --shadow: decide about pods with one of these as schedulerName, such as "
    "volcano,default-scheduler.",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="The address of probes and metrics; '' for none."
)
@click.option(
    "--simulate",
    "scenario",
    type=click.Path(path_type=Path),
    metavar="SCENARIO",
    help="Run against the simulated cluster of a scenario, in real time.",
)
@click.option(
    "--world",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file of the simulated cluster, which outlives the daemon.",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="With --simulate: put the simulated cluster behind HTTP there (port 0: any), as a Kubernetes API "
    "server, and reach it as one. Its kubeconfig is LOG.kubeconfig.",
)
@volcano_flags.understands_volcano
def run(**given: Path | str | tuple[str, ...] | bool | None) -> None:
    """Run the daemon: observe, decide, record, act, until SIGTERM or SIGINT.

    It schedules on a Kubernetes API server, found by --kubeconfig, the settings, a pod's service account,
    or KUBECONFIG. With --simulate it runs against a simulated cluster instead; `expect` and `until` of the
    scenario have no effect here. Every record is logged on stderr, one line each. The options of Volcano's
    scheduler are accepted as well.

    Example:

    \b
        muster run --kubeconfig ~/.kube/config --log muster.db
        muster run --shadow --of volcano,default-scheduler --log shadow.db
        muster run --simulate quota.yaml --world quota.world --log quota.db
        muster run --simulate quota.yaml --http 127.0.0.1:0 --log quota.db
    """
    flags = volcano_flags.given(click.get_current_context())
    options = msgspec.convert({**given, "volcano": flags}, Options)
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    settings = _settings(options)
    raise_descriptor_limit()
    teller = Teller()
    say_on_stderr(teller, settings.log_level)
    volcano_flags.warn(options.volcano, settings)
    url = settings.log
    if url is None:
        raise UsageError("the log has no name: give --log, MUSTER_LOG or `log` in the settings")
    stop = Stop()
    on_signals(stop)
    operation = Observability(WallClock().elapsed_ns, teller, VERSION, DECIDER)
    if options.scenario is None:
        for name in ("world", "http"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} belongs to --simulate")
        await run_daemon(
            _plan(options, settings, url, _policy_file(options, settings)), operation, stop
        )
    elif options.http is not None:
        await _simulate_over_http(options, settings, operation, stop)
    else:
        await _simulate(options, settings, url, operation, stop)


def _settings(options: Options) -> Settings:
    """The settings file, overridden by the command line."""
    settings = Settings() if options.config is None else read_settings(options.config)
    settings = volcano_flags.over(settings, options.volcano)
    if options.log is not None:
        settings = structs.replace(settings, log=options.log)
    if options.scheduler_names:
        settings = structs.replace(settings, scheduler_names=options.scheduler_names)
    if of := _shadow_of(options, settings):
        settings = as_shadow(settings, of)
    if options.listen is not None:
        settings = structs.replace(settings, listen=options.listen)
    elif options.scenario is not None and options.config is None:
        # A trial run opens no port unless asked to.
        settings = structs.replace(settings, listen="")
    return settings


def _shadow_of(options: Options, settings: Settings) -> tuple[str, ...]:
    """The schedulers that a shadow decides beside; none if the daemon acts."""
    if options.of is not None and not options.shadow:
        raise UsageError("--of belongs to --shadow")
    if not options.shadow and not settings.shadow_of:
        return ()
    if options.scheduler_names:
        raise UsageError("--scheduler-name cannot be combined with a shadow: --of names the pods")
    if options.scenario is not None and options.http is None:
        raise UsageError("a shadow needs an API server: --simulate without --http has none")
    if options.of is None:
        if not settings.shadow_of:
            raise UsageError(
                "--shadow needs --of NAME,...: the schedulers whose pods it decides about"
            )
        return settings.shadow_of
    names = tuple(dict.fromkeys(one.strip() for one in options.of.split(",")))
    if not all(names):
        raise UsageError(f"--of: {options.of!r} holds an empty name")
    return names


def _folder(options: Options) -> Path:
    return Path() if options.config is None else options.config.parent


def _plan(
    options: Options, settings: Settings, url: str, policy: PolicyFile | None
) -> DaemonConfig:
    folder = _folder(options)
    kubeconfig = options.kubeconfig
    if kubeconfig is None and settings.kubeconfig is not None:
        kubeconfig = folder / settings.kubeconfig
    return DaemonConfig(
        settings=settings,
        access=Access(kubeconfig=kubeconfig, context=options.context or settings.context),
        log=url,
        running=structs.replace(
            _running(options, settings, None, policy), has_deciding_thread=True
        ),
        folder=folder,
        policy=policy,
    )


async def _simulate_over_http(
    options: Options, settings: Settings, operation: Observability, stop: Stop
) -> None:
    """Run the daemon as on a real API server, on a simulated cluster behind HTTP in this process."""
    assert options.scenario is not None
    assert options.http is not None
    assert settings.log is not None
    if options.world is not None:
        raise UsageError("--world and --http: behind HTTP the simulated cluster lives in memory")
    address = parse_address(options.http)
    scenario = load_scenario(options.scenario).scenario
    policy = _policy_file(options, settings)
    listening = Listening(host=address.host, port=address.port)
    async with running_server(scenario, listening=listening) as server:
        path = Path(f"{_file_of(settings.log)}.kubeconfig")
        server.kubeconfig(path)
        logger.info("simulated API server", url=server.url, kubeconfig=str(path))
        plan = DaemonConfig(
            settings=settings,
            access=Access(kubeconfig=path),
            log=settings.log,
            running=structs.replace(
                _running(options, settings, scenario, policy),
                updates_status=True,
                has_deciding_thread=True,
            ),
            folder=_folder(options),
            policy=policy,
        )
        await run_daemon(plan, operation, stop)


def _file_of(log: str) -> str:
    """A file name for a log that may be in a database."""
    return "muster" if "://" in log or log == "memory:" else log


async def _simulate(  # the command line, and what was made of it
    options: Options,
    settings: Settings,
    url: str,
    operation: Observability,
    stop: Stop,
) -> None:
    """Run the loop against a simulated cluster that is stored in a file."""
    if options.world is None or options.scenario is None:
        raise UsageError(
            "--simulate needs --world FILE, where the simulated cluster keeps itself, or --http"
        )
    scenario = load_scenario(options.scenario).scenario
    policy = _policy_file(options, settings)
    running = _running(options, settings, scenario, policy)
    clock = WallClock()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            operation.open(settings, _folder(options), supervision(os.getpid()))
        )
        log = await open_log(url, "write")
        stack.push_async_callback(log.close)
        await check_mode(log, shadow=False)
        log.keep_anchor()
        file = WorldFile(options.world, scenario, clock.now_ns())
        cluster = RealTimeCluster(scenario, file, clock.now_ns)
        stack.push_async_callback(cluster.close)
        secret = settings.secret_annotations
        refold = refolder(log, with_views=True, secret=secret, on_error=operation.on_error)
        loop = Loop(operation.heard(log), cluster, clock, refold, running, operation.health)
        loop.cycle_held = operation.metrics.counted.cycle_held
        sources = operation.metrics.sources
        sources.state = lambda: None if loop.engine is None else loop.engine.state
        sources.position = lambda: log.head.position
        sources.clock_ahead = lambda: loop.ahead_seconds
        sources.stale_policy = lambda: policy is not None and policy.is_stale
        operation.health.clear("start")
        operation.health.role = "leader"
        stop.reaches(loop.stop)
        if policy is not None:
            stack.enter_context(operation.health.asking(policy))
            await stack.enter_async_context(policy.watched(loop.change_policy))
        async with asyncio.TaskGroup() as tasks:
            checked = keep_end_checked(log, settings.renew_seconds, loop.log_failed)
            beside = [
                tasks.create_task(keep_audited(log, clock.elapsed_ns), name="audit"),
                tasks.create_task(checked, name="log"),
            ]
            try:
                await loop.run()
            finally:
                for task in beside:
                    task.cancel()
        logger.info("daemon stopped", position=log.head.position, digest=log.head.digest)


def _running(
    options: Options, settings: Settings, scenario: Scenario | None, policy: PolicyFile | None
) -> Running:
    seconds = settings.period_seconds
    period_ns = round(PERIOD_SECONDS * SECOND) if scenario is None else scenario.period_ns
    return Running(
        holder=settings.holder,
        version=VERSION,
        period_ns=period_ns if seconds is None else round(seconds * SECOND),
        scheduler_names=settings.scheduler_names,
        pod_labels=settings.pod_labels,
        policy=_policy(options, settings, scenario) if policy is None else policy.current,
        in_flight_max=settings.requests_at_once,
        grace_ns=round(settings.grace_seconds * SECOND),
        snapshot_every=settings.snapshot_every,
        is_shadow=bool(settings.shadow_of),
        shadow_hold_ns=round(settings.shadow_hold_seconds * SECOND),
        updates_status=scenario is None,
    )


def _policy_file(options: Options, settings: Settings) -> PolicyFile | None:
    """The policy file, if one is named. A record names what it skips later."""
    if _is_plain(options, settings):
        return None
    path = options.policy
    if path is None and settings.policy is not None:
        path = _folder(options) / settings.policy
    if path is None:
        return None
    read_cluster_policy(path)

    def read(path: Path) -> PolicyChanged:
        content = read_cluster_policy(path, tells=False)
        return PolicyChanged(source=path.name, policy=msgspec.Raw(content))

    return PolicyFile(path, read)


def _is_plain(options: Options, settings: Settings) -> bool:
    """Return whether the policy without quotas is named in place of a file."""
    named = settings.policy if options.policy is None else str(options.policy)
    return named == PLAIN


def _policy(options: Options, settings: Settings, scenario: Scenario | None) -> PolicyChanged:
    """Return the policy if it does not come from a file."""
    if _is_plain(options, settings):
        return PolicyChanged(source=PLAIN, policy=msgspec.Raw(PLAIN_POLICY))
    if scenario is not None:
        return policy_of(scenario)
    return PolicyChanged(source="built-in", policy=msgspec.Raw(BUILT_IN))
