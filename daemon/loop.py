"""The loop: observe, fold, decide, make durable, act, and record what came of it.

What follows from an input is computed in `engine/engine.py`, which does not wait. The loop waits: for watch
messages, for the time of the next cycle, for the log. The adapters to cluster, clock and log are arguments; the
same loop runs in production and in a simulation.

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
from typing import Final, Protocol, TypeVar

import structlog
from msgspec import Struct

from daemon.append_ahead import AppendAhead
from daemon.auditing import Audits
from daemon.composition import audits_of
from daemon.deciding_thread import DecidingThread, StuckCycleError
from daemon.effects import IN_FLIGHT_MAX, Actor, Effects
from daemon.health import Health
from daemon.log.snapshots import payload_of
from daemon.memory_tuning import return_freed_memory
from daemon.monotonic_clock import Clock, MonotonicClock
from engine.batch import Batch
from engine.engine import Engine, ObjectFailedError
from engine.pending_requests import is_moot
from engine.shadow import HOLD_NS
from events.daemon import DaemonStarted, PolicyChanged
from events.errors import FencedError, LogUnavailableError
from events.messages import Answer, Request, ResumePoint, WatchMessage
from events.record import Head
from projections import snapshot
from projections.state import State
from projections.volumes.facts import VOLUME_KINDS
from scheduling.failed_objects import FailedObjects

INTAKE_MAX: Final = 10_000
"""Watch messages not yet taken in, from which on watches are not read on."""

INTAKE_BYTES_MAX: Final = 64 << 20
"""Bytes of objects not yet taken in, at which watches are not read on."""

SECOND_NS: Final = 1_000_000_000

RETRY_NS: Final = SECOND_NS
"""How long an unanswered binding, or a log that is away, is left alone before it is tried again."""

TAKE_OVER_TRIES: Final = 20
"""How often to reach for a log that someone else writes, before giving up."""

IDLE_NS: Final = 20_000_000_000
"""The longest wait of a loop in which nothing happens: it shows that it is alive."""

FOLD_SECONDS: Final = 1800.0
"""The longest that folding a log may take before the supervisor may treat it as stuck."""

SNAPSHOT_SHARE: Final = 20
"""Writing snapshots beside the loop takes at most one part in so many of the time: it takes the lock of Python from the loop."""

OUT_OF_REACH: Final = "log"
"""The reason, as `daemon/health.py` has it, while the log cannot be written."""

CLOCK: Final = "clock"
"""The reason while time is being corrected by more than a minute."""

logger: Final = structlog.get_logger("muster")

T = TypeVar("T")


class Log(Protocol):
    """The part of a log that the loop needs."""

    async def append(self, batch: Batch) -> None:
        """Return when the batch is durable."""

    async def take_over(self, holder: str) -> Head:
        """Begin an epoch."""

    async def reopen(self) -> Head:
        """Connect again."""

    async def save_snapshot(self, position: int, digest: str, version: int, payload: bytes) -> None:
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
    cycles_max: int | None = None
    """Stop after so many cycle times, whether or not a cycle was due."""
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


class _Output(Struct, frozen=True):
    """What a turn made of its input."""

    batches: list[Batch]
    rest: Iterator[Batch] | None
    """What is still to be recorded of a long list; each batch is made when the one before is durable."""
    decided: list[Batch]
    began_ns: int
    """When deciding began, in the time of `elapsed_ns`."""
    deciding_ns: int


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
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._clock = MonotonicClock(clock)
        self._refold = refold
        self._running = running
        self._policy, self._rules_are_new = running.policy, False
        """The policy that is to be in force, where it is known otherwise than from the log."""
        self._woken = asyncio.Event()
        self._inbox: list[WatchMessage] = []
        self._inbox_bytes = 0
        self._audits: Audits | None = None
        """Audits beside everything else; none where time stands still meanwhile."""
        self._room = asyncio.Event()
        self._room.set()
        self._effects = Effects(
            cluster,
            clock,
            self._woken,
            running.in_flight_max,
            tenant_of=None if self._clock.is_stepped else self._tenant_of,
            is_moot=self._is_moot,
        )
        self._ahead = AppendAhead(log.append, self._woken)
        self._appended = 0
        """Batches appended that nothing else was done beside."""
        self._next_cycle_ns = 0
        self._stop = False
        self._thread = thread
        self._leave_by: float | None = None
        """When the grace ends, in the event loop's time; None until asked to stop."""
        self._deadline: asyncio.Timeout | None = None
        """Of the change of State that is under way in the thread."""
        self._batches_before = -1
        """Batches written when the log was last back."""
        self._showing = 0
        """How often all there is has been asked for again."""
        self._kept = 0
        self._fork: tuple[State, Head] | None = None
        """A fork of State of which a snapshot is being written, while the loop goes on."""
        self._next_fork_ns = 0
        """When the next one is made at the earliest, in the time of `elapsed_ns`."""
        self._forked = asyncio.Event()
        self._snapshot_written = asyncio.Event()
        self._failed_objects = FailedObjects()
        self._log_is_writable = True
        self._log_error: LogUnavailableError | None = None
        self.cycle_held: Callable[[float, float], None] = lambda _decide, _whole: None
        """Told seconds: those of deciding, and those until what was decided was durable."""
        self.health = Health(clock.elapsed_ns) if health is None else health
        self.is_synced = False
        """Whether every required kind has been listed, and requests are made."""
        self.cycles = 0
        self.engine: Engine | None = None

    def stop(self) -> None:
        """Finish the turn, wait for what is under way, and leave."""
        self._stop = True
        if self._thread is not None and self._leave_by is None:
            now = asyncio.get_running_loop().time()
            self._leave_by = now + self._running.grace_ns / SECOND_NS
            if self._deadline is not None:
                self._deadline.reschedule(self._leave_by)
        self._woken.set()

    def log_failed(self, error: LogUnavailableError) -> None:
        """Reconnect to the log, which failed while nothing was appended."""
        self._log_error = error
        self._woken.set()

    def change_policy(self, policy: PolicyChanged) -> None:
        """Let other rules hold from the next cycle on."""
        self._policy, self._rules_are_new = policy, True
        self._woken.set()

    async def run(self) -> None:
        """Until stopped, or until nothing more can happen."""
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            effects = tasks.create_task(self._effects.run(), name="effects")
            ahead = tasks.create_task(self._ahead.run(), name="append")
            snapshots = tasks.create_task(self._write_snapshots(), name="snapshots")
            watch = tasks.create_task(self._watch(), name="watch")
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
        if not self._clock.is_stepped:
            self._audits = audits_of(engine, self._clock.elapsed_ns)
        self._clock.not_before(engine.state.now_ns)
        engine.updates_status = self._running.updates_status
        engine.shadow_hold_ns = self._running.shadow_hold_ns
        engine.failed_objects = self._failed_objects
        self._kept = head.position
        batch = engine.start(started, self._new_policy(engine), head.epoch, self._clock.now_ns())
        await self._append(batch)
        logger.info("daemon started", epoch=head.epoch, position=batch.after.position)

    def _new_policy(self, engine: Engine) -> PolicyChanged | None:
        """The policy that is to be in force, unless the log's says the same."""
        policy = self._policy
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
        if self._stop or self._clock.is_over:
            return True
        most = self._running.cycles_max
        return most is not None and self.cycles >= most

    async def _watch(self) -> None:
        async for taken in self._cluster.messages():
            showing = self._showing
            if not self._clock.is_stepped:
                # Where time stands still meanwhile, what has happened is bounded anyway.
                await self._room.wait()
            if showing != self._showing:
                continue  # Older than the list that has been asked for meanwhile.
            self._inbox += taken
            self._inbox_bytes += sum(len(getattr(one, "raw", b"")) for one in taken)
            del taken  # It would hold the objects until the next come.
            if (
                len(self._inbox) >= self._running.intake_max
                or self._inbox_bytes >= INTAKE_BYTES_MAX
            ):
                self._room.clear()
            self._woken.set()

    async def _turn_safely(self) -> None:
        try:
            await self._turn()
        except LogUnavailableError as error:
            self._log_is_writable = False
            if self._clock.is_stepped:
                raise  # In stepped time only this loop lets time pass: waiting would not mend the log.
            self.health.set(OUT_OF_REACH, str(error))
            logger.warning("the log cannot be written", error=str(error))
            await self._resume()
        except ObjectFailedError as error:
            # State is half changed: fold it again from what is durable, and record that object as unreadable.
            logger.error("an object cannot be taken in", subject=error.subject, reason=error.reason)
            self._log_is_writable = False
            with suppress(LogUnavailableError):  # Then it is waited for.
                await self._ahead.until_durable()
            await self._begin_again()

    async def _turn(self) -> None:
        """Take in what came, hold a cycle if it is time, and wait for something to happen."""
        self._woken.clear()
        self._ahead.check()
        if self._log_error is not None:
            raise self._log_error
        self.health.beat()
        if self._clock.is_stepped:
            await self._effects.all_answered()
            await self._clock.settle()
        now = self._clock.now_ns()
        self._compare_clocks()
        answers, messages, policy = self._effects.take(), self._take_inbox(), self._take_policy()
        is_time = now >= self._next_cycle_ns and not self._is_behind
        given = _Input(now, answers, messages, policy, is_time)
        if answers or messages or policy is not None or is_time:
            made = await self._worked(given)
            is_time = is_time and made.rest is None
            if is_time:
                self._schedule_next_cycle(now)
            if made.decided or made.rest is not None or self._clock.is_stepped:
                await self._append(*made.batches, *made.decided)
            else:
                await self._append_ahead(made.batches)
            if made.rest is not None:
                await self._take_in_rest(made.rest)
            if made.decided:
                whole_ns = self._clock.elapsed_ns() - made.began_ns
                self.cycle_held(made.deciding_ns / SECOND_NS, whole_ns / SECOND_NS)
        await self._act(answers, is_time=is_time)
        if self._audits is not None:
            self._audits.turn()
        if self._is_done() or self._is_behind:
            return
        if not self._woken.is_set() and not self._inbox:
            await self._clock.wait(self._next_moment(), self._woken, IDLE_NS)

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
        return len(self._inbox)

    @property
    def _is_behind(self) -> bool:
        """Whether, where time stands still meanwhile, there is more to take in before time may move."""
        return self._clock.is_stepped and bool(self._inbox or self._effects.in_flight)

    def _next_moment(self) -> int | None:
        """When the loop has something to do although nothing happens."""
        engine = self._present()
        moments: list[int] = []
        if self._running.cycles_max is not None or engine.is_due(self._next_cycle_ns):
            moments.append(self._next_cycle_ns)
        elif (deadline := engine.state.next_deadline_ns) is not None:
            moments.append(max(deadline, self._next_cycle_ns))
        if not self._clock.is_stepped:
            if engine.state.commitments or engine.state.evictions:
                moments.append(self._clock.now_ns() + RETRY_NS)
            if engine.has_status_updates:
                moments.append(self._next_cycle_ns)
        return min(moments, default=None)

    def _take_inbox(self) -> deque[WatchMessage]:
        """What the cluster has shown since the last turn."""
        if not self._inbox:
            return deque()
        taken, self._inbox, self._inbox_bytes = self._inbox, [], 0
        self._room.set()
        return deque(taken)

    def _take_policy(self) -> PolicyChanged | None:
        """A policy that came since the last turn."""
        is_new, self._rules_are_new = self._rules_are_new, False
        return self._policy if is_new else None

    async def _change_state(self, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns that reads or changes State, in the thread where there is one."""
        if self._thread is None:
            return call()
        self.health.rest()  # The thread has a bound of its own.
        try:
            return await self._thread.run(what, call)
        finally:
            self.health.beat()

    async def _worked(self, given: _Input) -> _Output:
        """Change State. If that is still under way when the grace of a shutdown ends, abandon it."""
        what = "the cycle" if given.is_time else "taking in what the watches showed"
        try:
            async with asyncio.timeout_at(self._leave_by) as self._deadline:
                return await self._change_state(what, lambda: self._output(given))
        except TimeoutError:
            if self._deadline is None or not self._deadline.expired():
                raise
            grace = f"{self._running.grace_ns / SECOND_NS:g} s"
            logger.error("left during a cycle", what=what, grace=grace)
            raise StuckCycleError(
                f"{what} did not end within {grace} of being asked to stop; nothing of it was recorded"
            ) from None
        finally:
            self._deadline = None

    def _output(self, given: _Input) -> _Output:
        """Change State: answers, what was shown, other rules, and then the cycle."""
        engine, now = self._present(), given.now_ns
        batches = _some(engine.report(given.answers, now)) if given.answers else []
        rest: Iterator[Batch] | None = None
        if given.messages:
            if self._clock.is_stepped:
                batches += _some(engine.observe(given.messages, now))
            else:
                rest = engine.observe_in_parts(given.messages, now)
                batches += _some(next(rest, None))
                rest = rest if engine.is_taking_in else None
        if given.policy is not None and self._may_change_policy(engine, given.policy):
            batches.append(engine.change_policy(given.policy, now))
        if given.is_time and rest is None and self._running.is_shadow:
            batches += _some(engine.end_shadow_decisions(now))
        began_ns = self._clock.elapsed_ns()
        decided = _some(engine.cycle(now)) if given.is_time and rest is None else []
        return _Output(batches, rest, decided, began_ns, self._clock.elapsed_ns() - began_ns)

    async def _take_in_rest(self, rest: Iterator[Batch]) -> None:
        """Record the rest of a long list, batch by batch."""
        while self._present().is_taking_in:
            self.health.beat()
            made = await self._change_state("taking in a list", lambda: next(rest, None))
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
        is_last = self.cycles == self._running.cycles_max
        if not engine.state.is_synced or is_last:
            return
        if is_time or not self.is_synced:
            await self._ahead.until_durable()
            self.is_synced = True
            what = "finding what to ask of the cluster"
            placing = self._effects.placing
            due = await self._change_state(what, lambda: list(engine.requests(placing)))
            self._effects.ask(due, are_all=True)
        elif self._clock.is_stepped:
            self._effects.ask([*engine.urgent_requests(), *engine.follow_up_requests(answers)])
        elif answers and (due := list(engine.follow_up_requests(answers))):
            await self._ahead.until_durable()
            self._effects.ask(due)

    @property
    def batches(self) -> int:
        """Batches made durable."""
        return self._appended + self._ahead.durable_count

    async def _append(self, *batches: Batch) -> None:
        """Return when all are durable, and what was handed over before them. They share a transaction."""
        if not batches:
            return
        await self._ahead.until_durable()
        if len(batches) == 1:
            await self._log.append(batches[0])
        else:
            written = map(self._log.append, batches)
            for failure in await asyncio.gather(*written, return_exceptions=True):
                if failure is not None:
                    raise failure
        self._appended += len(batches)
        await self._keep_if_due()

    async def _append_ahead(self, batches: list[Batch]) -> None:
        """Hand batches over to be made durable, and return as soon as there is room for more."""
        self._ahead.hand_over(batches)
        await self._ahead.until_room()
        await self._keep_if_due()

    async def _keep_if_due(self) -> None:
        """Keep State if there are enough records since the last time; all of them are made durable before.

        With a thread, the loop waits for a fork of State only, and goes on while that is written. There is one such fork at
        a time.
        """
        every = self._running.snapshot_every
        if not every or self._present().head.position - self._kept < every:
            return
        if self._fork is not None or self._clock.elapsed_ns() < self._next_fork_ns:
            return
        await self._ahead.until_durable()
        if self._thread is None:
            await self._keep()
            return
        engine = self._present()
        fork = await self._change_state("a fork for a snapshot", engine.state.fork)
        self._fork, self._kept = (fork, engine.head), engine.head.position
        self._snapshot_written.clear()
        self._forked.set()

    async def _write_snapshots(self) -> None:
        """Write a snapshot of each fork of State, encoded in a thread, until cancelled."""
        while True:
            await self._forked.wait()
            assert self._fork is not None
            state, head = self._fork
            began_ns = self._clock.elapsed_ns()
            payload = await asyncio.to_thread(payload_of, state)
            del state
            try:
                await self._log.save_snapshot(head.position, head.digest, snapshot.VERSION, payload)
            except LogUnavailableError as error:
                logger.warning(
                    "a snapshot was not written", position=head.position, error=str(error)
                )
            del payload
            self._fork = None
            now_ns = self._clock.elapsed_ns()
            self._next_fork_ns = now_ns + (SNAPSHOT_SHARE - 1) * (now_ns - began_ns)
            self._forked.clear()
            self._snapshot_written.set()
            return_freed_memory()

    async def _keep(self) -> None:
        """Keep State as it is at the end of the log, so that a start need not fold all of it."""
        engine = self._present()
        payload = await self._change_state("a snapshot", lambda: payload_of(engine.state))
        await self._log.save_snapshot(
            engine.head.position, engine.head.digest, snapshot.VERSION, payload
        )
        self._kept = engine.head.position
        return_freed_memory()

    def _present(self) -> Engine:
        assert self.engine is not None
        return self.engine

    async def _resume(self) -> None:
        """Wait for the log to come back, and begin again from what it holds."""
        if self.batches == self._batches_before:
            # It came back and took nothing in: a full disk does that.
            await asyncio.sleep(RETRY_NS / SECOND_NS)
        await self._begin_again()
        if self._log_is_writable:
            logger.info("the log is back", position=self._present().head.position)

    async def _begin_again(self) -> None:
        """Fold State from what the log holds, as soon as it can be reached, and let the cluster show what happened
        since."""
        while not self._log_is_writable:
            if self._stop:
                return
            self.health.beat()
            try:
                head = await self._log.reopen()
                self._log_error = None
                await self._start(head)
                self._log_is_writable = True
            except LogUnavailableError as error:
                self.health.set(OUT_OF_REACH, str(error))
                await asyncio.sleep(RETRY_NS / SECOND_NS)
        self._batches_before = self.batches
        self._inbox, self._inbox_bytes = [], 0
        self._showing += 1
        self._room.set()
        self.is_synced = False
        self.health.clear(OUT_OF_REACH)
        self._cluster.resume_from(self._present().state.progress)

    async def _finish(self) -> None:
        """Wait for what is under way, within bounds, and record what came of it."""
        try:
            await self._ahead.until_durable()
        except LogUnavailableError as error:
            self._log_is_writable = False
            logger.warning("the log cannot be written", error=str(error))
        if self._running.cycles_max is not None:
            return
        leave_by = self._leave_by
        if leave_by is None:
            leave_by = asyncio.get_running_loop().time() + self._running.grace_ns / SECOND_NS
        try:
            async with asyncio.timeout_at(leave_by):
                await self._effects.all_answered()
        except TimeoutError:
            logger.warning("left with requests under way", count=self._effects.in_flight)
        answers = self._effects.take()
        if answers and self.engine is not None and self._log_is_writable:
            await self._append(*_some(self.engine.report(answers, self._clock.now_ns())))
        if self._fork is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(leave_by):
                    await self._snapshot_written.wait()
        if self._running.snapshot_every and self.engine is not None and self._log_is_writable:
            await self._keep()


def _some(batch: Batch | None) -> list[Batch]:
    return [] if batch is None else [batch]
