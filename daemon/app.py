"""The daemon on a Kubernetes API server: leader election, standby, terms, observability, shutdown.

The client, probes and metrics are made once per process. The log opened for writing, the watches and the loop are
made for each term.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import SystemRandom
from typing import Final

import structlog
from msgspec import Struct, structs

from daemon.address import parse_address
from daemon.clock import WallClock
from daemon.cluster.client.access import missing_calls
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.reviews import Reviews
from daemon.cluster.client.trust import keep_certificate, server_context
from daemon.cluster.kubernetes import ClusterOptions, KubernetesCluster
from daemon.cluster.lease import ApiLease
from daemon.connections import available_bounds
from daemon.deciding_thread import DecidingThread
from daemon.fold import refolder
from daemon.health import Health
from daemon.leader import LeaderLoop, Standby, Warm, Work
from daemon.leadership import Elector, Timing, holder_identity
from daemon.log.anchoring import Anchoring
from daemon.log.auditing import keep_audited
from daemon.log.contract import Log
from daemon.log.lost_records import keep_end_checked
from daemon.log.opening import is_postgresql, open_database, open_log
from daemon.log.shadow_mode import check_mode
from daemon.log.signatures import SigningKey, read_signing_key
from daemon.log.store import SqlLog
from daemon.log_end import LogEnd
from daemon.loop import Loop, Running
from daemon.metrics.sources import Lag
from daemon.observability import Observability
from daemon.policy_file import PolicyFile
from daemon.retention import DAY_NS, Retention, keep_retained
from daemon.serving.answering import answers_from
from daemon.serving.listening import listening
from daemon.serving.tenants import TenantQuestions
from daemon.settings import Settings, supervision, with_environment
from daemon.standby import StandbyFollower
from daemon.state_warnings import StateWarnings
from daemon.stop_signal import Stop
from daemon.version import VERSION
from engine.batch import Batch
from engine.engine import Engine
from events.daemon import PolicyChanged
from events.errors import ClusterError, SettingsError, UsageError
from events.messages import OutcomeUnknown, Reply, Request, ResumePoint, WatchMessage
from events.record import Head
from projections.state import State

ANCHOR_EVENT_NS: Final = 660_000_000_000
"""Between two Events of anchors: more often, they would be summarized, and their digests lost (`daemon/cluster/acting/correlation.py`)."""
TENANT_SECONDS: Final = 60.0
"""Seconds for a tenant's question: reviews, the wait for a place and the answer have bounds of their own below this."""

ACCESS_SECONDS: Final = 60.0
"""Time between two checks of permissions, while some are missing or the server does not answer."""

logger: Final = structlog.get_logger("muster")


class DaemonConfig(Struct, frozen=True):
    """The configuration of a daemon: from the command line and the settings file."""

    settings: Settings
    access: Access
    log: str
    running: Running
    folder: Path = Path()
    """The folder of the settings file: relative paths in it start there."""
    policy: PolicyFile | None = None
    """The file with the policy, if it comes from one."""


