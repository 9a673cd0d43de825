"""Effects: what was decided is asked of the cluster, and what came of it is answered.

At most `limit` bindings, evictions and phases are under way at a time, in the order of their decisions, tenants in turn;
status updates have a narrower limit of their own, so that they never delay a binding. A status update that was not begun
is dropped once it is no longer due, and one that took long is not repeated for a while.
Requests that write the same fields of an object are carried out one after the other, and one that was not begun is
replaced by a newer one: an older status never overwrites a newer one.
The actor answers each request within a bound of its own. One without an answer by then is answered `OutcomeUnknown`, and asked again
later: each request can be repeated without harm, as it names its object by UID.
"""

import asyncio
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

from events.errors import ClusterError
from events.messages import (
    AnnotateRequest,
    Answer,
    BindRequest,
    ConfigMapRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Reply,
    Request,
)

IN_FLIGHT_MAX: Final = 32
"""Requests under way at a time, where the settings do not say."""

TELLING_MAX: Final = 4
"""Of those that only tell, so many."""

PLACING: Final = (AnnotateRequest, BindRequest)
"""Requests by which a pod gets its node."""

TELLING: Final = (
    *(PodConditionRequest, PodGroupConditionRequest),
    *(PodGroupCountsRequest, QueueStatusRequest, ConfigMapRequest),
)
"""Requests that only tell people and controllers what is known already."""


