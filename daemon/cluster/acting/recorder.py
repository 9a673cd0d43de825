"""Write Kubernetes Events (K11): best effort, on a bounded queue of their own, without delaying decisions.

Failures are counted only. The log is the record.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from daemon.cluster.acting.correlation import Correlator, Write
from daemon.cluster.acting.error_classification import is_gone, may_be_done, refusal_of
from daemon.cluster.acting.k8s_events import NOTICED, EventFactory, EventNotice
from daemon.cluster.acting.request_budget import (
    JSON,
    MERGE_PATCH,
    REQUEST_SECONDS,
    Pacing,
    Requester,
)
from daemon.cluster.client.calls import CREATE_EVENT, PATCH_EVENT
from daemon.cluster.client.errors import AlreadyExistsError, ApiError
from engine.batch import Batch
from events.errors import ClusterError
from projections.cluster import Cluster

QUEUE_MAX: Final = 10_000
"""Queued notices; beyond, the oldest are dropped."""

MANY: Final = 100
"""Queued notices of a tenant from which on the newest are written first."""

TRIES_MAX: Final = 12
"""Tries of one Event before it is dropped (K11.3)."""

PER_SECOND: Final = 50.0
AT_ONCE: Final = 100.0
"""Events per second, and the size of a burst."""

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 10.0

logger: Final = structlog.get_logger("muster")


class Recorder:
    """Writes Events one after the other while `run` runs."""

    def __init__(
        self, client: Requester, pacing: Pacing, now_ns: Callable[[], int], instance: str
    ) -> None:
        self._client = client
        self._pacing = pacing
        self._now_ns = now_ns
        self._noticer = EventFactory()
        self._correlator = Correlator(instance)
        self._queues: dict[str, deque[tuple[int, EventNotice]]] = {}
        """Tenant to its notices; the tenant whose turn it is first."""
        self.queued = 0
        """Notices that wait."""
        self._cluster: Cluster | None = None
        """As of the last records."""
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._due_seconds = 0.0
        self._is_failing = False
        self.written = 0
        """Requests that made an Event or lengthened a series."""
        self.dropped = 0
        """Notices dropped because too many waited, their object was gone, or the server refused them."""

    def observe(self, batch: Batch, cluster: Cluster) -> None:
        """Queue the notices of a durable batch. It never waits."""
        self._cluster = cluster
        for _, event in batch.events_of(NOTICED):
            if notices := self._noticer.notices(event, cluster):
                self.note(notices)

    def note(self, notices: Iterable[EventNotice]) -> None:
        """Queue notices with the present time. If too many wait, the oldest of the tenant with most of them is dropped."""
        at_ns = self._now_ns()
        for notice in notices:
            self._queues.setdefault(self._tenant(notice), deque()).append((at_ns, notice))
            self.queued += 1
            if self.queued > QUEUE_MAX:
                most = max(self._queues, key=lambda one: len(self._queues[one]))
                self._queues[most].popleft()
                self.queued -= 1
                self.dropped += 1
            self._idle.clear()
            self._ready.set()

    async def run(self) -> None:
        """Write what is queued, until cancelled."""
        while True:
            if not self.queued:
                self._idle.set()
                self._ready.clear()
                await self._ready.wait()
            found = self._next()
            if found is None:
                self.dropped += 1
                continue
            at_ns, notice = found
            write = self._correlator.write(notice, at_ns)
            if write is None:
                continue
            await self._wait_for_turn()
            if await self._written(write):
                self.written += 1
            else:
                self.dropped += 1

    def _next(self) -> tuple[int, EventNotice] | None:
        """Take the next notice of the tenant whose turn it is: the oldest, or, while many wait, the newest. None for one about
        a pod or pod group that has gone while many waited."""
        tenant = next(iter(self._queues))
        waiting = self._queues.pop(tenant)
        are_many = len(waiting) > MANY
        at_ns, notice = waiting.pop() if are_many else waiting.popleft()
        self.queued -= 1
        if waiting:
            self._queues[tenant] = waiting
        return None if are_many and self._is_gone(notice) else (at_ns, notice)

    def _tenant(self, notice: EventNotice) -> str:
        namespace = notice.regarding.namespace
        return namespace if self._cluster is None else self._cluster.tenants.tenant_of(namespace)

    def _is_gone(self, notice: EventNotice) -> bool:
        regarding, cluster = notice.regarding, self._cluster
        if cluster is None or not regarding.uid:
            return False
        if regarding.kind == "PodGroup":
            group = cluster.groups.get(f"{regarding.namespace}/{regarding.name}")
            return group is None or group.observed.uid != regarding.uid
        return regarding.kind == "Pod" and regarding.uid not in cluster.pods

    async def drained(self, seconds: float) -> bool:
        """Wait until the queue is empty, at most for a time; return whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _wait_for_turn(self) -> None:
        now = self._pacing.elapsed_seconds()
        self._due_seconds = max(self._due_seconds, now - AT_ONCE / PER_SECOND) + 1 / PER_SECOND
        if self._due_seconds > now:
            await self._pacing.sleep(self._due_seconds - now)

    async def _written(self, write: Write) -> bool:
        in_doubt = False
        for tries in range(1, TRIES_MAX + 1):
            try:
                await self._send(write)
            except ClusterError as error:
                failure = error
            else:
                self._is_failing = False
                return True
            if isinstance(failure, AlreadyExistsError) and in_doubt:
                return True  # An earlier try created it, and its answer was lost.
            if isinstance(failure, AlreadyExistsError) or (not write.is_new and is_gone(failure)):
                write, in_doubt = self._correlator.new_event(write.notice, self._now_ns()), False
                continue
            in_doubt = in_doubt or may_be_done(failure)
            if refusal_of(failure) is not None:
                break
            await self._pacing.sleep(_pause_seconds(tries, self._pacing.jitter(), failure))
        self._log_failure(write)
        return False

    async def _send(self, write: Write) -> None:
        await self._client.request(
            CREATE_EVENT if write.is_new else PATCH_EVENT,
            name="" if write.is_new else write.name,
            namespace=write.namespace,
            body=write.body,
            content_type=JSON if write.is_new else MERGE_PATCH,
            deadline_seconds=REQUEST_SECONDS,
        )

    def _log_failure(self, write: Write) -> None:
        """Log once that Events are being lost, until one is written again."""
        if not self._is_failing:
            self._is_failing = True
            reason, kind = write.notice.reason, write.notice.regarding.kind
            logger.warning("events are being dropped", reason=reason, regarding=kind)


def _pause_seconds(tries: int, jitter: float, error: ClusterError) -> float:
    asked = error.retry_after_seconds if isinstance(error, ApiError) else None
    bound = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1))
    return min(LONGEST_PAUSE_SECONDS, asked or 0.0) + jitter * bound