class DaemonApp:
    """One daemon on one API server."""

    def __init__(self, plan: DaemonConfig, operation: Observability, clock: WallClock) -> None:
        self._plan = plan
        self._operation = operation
        self._clock = clock
        self._jitter = SystemRandom().random
        self._identity = holder_identity()
        self._elector: Elector | None = None
        self._loop: Loop | None = None
        self._cluster: KubernetesCluster | None = None
        self._follower: StandbyFollower | None = None
        self._leader_loop: LeaderLoop | None = None
        self._thread: DecidingThread | None = None
        """One thread for all terms: a term begins only when the last one's call has ended."""
        if plan.running.has_deciding_thread:
            self._thread = DecidingThread(clock.elapsed_ns)
        self._dropped = 0
        """Events dropped by this term's cluster, as counted so far."""
        self._is_stopped = False
        self._key: SigningKey | None = None
        self._anchor: Head | None = None
        """The head of the log that was anchored last."""
        self._event_at_ns: int | None = None
        """When an Event of an anchor was last queued."""
        self._log_end = LogEnd(plan.settings, operation.health, clock.now_ns)
        self._warnings = StateWarnings(
            lambda: self._loop,
            lambda: self._thread is not None and self._thread.is_busy,
            clock.elapsed_ns,
        )

    def stop(self) -> None:
        """Shut down in order."""
        self._is_stopped = True
        self._operation.health.set("stop", "asked to stop")
        if self._leader_loop is not None:
            self._leader_loop.stop()

    async def run(self) -> None:
        """Run until stopped, or until an error that another try would not mend."""
        self._key = _signing_key(self._plan)
        observe = self._operation.metrics.counted.observe_request
        client = await Client.connect(
            self._plan.access,
            self._jitter,
            f"muster/{VERSION}",
            observe,
            is_read_only=self._plan.running.is_shadow,
        )
        try:
            self._elector = self._new_elector(client)
            self._leader_loop = leader_loop = self._new_leader_loop(client, self._elector)
            self._tell_sources()
            if self._is_stopped:
                leader_loop.stop()
            with ExitStack() as asked:
                asked.enter_context(self._operation.health.asking(self))
                asked.enter_context(self._operation.health.noting(self._warnings.notes))
                if self._thread is not None:
                    asked.callback(self._thread.close)
                    asked.enter_context(self._operation.health.asking(self._thread))
                async with self._tenants_answered(client), asyncio.TaskGroup() as tasks:
                    access = tasks.create_task(self._look_at_access(client), name="access")
                    try:
                        await leader_loop.run()
                    finally:
                        access.cancel()
        finally:
            await client.close()

    @asynccontextmanager
    async def _tenants_answered(self, client: Client) -> AsyncIterator[None]:
        """Answer questions of tenants, if the settings say where, until the block ends."""
        plan, settings = self._plan, self._plan.settings
        if not settings.tenants_listen:
            yield
            return
        if plan.running.is_shadow:
            raise SettingsError(
                "tenants_listen: a shadow answers no tenants, for it would have to create reviews"
            )
        questions = TenantQuestions(
            Reviews(client),
            answers_from(plan.log),
            asyncio.get_running_loop().time,
            tenant_of=self._tenant_of,
        )
        certificate, key = settings.tenants_certificate_file, settings.tenants_key_file
        files = (plan.folder / certificate, plan.folder / key) if certificate and key else None
        tls = None if files is None else server_context(*files)
        address = parse_address(settings.tenants_listen)
        async with listening(
            address,
            questions.application(),
            bounds=structs.replace(available_bounds(), answer_seconds=TENANT_SECONDS),
            observe=self._operation.metrics.counted.http_refused,
            tls=tls,
            has_any_host=True,
        ) as given:
            logger.info("listening for tenants", address=str(given), tls=tls is not None)
            if tls is None or files is None:
                yield
                return
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(keep_certificate(tls, *files), name="certificate")
                try:
                    yield
                finally:
                    renewing.cancel()

    def _new_elector(self, client: Client) -> Elector | None:
        settings = self._plan.settings
        if not settings.leader_elect:
            return None
        return Elector(
            ApiLease(client, client.namespace, settings.lease_name, self._doubt),
            self._identity,
            now_ns=self._clock.now_ns,
            jitter=self._jitter,
            timing=Timing(
                lease_seconds=settings.lease_seconds,
                renew_seconds=settings.renew_seconds,
                give_up_seconds=settings.give_up_seconds,
            ),
        )

    def _doubt(self, reason: str) -> None:
        if self._cluster is not None:
            self._cluster.doubt(reason)

    def _new_leader_loop(self, client: Client, elector: Elector | None) -> LeaderLoop:
        is_shared = is_postgresql(self._plan.log)

        @asynccontextmanager
        async def begin(warm: Warm) -> AsyncIterator[Work]:
            async with self._term(client, elector, warm) as work:
                yield work

        standby = self._new_standby if is_shared and elector is not None else None
        return LeaderLoop(
            begin,
            elector=elector,
            standby=standby,
            may_stand=lambda: self._thread is None or not self._thread.is_busy,
        )

    def _new_standby(self) -> Standby:
        async def open_reading() -> SqlLog:
            return await open_database(self._plan.log)

        secret = self._plan.settings.secret_annotations
        self._follower = StandbyFollower(
            open_reading,
            secret=secret,
            on_error=self._operation.on_error,
            stated_anchor=lambda: self._log_end.anchor_of(
                None if self._elector is None else self._elector.stated_anchor
            ),
            is_unled=lambda: self._elector is not None and self._elector.is_unled,
            accepts_loss=self._log_end.accepts,
            unled_seconds=2 * self._plan.settings.lease_seconds,
        )
        # Waiting for the Lease is no slow start: a supervisor need not wait for it.
        self._operation.health.clear("start")
        self._operation.health.role = "standby"
        return self._follower

    @asynccontextmanager
    async def _term(
        self, client: Client, elector: Elector | None, warm: Warm
    ) -> AsyncIterator["_Term"]:
        plan, clock = self._plan, self._clock
        log = await open_log(plan.log, "write", is_shortened=True)  # `LogEnd` says so.
        try:
            await check_mode(log, shadow=plan.running.is_shadow)
            await self._log_end.check(log, elector)
            cluster = KubernetesCluster(
                client,
                _cluster_options(plan.settings),
                self._identity,
                jitter=self._jitter,
                now_ns=clock.now_ns,
                elapsed_ns=clock.elapsed_ns,
            )
            fenced = FencedCluster(cluster, elector)
            health = self._operation.health
            until_idle = None if self._thread is None else self._thread.until_idle
            heard = self._operation.heard(log, self._noted, until_idle=until_idle)
            refold = self._refold(log, warm)
            loop = Loop(heard, fenced, clock, refold, self._running(), health, self._thread)
            loop.cycle_held = self._operation.metrics.counted.cycle_held
            self._dropped = 0
            self._loop, self._cluster = loop, cluster
            health.role = "shadow" if plan.running.is_shadow else "leader"
            anchoring = self._new_anchoring(log)
            beside: list[Callable[[], Coroutine[None, None, None]]] = [
                partial(self._keep_log, log, anchoring),
                partial(keep_end_checked, log, plan.settings.renew_seconds, loop.log_failed),
            ]
            yield _Term(loop, cluster, health, beside, anchoring)
            logger.info("daemon stopped", position=log.head.position, digest=log.head.digest)
        finally:
            self._loop = self._cluster = None
            self._operation.health.rest()
            self._operation.health.role = "standby"
            await log.close()

    def _new_anchoring(self, log: Log) -> Anchoring | None:
        every_seconds = self._plan.settings.anchor_seconds
        if not every_seconds or not isinstance(log, SqlLog):
            return None
        now_ns = self._clock.now_ns
        return Anchoring(log, self._key, every_seconds, now_ns=now_ns, publish=self._anchored)

    def _anchored(self, head: Head) -> None:
        """Publish a head of the log."""
        self._anchor = head
        settings, now_ns = self._plan.settings, self._clock.elapsed_ns()
        is_due = self._event_at_ns is None or now_ns - self._event_at_ns >= ANCHOR_EVENT_NS
        has_lease = settings.leader_elect and not self._plan.running.is_shadow
        if self._cluster is not None and has_lease and is_due:
            self._event_at_ns = now_ns
            self._cluster.note_anchor(head, settings.lease_name)

    async def _keep_log(self, log: Log, anchoring: Anchoring | None) -> None:
        """Audit the log once, then keep bases of it, and archive what is older than the settings say."""
        plan, clock = self._plan, self._clock
        await keep_audited(log, clock.elapsed_ns, None if anchoring is None else anchoring.signed)
        folder, retention = plan.settings.archive_folder, None
        if plan.settings.retain_days and folder:
            place = plan.folder / with_environment(folder, "archive_folder")
            retention = Retention(round(plan.settings.retain_days * DAY_NS), place)
        if isinstance(log, SqlLog):
            await keep_retained(log, retention, clock.now_ns, clock.elapsed_ns)

    def change_policy(self, policy: PolicyChanged) -> None:
        """Put another policy into force, now or in the next term."""
        if self._loop is not None:
            self._loop.change_policy(policy)

    def _running(self) -> Running:
        """The options of the loop, with the current policy."""
        plan = self._plan
        if plan.policy is None:
            return plan.running
        return structs.replace(plan.running, policy=plan.policy.current)

    def _refold(self, log: Log, warm: Warm) -> Callable[[Head], Awaitable[Engine]]:
        """The first step of a term is the standby's; later ones are folded from the log."""
        secret = self._plan.settings.secret_annotations
        on_error = self._operation.on_error
        fold = refolder(log, with_views=True, secret=secret, on_error=on_error)
        is_first = True

        async def refold(head: Head) -> Engine:
            nonlocal is_first
            engine = await warm(head) if is_first else None
            is_first = False
            return await fold(head) if engine is None else engine

        return refold

    def _noted(self, batch: Batch, _seconds: float) -> None:
        """Send Kubernetes Events for durable records."""
        if self._cluster is not None and self._loop is not None and self._loop.engine is not None:
            self._operation.health.clear("start")
            self._cluster.note(batch, self._loop.engine.state.cluster)
            dropped = self._cluster.recorder.dropped
            self._operation.metrics.counted.event_dropped(dropped - self._dropped)
            self._dropped = dropped

    def _tell_sources(self) -> None:
        """Connect the sources of metrics."""
        sources = self._operation.metrics.sources
        sources.state = self._state
        if (thread := self._thread) is not None:
            # A call abandoned with its term still changes a State that is not shown any more.
            sources.is_state_busy = lambda: thread.is_busy and self._loop is not None
            sources.until_state_is_idle = thread.until_idle
            sources.under_way_seconds = lambda: thread.seconds
        sources.position = self._position
        sources.stale_reports = lambda: [
            (one.kind, len(one.names)) for one in self._warnings.stale_reports()
        ]
        sources.stale_policy = lambda: self._plan.policy is not None and self._plan.policy.is_stale
        sources.unknown_decisions = lambda: self._warnings.unknown_decisions().count
        sources.anchor = lambda: None if self._loop is None else self._anchor
        sources.epoch = lambda: 0 if self._step is None else self._step.head.epoch
        sources.in_flight = lambda: 0 if self._loop is None else self._loop.in_flight
        sources.status_updates = lambda: (
            (0, 0, 0, 0) if self._loop is None else self._loop.status_updates
        )
        sources.events_queued = lambda: (
            0 if self._cluster is None else self._cluster.recorder.queued
        )
        sources.intake = lambda: 0 if self._loop is None else self._loop.intake
        sources.lag = self._lag
        sources.clock_ahead = lambda: 0.0 if self._loop is None else self._loop.ahead_seconds
        sources.watches = lambda: () if self._cluster is None else self._cluster.watch_health()

    def _tenant_of(self, namespace: str) -> str:
        state = self._state()
        return namespace if state is None else state.cluster.tenants.tenant_of(namespace)

    @property
    def _step(self) -> Engine | None:
        return None if self._loop is None else self._loop.engine

    def _state(self) -> State | None:
        """The State of this process; on a standby, that of the log it follows."""
        if self._step is not None:
            return self._step.state
        return None if self._follower is None else self._follower.state

    def _position(self) -> int:
        if self._step is not None:
            return self._step.head.position
        return 0 if self._follower is None else self._follower.position

    def _lag(self) -> Lag | None:
        if self._follower is None or self._loop is not None:
            return None
        lag = self._follower.lag
        return Lag(records=lag.records, seconds=lag.seconds)

    def reasons(self) -> Mapping[str, str]:
        """Why the daemon is not ready, regarding leadership and standby."""
        found = dict(self._warnings.texts())
        if self._elector is not None and self._elector.reason:
            found["leadership"] = self._elector.reason
        follower = self._follower
        if self._loop is None and follower is not None and not follower.is_ready:
            found["standby"] = follower.reason
        if self._loop is None and follower is None and self._elector is not None:
            by = f", held by {self._elector.leader}" if self._elector.leader else ""
            found["start"] = f"waiting for the Lease{by}"
        return found

    def still(self) -> Mapping[str, float]:
        """Nothing here has to make progress."""
        return {}

    async def _look_at_access(self, client: Client) -> None:
        """Check permissions until none is missing; report those that are (rule K15.3).

        A shadow does not: to ask is a call that creates an object.
        """
        if self._plan.running.is_shadow:
            return
        health = self._operation.health
        while True:
            try:
                missing = await missing_calls(client, self._plan.settings.lease_name)
            except ClusterError as error:
                health.set("api", str(error))
            else:
                health.clear("api")
                done_without = ", ".join(call.what for call in missing if call.is_optional)
                if done_without:
                    logger.info("permissions that muster does without", calls=done_without)
                required = ", ".join(call.what for call in missing if not call.is_optional)
                if not required:
                    health.clear("access")
                    return
                health.set("access", required)
                logger.warning("permissions are missing", calls=required)
            await asyncio.sleep(ACCESS_SECONDS if "access" in health.reasons else 5.0)


