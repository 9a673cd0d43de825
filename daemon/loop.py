"""The loop: observe, fold, decide, make durable, act, and record what came of it.

What follows from an input is computed in `engine/engine.py`, which does not wait. The loop waits: for watch
messages, for the time of the next cycle, for the log. The adapters to cluster, clock and log are arguments; the
same loop runs in production and in a simulation, and what differs between the two is in `daemon/loop_mode.py`.

Nothing is acted upon that is not durable. The next batch of watch messages is taken in while the last one is made
durable (`daemon/append_ahead.py`), except where time stands still meanwhile. When the log cannot be written, State that
ran ahead of it is thrown away; muster goes on observing within a bound, and resumes from what the log holds.

With a `DecidingThread`, State is changed in that thread while the event loop goes on; without one, as in virtual and
stepped time, in the event loop itself.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

import structlog
from msgspec import Struct

from daemon.append_ahead import AppendAhead
from daemon.auditing import Audits
from daemon.deciding_thread import DecidingThread
from daemon.effects import IN_FLIGHT_MAX, Actor, Effects
from daemon.health import Health
from daemon.intake import INTAKE_MAX, Intake
from daemon.loop_mode import RETRY_NS, LoopMode, RealTime
from daemon.memory_tuning import return_freed_memory
from daemon.monotonic_clock import Clock
from daemon.snapshot_keeper import SnapshotKeeper
from daemon.state_access import StateAccess
from engine.batch import Batch
from engine.engine import Engine, ObjectFailedError
from engine.pending_requests import is_moot
from engine.shadow import HOLD_NS
from events.daemon import DaemonStarted, PolicyChanged
from events.errors import FencedError, LogUnavailableError
from events.messages import Answer, Request, ResumePoint, WatchMessage
from events.record import Head
from projections.volumes.facts import VOLUME_KINDS
from scheduling.failed_objects import FailedObjects

SECOND_NS: Final = 1_000_000_000

TAKE_OVER_TRIES: Final = 20
"""How often to reach for a log that someone else writes, before giving up."""

IDLE_NS: Final = 20_000_000_000
"""The longest wait of a loop in which nothing happens: it shows that it is alive."""

FOLD_SECONDS: Final = 1800.0
"""The longest that folding a log may take before the supervisor may treat it as stuck."""

OUT_OF_REACH: Final = "log"
"""The reason, as `daemon/health.py` has it, while the log cannot be written."""

CLOCK: Final = "clock"
"""The reason while time is being corrected by more than a minute."""

logger: Final = structlog.get_logger("muster")


class Log(Protocol):
    """The part of a log that the loop needs."""

    async def append(self, *batches: Batch) -> None:
        """Return when the batches are durable."""

    async def take_over(self, holder: str) -> Head:
        """Begin an epoch."""

    async def reopen(self) -> Head:
        """Connect again."""

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Keep State at a position."""


class Cluster(Actor, Protocol):
    """The cluster: what it shows, and what can be asked of it."""

    def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """First all there is, kind by kind, each closed by a `ListCompleted`; then what happens."""

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Show what happened since then, by kind, where that can still be seen; else all there
        is. It is passed on before the first watch message is read, and again after the log was unavailable."""


class Running(Struct, frozen=True):
    """How the loop runs; how it decides is policy, and stands in the log."""

    holder: str
    version: str
    period_ns: int = 1_000_000_000
    scheduler_names: tuple[str, ...] = ("muster",)
    policy: PolicyChanged | None = None
    """The policy to begin with, where it is another than the log's."""
    in_flight_max: int = IN_FLIGHT_MAX
    intake_max: int = INTAKE_MAX
    """Watch messages not yet taken in, from which on watches are not read on."""
    grace_ns: int = 20_000_000_000
    """How long a shutdown waits for what is under way."""
    snapshot_every: int = 0
    """Keep State each time so many records have been added, and when leaving; 0 for never."""
    pod_labels: tuple[str, ...] = ()
    """Keys of the labels of pods that the view `pod` shows."""
    is_shadow: bool = False
    """Whether nothing is carried out: other schedulers, of these names, place the pods."""
    shadow_hold_ns: int = HOLD_NS
    """How long a shadow assumes a decision that the cluster does not show."""
    updates_status: bool = False
    """Whether conditions and allocated amounts are written to objects."""
    first_cycle_ns: int | None = None
    """When the first cycle is held at the earliest; None for at once."""
    has_deciding_thread: bool = False
    """Whether cycles and intake run in a thread of their own; only where time is real."""