class Actor(Protocol):
    """The part of a cluster that acts."""

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out, and how many tries that took. It returns within a bound, however long the cluster is silent."""


class Stopwatch(Protocol):
    """Time that only goes forward."""

    def elapsed_ns(self) -> int:
        """Nanoseconds from an arbitrary beginning."""


RESTING: Final = (*TELLING, PodGroupPhaseRequest)
"""Requests that are not repeated at once where they took long or failed: large objects cost the server seconds each time."""

SLOW_NS: Final = 1_000_000_000
"""Time of an update from which on its object is left alone for a while."""

REST_FACTOR: Final = 20
"""An update that took long is repeated after so many times as long: at most one part in so many of a worker."""

REST_MAX_NS: Final = 600_000_000_000
"""The longest rest."""

RESTS_MAX: Final = 10_000
"""Objects that rest; beyond, those that began first are forgotten."""

Key = tuple[str, str]

TenantOf: TypeAlias = Callable[[str], str]
"""Returns the tenant of a namespace."""


class _Lane:
    """Requests that wait for each other. Tenants take turns, and if there are several, each has at most three quarters of the
    requests under way."""

    def __init__(self, limit: int, tenant_of: TenantOf | None) -> None:
        self.limit = limit
        self._tenant_of = tenant_of
        self._of_tenant_max = limit - limit // 4
        self._only: str | None = None
        """The tenant of all requests so far; None before the first one."""
        self._has_several = False
        """Whether more than one tenant has asked for anything."""
        self._waiting: dict[str, dict[Key, tuple[int, Request]]] = {}
        """Tenant to its requests that were not begun, with their sequence numbers; the tenant whose turn it is first."""
        self._tenants: dict[Key, str] = {}
        """Request that was not begun to its tenant."""
        self._begun: dict[str, int] = {}
        """Tenant to its number of requests under way."""
        self.ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tenants)

    def __contains__(self, key: Key) -> bool:
        return key in self._tenants

    def put(self, key: Key, sequence: int, request: Request) -> None:
        """Add a request, last of its tenant; or replace one that was not begun, in its place."""
        tenant = self._tenants.get(key)
        if tenant is not None:
            sequence, _ = self._waiting[tenant][key]
        else:
            tenant = self._tenants[key] = self._tenant(request)
            self._only = self._only or tenant
            self._has_several = self._has_several or tenant != self._only
        self._waiting.setdefault(tenant, {})[key] = sequence, request
        if not self.ready.is_set():
            self.ready.set()

    def pop(self, key: Key) -> bool:
        """Remove a request that was not begun; return whether there was one."""
        tenant = self._tenants.pop(key, None)
        if tenant is None:
            return False
        del self._waiting[tenant][key]
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        return True

    def reorder(self, keys: Iterable[Key]) -> list[Key]:
        """Put requests into the order given; remove the others, and return them."""
        wanted = [key for key in dict.fromkeys(keys) if key in self._tenants]
        kept = {key: self._waiting[self._tenants[key]][key] for key in wanted}
        dropped = [key for key in self._tenants if key not in kept]
        self._waiting, tenants, self._tenants = {}, self._tenants, {}
        for key, one in kept.items():
            self._tenants[key] = tenants[key]
            self._waiting.setdefault(tenants[key], {})[key] = one
        return dropped

    async def next(self) -> tuple[str, Key, int, Request]:
        """Wait for the next request, and begin it; return its tenant, key and sequence number, too."""
        while (tenant := self._next_tenant()) is None:
            self.ready.clear()
            await self.ready.wait()
        waiting = self._waiting.pop(tenant)
        key = next(iter(waiting))
        sequence, request = waiting.pop(key)
        del self._tenants[key]
        if waiting:
            self._waiting[tenant] = waiting
        self._begun[tenant] = self._begun.get(tenant, 0) + 1
        return tenant, key, sequence, request

    def end(self, tenant: str) -> None:
        """A request of a tenant that was begun has ended."""
        left = self._begun.get(tenant, 1) - 1
        if left:
            self._begun[tenant] = left
        else:
            self._begun.pop(tenant, None)
        if self._has_several:  # Others may have waited for the share of this one.
            self.ready.set()

    def _next_tenant(self) -> str | None:
        for tenant in self._waiting:
            if not self._has_several or self._begun.get(tenant, 0) < self._of_tenant_max:
                return tenant
        return None

    def _tenant(self, request: Request) -> str:
        if self._tenant_of is None or isinstance(request, QueueStatusRequest):
            return ""
        return self._tenant_of(request.namespace)


class Effects:
    """Requests under way, and answers not yet recorded."""

    def __init__(
        self,
        actor: Actor,
        stopwatch: Stopwatch,
        woken: asyncio.Event,
        limit: int = IN_FLIGHT_MAX,
        *,
        tenant_of: TenantOf | None = None,
        is_moot: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        """With `tenant_of` tenants take turns, and objects whose updates take long are left alone for a while; without it,
        as in stepped time, requests are begun in the order in which they were asked.
        `is_moot` returns True for a status update whose object has gone or changed so that it tells nothing."""
        self._actor = actor
        self._stopwatch = stopwatch
        self._woken = woken
        self._is_moot = is_moot
        self._doing = _Lane(limit, tenant_of)
        self._telling = _Lane(min(limit, TELLING_MAX), tenant_of)
        self._idle = asyncio.Event()
        self._idle.set()
        self._count = 0
        self._open: dict[Key, None] = {}
        """What was asked for and whose answer was not taken."""
        self.placing: dict[str, int] = {}
        """UID of a pod that is being annotated or bound, or whose answer was not taken, to the decision."""
        self._answers: list[tuple[int, Key, Answer]] = []
        self._lets_rest = tenant_of is not None
        self._rests: dict[Key, tuple[int, int]] = {}
        """Update to the time before which it is not repeated, and for how many nanoseconds it rests."""
        self.dropped = 0
        """Status updates that were not begun, because they were no longer due."""
        self.put_off = 0
        """Status updates that were asked for while their object rested."""

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return len(self._open) - len(self._answers)

    @property
    def queued_status_updates(self) -> int:
        """Status updates that were asked for and not begun."""
        return len(self._telling)

    @property
    def resting(self) -> int:
        """Objects whose status is not written for a while, because that took long or failed."""
        return len(self._rests)

    def ask(self, requests: Iterable[Request], *, are_all: bool = False) -> None:
        """Ask what is not being asked already, and has no answer that is still to be recorded.

        With `are_all` these are all status updates that are due: those that were not begun and are not among them are
        dropped, and the others are begun in the order given.
        """
        telling: list[Key] = []
        for request in requests:
            key = _key(request)
            is_telling = isinstance(request, TELLING)
            if is_telling:
                telling.append(key)
            elif isinstance(request, PLACING):
                self.placing[request.uid] = request.decision
            if self._rests and isinstance(request, RESTING) and self._is_resting(key):
                self.put_off += key not in self._open
                continue
            lane = self._telling if is_telling else self._doing
            if key in self._open and key in lane:
                lane.put(key, 0, request)
            elif key not in self._open or self._telling.pop(key):
                self._open[key] = None
                self._count += 1
                self._idle.clear()
                lane.put(key, self._count, request)
        if are_all and len(self._telling):
            for key in self._telling.reorder(telling):
                self._drop(key)

    def take(self) -> list[Answer]:
        """The answers that have come, in the order of the requests."""
        taken, self._answers = sorted(self._answers, key=itemgetter(0)), []
        for _, key, answer in taken:
            del self._open[key]
            self.placing.pop(answer.request.uid, None)
        return [answer for _, _, answer in taken]

    async def all_answered(self) -> None:
        """Return when nothing is under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Carry requests out, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for lane in (self._doing, self._telling):
                for index in range(lane.limit):
                    workers.create_task(self._work(lane), name=f"effect-{index}")

    async def _work(self, lane: _Lane) -> None:
        while True:
            tenant, key, sequence, request = await lane.next()
            if lane is self._telling and self._is_moot(request):
                lane.end(tenant)
                self._drop(key)
                continue
            began = self._stopwatch.elapsed_ns()
            try:
                reply, attempts = await self._actor.attempt(request)
            except ClusterError as error:
                reply, attempts = OutcomeUnknown(message=str(error)), 1
            latency_ns = self._stopwatch.elapsed_ns() - began
            lane.end(tenant)
            if self._lets_rest and isinstance(request, RESTING):
                self._let_rest(key, latency_ns, is_lost=isinstance(reply, OutcomeUnknown))
            answer = Answer(request=request, reply=reply, attempts=attempts, latency_ns=latency_ns)
            self._answers.append((sequence, key, answer))
            self._woken.set()
            self._update_idle()

    def _drop(self, key: Key) -> None:
        """Forget a request that was not begun."""
        del self._open[key]
        self.dropped += 1
        self._update_idle()

    def _update_idle(self) -> None:
        if not self.in_flight:
            self._idle.set()

    def _is_resting(self, key: Key) -> bool:
        return self._rests.get(key, (0, 0))[0] > self._stopwatch.elapsed_ns()

    def _let_rest(self, key: Key, latency_ns: int, *, is_lost: bool) -> None:
        """Leave an object alone for a while if an update took long, or its answer was lost; longer each time."""
        _, before_ns = self._rests.pop(key, (0, 0))
        if latency_ns < SLOW_NS and not is_lost:
            return
        factor = 1 if is_lost else REST_FACTOR  # An answer may be lost for other reasons.
        rest_ns = min(REST_MAX_NS, max(factor * latency_ns, 2 * before_ns, SLOW_NS))
        self._rests[key] = self._stopwatch.elapsed_ns() + rest_ns, rest_ns
        if len(self._rests) > RESTS_MAX:
            del self._rests[next(iter(self._rests))]


def _key(request: Request) -> Key:
    """Return what a request writes: the update of a phase writes the counts too."""
    kind = PodGroupPhaseRequest if isinstance(request, PodGroupCountsRequest) else type(request)
    return kind.__name__, request.uid