class FencedCluster:
    """The Kubernetes adapter of a leader: it sends no request once leadership is lost (rule K14.4)."""

    def __init__(self, cluster: KubernetesCluster, elector: Elector | None) -> None:
        self._cluster = cluster
        self._elector = elector

    def messages(self) -> AsyncIterator[list[WatchMessage]]:
        return self._cluster.messages()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        self._cluster.resume_from(progress)

    def attempt(self, request: Request) -> Coroutine[None, None, tuple[Reply, int]]:
        if self._elector is not None and not self._elector.may_act():
            return _not_asked()
        return self._cluster.attempt(request)


async def _not_asked() -> tuple[Reply, int]:
    return OutcomeUnknown(message="not asked: this daemon does not lead any more"), 0


class _Term:
    """The work of a term: the loop, with its cluster and log audit beside it."""

    def __init__(
        self,
        loop: Loop,
        cluster: KubernetesCluster,
        health: Health,
        beside: list[Callable[[], Coroutine[None, None, None]]],
        anchoring: Anchoring | None,
    ) -> None:
        """`beside` runs as long as the loop does."""
        self._anchoring = anchoring
        self._beside = beside
        self._loop = loop
        self._cluster = cluster
        self._health = health

    def stop(self) -> None:
        self._loop.stop()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._cluster.run(self._health), name="cluster"),
                *(tasks.create_task(one(), name="log") for one in self._beside),
            ]
            if self._anchoring is not None:
                beside.append(tasks.create_task(self._anchoring.run(), name="anchors"))
            try:
                await self._loop.run()
                if self._anchoring is not None:
                    await self._anchoring.finish()
                await self._cluster.recorder.drained(1.0)
            finally:
                for task in beside:
                    task.cancel()


def _signing_key(plan: DaemonConfig) -> SigningKey | None:
    name = plan.settings.sign_key
    if name is None:
        return None
    try:
        return read_signing_key(plan.folder / name)
    except UsageError as error:
        raise SettingsError(f"sign_key: {error}") from error


def _cluster_options(settings: Settings) -> ClusterOptions:
    return ClusterOptions(
        streams_lists=settings.streams_lists,
        full_list_seconds=settings.full_list_seconds,
        writes_events=settings.writes_events,
        evictions_per_minute=settings.evictions_per_minute,
        evictions_per_workload=settings.evictions_per_workload,
    )


async def run_daemon(plan: DaemonConfig, operation: Observability, stop: Stop) -> None:
    """Run a daemon until it is stopped."""
    life = DaemonApp(plan, operation, WallClock())
    stop.reaches(life.stop)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            operation.open(plan.settings, plan.folder, supervision(os.getpid()))
        )
        if plan.policy is not None:
            stack.enter_context(operation.health.asking(plan.policy))
            await stack.enter_async_context(plan.policy.watched(life.change_policy))
        await life.run()