class _Input(Struct, frozen=True):
    """What a turn changes State with."""

    now_ns: int
    answers: list[Answer]
    messages: deque[WatchMessage]
    policy: PolicyChanged | None
    """The policy to change to, unless it is in force."""
    is_time: bool
    """Whether a cycle is held if one is due."""

    @property
    def what(self) -> str:
        """What the turn does, for people."""
        return "the cycle" if self.is_time else "taking in what the watches showed"


class _Output(Struct, frozen=True):
    """What a turn made of its input."""

    batches: list[Batch]
    rest: Iterator[Batch] | None
    """What is still to be recorded of a long list; each batch is made when the one before is durable."""
    decided: list[Batch]
    began_ns: int
    """When deciding began, in the time of `elapsed_ns`."""
    deciding_ns: int


class _NewPolicy:
    """The policy that is to be in force, where it is known otherwise than from the log."""

    def __init__(self, latest: PolicyChanged | None) -> None:
        self.latest = latest
        self._is_new = False

    def put(self, policy: PolicyChanged) -> None:
        """Let another policy be in force."""
        self.latest, self._is_new = policy, True

    def take(self) -> PolicyChanged | None:
        """Return a policy that came since the last call."""
        is_new, self._is_new = self._is_new, False
        return self.latest if is_new else None


class _Outage:
    """The time in which the log cannot be written, or State is not what the log holds."""

    def __init__(self) -> None:
        self.is_on = False
        self.error: LogUnavailableError | None = None
        """What was found wrong with the log while nothing was appended."""
        self.batches_before = -1
        """Batches written when the log was last back."""

    def check(self) -> None:
        """Raise what was found wrong."""
        if self.error is not None:
            raise self.error

    def begin(self) -> None:
        """State is not what the log holds any more."""
        self.is_on = True

    def end(self, batches: int) -> None:
        """State was folded again from the log, to which so many batches had been written."""
        self.is_on, self.batches_before = False, batches


class Loop:
    """One daemon. `engine` is given folded from the log; `refold` folds it again when the log was away."""

    def __init__(
        self,
        log: Log,
        cluster: Cluster,
        clock: Clock,
        refold: Callable[[Head], Awaitable[Engine]],
        running: Running,
        health: Health | None = None,
        thread: DecidingThread | None = None,
        mode: LoopMode | None = None,
    ) -> None:
        """Without a `mode`, time is real."""
        self.health = Health(clock.elapsed_ns) if health is None else health
        self._log = log
        self._cluster = cluster
        self._mode = RealTime() if mode is None else mode
        self._clock = self._mode.time(clock)
        self._refold = refold
        self._running = running
        self._policy = _NewPolicy(running.policy)
        self._woken = asyncio.Event()
        self._intake = Intake(self._woken, running.intake_max if self._mode.is_real else None)
        self._effects = Effects(
            cluster,
            clock,
            self._woken,
            running.in_flight_max,
            tenant_of=self._tenant_of if self._mode.is_real else None,
            is_moot=self._is_moot,
        )
        self._ahead = AppendAhead(log.append, self._woken)
        self._access = StateAccess(thread, self.health, running.grace_ns)
        self._snapshots = SnapshotKeeper(
            log, running.snapshot_every, self._access, self._clock.elapsed_ns
        )
        self._audits: Audits | None = None
        self._next_cycle_ns = 0
        self._stop = False
        self._outage = _Outage()
        self._failed_objects = FailedObjects()
        self.cycle_held: Callable[[float, float], None] = lambda _decide, _whole: None
        """Called with seconds: those of deciding, and those until what was decided was durable."""
        self.is_synced = False
        """Whether every required kind has been listed, and requests are made."""
        self.cycles = 0
        self.engine: Engine | None = None

    def stop(self) -> None:
        """Finish the turn, wait for what is under way, and leave."""
        self._stop = True
        self._access.begin_shutdown()
        self._woken.set()

    def log_failed(self, error: LogUnavailableError) -> None:
        """Reconnect to the log, which failed while nothing was appended."""
        self._outage.error = error
        self._woken.set()

    def change_policy(self, policy: PolicyChanged) -> None:
        """Let other rules hold from the next cycle on."""
        self._policy.put(policy)
        self._woken.set()

    async def run(self) -> None:
        """Until stopped, or until nothing more can happen."""
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            effects = tasks.create_task(self._effects.run(), name="effects")
            ahead = tasks.create_task(self._ahead.run(), name="append")
            snapshots = tasks.create_task(self._snapshots.run(), name="snapshots")
            filling = self._intake.fill(self._cluster.messages())
            watch = tasks.create_task(filling, name="watch")
            try:
                while not self._is_done():
                    await self._turn_safely()
                watch.cancel()
                await self._finish()
            finally:
                # After fencing or a bug nothing more is done.
                watch.cancel()
                effects.cancel()
                ahead.cancel()
                snapshots.cancel()

    async def _begin(self) -> None:
        await self._start(await self._taken_over())
        self._cluster.resume_from(self._present().state.progress)
        self._next_cycle_ns = max(self._clock.now_ns(), self._running.first_cycle_ns or 0)

    async def _taken_over(self) -> Head:
        """The head at which our epoch begins. Until then another writer may move the head."""
        for _ in range(TAKE_OVER_TRIES):
            try:
                return await self._log.take_over(self._running.holder)
            except FencedError:
                await self._log.reopen()
        return await self._log.take_over(self._running.holder)

    async def _start(self, head: Head) -> None:
        """Begin from what the log holds: all there is will be listed before anything is decided."""
        started = DaemonStarted(
            holder=self._running.holder,
            version=self._running.version,
            period_ns=self._running.period_ns,
            scheduler_names=self._running.scheduler_names,
            is_shadow=self._running.is_shadow,
            pod_labels=self._running.pod_labels,
            volume_kinds=VOLUME_KINDS,
        )
        self.health.beat(within_seconds=FOLD_SECONDS)
        engine = self.engine = await self._refold(head)
        self._audits = self._mode.audits(engine, self._clock.elapsed_ns)
        self._clock.not_before(engine.state.now_ns)
        engine.updates_status = self._running.updates_status
        engine.shadow_hold_ns = self._running.shadow_hold_ns
        engine.failed_objects = self._failed_objects
        self._snapshots.begin(head.position)
        batch = engine.start(started, self._new_policy(engine), head.epoch, self._clock.now_ns())
        await self._append(batch)
        logger.info("daemon started", epoch=head.epoch, position=batch.after.position)

    def _new_policy(self, engine: Engine) -> PolicyChanged | None:
        """The policy that is to be in force, unless the log's says the same."""
        policy = self._policy.latest
        return policy if policy is not None and self._may_change_policy(engine, policy) else None

    def _may_change_policy(self, engine: Engine, policy: PolicyChanged) -> bool:
        """Whether a policy is another one than that in force, and loses no pool with jobs; if it does, say so."""
        if engine.is_in_force(policy):
            return False
        problem = engine.policy_problem(policy)
        if problem:
            logger.warning("the policy stays as it was", error=problem)
        return not problem

    def _is_done(self) -> bool:
        return self._stop or self._clock.is_over or self._mode.is_done(self.cycles)

    async def _turn_safely(self) -> None:
        try:
            await self._turn()
        except LogUnavailableError as error:
            self._outage.begin()
            if not self._mode.is_real:
                raise
            self.health.set(OUT_OF_REACH, str(error))
            logger.warning("the log cannot be written", error=str(error))
            await self._resume()
        except ObjectFailedError as error:
            # State is half changed: fold it again from what is durable, and record that object as unreadable.
            logger.error("an object cannot be taken in", subject=error.subject, reason=error.reason)
            self._outage.begin()
            with suppress(LogUnavailableError):  # Then it is waited for.
                await self._ahead.until_durable()
            await self._begin_again()

    async def _turn(self) -> None:
        """Take in what came, hold a cycle if it is time, and wait for something to happen."""
        self._woken.clear()
        self._ahead.check()
        self._outage.check()
        self.health.beat()
        await self._mode.settle(self._effects)
        now = self._clock.now_ns()
        self._compare_clocks()
        answers, messages, policy = self._effects.take(), self._intake.take(), self._policy.take()
        is_time = now >= self._next_cycle_ns and not self._is_behind
        given = _Input(now, answers, messages, policy, is_time)
        if answers or messages or policy is not None or is_time:
            made = await self._access.change(given.what, lambda: self._output(given))
            is_time = is_time and made.rest is None
            if is_time:
                self._schedule_next_cycle(now)
            await self._record(made)
        await self._act(answers, is_time=is_time)
        if self._audits is not None:
            self._audits.turn()
        if self._is_done() or self._is_behind:
            return
        if not self._woken.is_set() and not self.intake:
            await self._clock.wait(self._next_moment(), self._woken, IDLE_NS)

    async def _record(self, made: "_Output") -> None:
        """Make durable what a turn made; where nothing waits for it, in the background."""
        if self._mode.is_real and not made.decided and made.rest is None:
            self._ahead.hand_over(made.batches)
            await self._ahead.until_room()
            await self._keep_if_due()
            return
        await self._append(*made.batches, *made.decided)
        if made.rest is not None:
            await self._take_in_rest(made.rest)
        if made.decided:
            whole_ns = self._clock.elapsed_ns() - made.began_ns
            self.cycle_held(made.deciding_ns / SECOND_NS, whole_ns / SECOND_NS)

    def _compare_clocks(self) -> None:
        """Say where the machine's clock is far from the time of the log."""
        if not self._clock.is_off:
            if self.health.stands(CLOCK):
                logger.info("the clock agrees again", ahead_seconds=self.ahead_seconds)
            self.health.clear(CLOCK)
            return
        ahead = round(self.ahead_seconds)
        if not self.health.stands(CLOCK):
            logger.warning("the clock was set, or is wrong", log_ahead_seconds=ahead)
        side = f"{ahead} s ahead of" if ahead > 0 else f"{-ahead} s behind"
        self.health.set(CLOCK, f"the time of the log is {side} this machine's clock")

    @property
    def ahead_seconds(self) -> float:
        """How far the time of the log is ahead of the machine's clock; below 0 where it is behind."""
        return self._clock.ahead_ns / SECOND_NS

    @property
    def now_ns(self) -> int:
        """The time of the log now."""
        return self._clock.now_ns()

    @property
    def in_flight(self) -> int:
        """Requests to the cluster not yet answered."""
        return self._effects.in_flight

    @property
    def status_updates(self) -> tuple[int, int, int, int]:
        """How many status updates are queued, were dropped as no longer due, were put off, and how many objects rest."""
        effects = self._effects
        return (
            effects.queued_status_updates,
            effects.dropped,
            effects.put_off,
            effects.resting,
        )

    def _tenant_of(self, namespace: str) -> str:
        return self._present().state.cluster.tenants.tenant_of(namespace)

    def _is_moot(self, request: Request) -> bool:
        return is_moot(self._present().state, request)

    @property
    def audited_ns(self) -> int:
        """Time spent on audits since State was last folded."""
        return 0 if self._audits is None else self._audits.spent_ns

    @property
    def intake(self) -> int:
        """Watch messages not yet taken in."""
        return len(self._intake)

    @property
    def _is_behind(self) -> bool:
        return self._mode.is_behind(self._intake, self._effects)

    def _next_moment(self) -> int | None:
        """When the loop has something to do although nothing happens."""
        now_ns = self._clock.now_ns()
        return min(self._mode.moments(self._present(), now_ns, self._next_cycle_ns), default=None)

    def _output(self, given: _Input) -> _Output:
        """Change State: answers, what was shown, other rules, and then the cycle."""
        engine, now = self._present(), given.now_ns
        batches = _some(engine.report(given.answers, now)) if given.answers else []
        rest: Iterator[Batch] | None = None
        if given.messages:
            first, rest = self._mode.observe(engine, given.messages, now)
            batches += _some(first)
        if given.policy is not None and self._may_change_policy(engine, given.policy):
            batches.append(engine.change_policy(given.policy, now))
        is_time = given.is_time and rest is None
        if is_time:
            batches += _some(engine.end_shadow_decisions(now))
        began_ns = self._clock.elapsed_ns()
        decided = _some(engine.cycle(now)) if is_time else []
        return _Output(batches, rest, decided, began_ns, self._clock.elapsed_ns() - began_ns)

    async def _take_in_rest(self, rest: Iterator[Batch]) -> None:
        """Record the rest of a long list, batch by batch."""
        while self._present().is_taking_in:
            self.health.beat()
            made = await self._access.call("taking in a list", lambda: next(rest, None))
            await self._append(*_some(made))
            del made
            return_freed_memory()

    def _schedule_next_cycle(self, now: int) -> None:
        """At the next multiple of the period, or at once after a cycle that was cut short."""
        period = self._running.period_ns
        self._next_cycle_ns += max(1, -(-(now + 1 - self._next_cycle_ns) // period)) * period
        self.cycles += 1
        if self._present().is_cut_short:
            self._next_cycle_ns = now

    async def _act(self, answers: list[Answer], *, is_time: bool) -> None:
        """Ask for what is decided and, by now, durable; and again for what was never answered."""
        engine = self._present()
        if not engine.state.is_synced or self._mode.is_done(self.cycles):
            return
        if is_time or not self.is_synced:
            await self._ahead.until_durable()
            self.is_synced = True
            what, placing = "finding what to ask of the cluster", self._effects.placing
            due = await self._access.call(what, lambda: list(engine.requests(placing)))
            self._effects.ask(due, are_all=True)
        elif due := list(self._mode.follow_ups(engine, answers)):
            await self._ahead.until_durable()
            self._effects.ask(due)

    @property
    def batches(self) -> int:
        """Batches made durable."""
        return self._ahead.durable_count

    async def _append(self, *batches: Batch) -> None:
        """Return when all are durable, and what was handed over before them."""
        if batches:
            await self._ahead.append(batches)
            await self._keep_if_due()

    async def _keep_if_due(self) -> None:
        """Keep State if there are enough records since the last time; all of them are made durable before."""
        engine = self._present()
        if self._snapshots.is_due(engine.head.position):
            await self._ahead.until_durable()
            await self._snapshots.keep_beside(engine)

    def _present(self) -> Engine:
        assert self.engine is not None
        return self.engine

    async def _resume(self) -> None:
        """Wait for the log to come back, and begin again from what it holds."""
        if self.batches == self._outage.batches_before:
            # It came back and took nothing in: a full disk does that.
            await asyncio.sleep(RETRY_NS / SECOND_NS)
        await self._begin_again()
        if not self._outage.is_on:
            logger.info("the log is back", position=self._present().head.position)

    async def _begin_again(self) -> None:
        """Fold State from what the log holds, as soon as it can be reached, and let the cluster show what happened
        since."""
        while self._outage.is_on:
            if self._stop:
                return
            self.health.beat()
            try:
                head = await self._log.reopen()
                self._outage.error = None
                await self._start(head)
                self._outage.end(self.batches)
            except LogUnavailableError as error:
                self.health.set(OUT_OF_REACH, str(error))
                await asyncio.sleep(RETRY_NS / SECOND_NS)
        self._intake.restart()
        self.is_synced = False
        self.health.clear(OUT_OF_REACH)
        self._cluster.resume_from(self._present().state.progress)

    async def _finish(self) -> None:
        """Wait for what is under way, within bounds, and record what came of it."""
        try:
            await self._ahead.until_durable()
        except LogUnavailableError as error:
            self._outage.begin()
            logger.warning("the log cannot be written", error=str(error))
        if self._mode.is_counted:
            return
        leave_by = self._access.leave_by
        try:
            async with asyncio.timeout_at(leave_by):
                await self._effects.all_answered()
        except TimeoutError:
            logger.warning("left with requests under way", count=self._effects.in_flight)
        if self.engine is None or self._outage.is_on:
            return
        if answers := self._effects.take():
            await self._append(*_some(self.engine.report(answers, self._clock.now_ns())))
        await self._snapshots.finish(self.engine, leave_by)


def _some(batch: Batch | None) -> list[Batch]:
    return [] if batch is None else [batch]
