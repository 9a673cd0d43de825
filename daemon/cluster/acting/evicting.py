"""Evict a pod (K9): through its disruption budgets, by UID, and within a rate limit of muster's own.

Success means that the pod has begun to terminate (K9.6), so it is also success if the pod is gone, was created again,
or is terminating already. After a lost answer a refusal counts only after the pod was read. Pods that must never be
evicted (K9.7) are excluded before.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.acting.binding import POD
from daemon.cluster.acting.error_classification import is_gone, is_overload, may_be_done, refusal_of
from daemon.cluster.acting.request_budget import RequestBudget
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import DELETE_POD, EVICT_POD, GET_POD
from daemon.cluster.client.errors import BudgetError, NotFoundError, ServerError
from events.errors import ClusterError
from events.messages import Accepted, EvictRequest, OutcomeUnknown, Rejected, Reply
from projections.eviction_pauses import EVICTION_SHARE
from projections.tenants import tenant_text

MINUTE_NS: Final = 60_000_000_000

TOO_MANY: Final = "more than one PodDisruptionBudget"
"""In the message of a 500. The server gives it neither a reason nor a cause, so the text must do."""


async def evict(budget: RequestBudget, request: EvictRequest) -> Reply:
    """Evict a pod."""
    body = eviction_of(request)
    in_doubt = request.is_in_doubt
    while True:
        try:
            await budget.request(EVICT_POD, body=body)
        except ClusterError as error:
            failure = error
        else:
            return Accepted()
        final = _final(failure)
        if final is not None and (not in_doubt or isinstance(final, Accepted)):
            return final
        in_doubt = in_doubt or may_be_done(failure)
        refused = refusal_of(failure)
        is_conflict = refused is not None and refused.code == "Conflict"
        if is_conflict or (in_doubt and not is_overload(failure)):
            found = await _read_back(budget, request)
            if found is not None:
                return found
        if final is not None:
            return final
        if refused is not None and not is_conflict:
            return refused
        if not await budget.pause(failure):
            return refused or OutcomeUnknown(message=str(failure))


async def delete(budget: RequestBudget, request: EvictRequest) -> Reply:
    """Delete a pod without its disruption budgets: one that is forced also without its grace period (K9.5), because its
    node may be lost.

    The UID makes the request safe to repeat.
    """
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": request.uid},
    }
    grace_seconds = 0 if request.is_forced else request.grace_seconds
    if grace_seconds is not None:
        document["gracePeriodSeconds"] = grace_seconds
    body = msgspec.json.encode(document)
    while True:
        try:
            await budget.request(DELETE_POD, body=body)
        except ClusterError as error:
            failure = error
        else:
            return Accepted()
        if is_gone(failure):
            return Accepted()
        refused = refusal_of(failure)
        if refused is not None:
            # Another UID: the pod is gone, and another one has its name.
            return Accepted() if refused.code == "Conflict" else refused
        if not await budget.pause(failure):
            return OutcomeUnknown(message=str(failure))


def eviction_of(request: EvictRequest) -> bytes:
    """The Eviction object of a request."""
    options: dict[str, object] = {"preconditions": {"uid": request.uid}}
    if request.grace_seconds is not None:
        options["gracePeriodSeconds"] = request.grace_seconds
    document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": request.name, "namespace": request.namespace},
        "deleteOptions": options,
    }
    return msgspec.json.encode(document)


def _final(failure: ClusterError) -> Reply | None:
    """Outcomes that need neither a look at the pod nor another try (K9.2)."""
    match failure:
        case NotFoundError() if is_gone(failure):
            return Accepted()
        case BudgetError():
            return Rejected(code="DisruptionBudget", message=_budget_text(failure))
        case ServerError(message=message) if TOO_MANY.lower() in message.lower():
            return Rejected(code="TooManyBudgets", message=message)
        case _:
            return None


def _budget_text(failure: BudgetError) -> str:
    """The causes name the budget and what it lacks; the message does not."""
    causes = [one.message for one in failure.causes if one.message]
    seconds = failure.retry_after_seconds
    again = "" if seconds is None else f" (try again after {seconds:g} s)"
    return f"{'; '.join(causes) or failure.message}{again}"


async def _read_back(budget: RequestBudget, request: EvictRequest) -> Reply | None:
    """Return the outcome that the pod shows; None while it runs."""
    while True:
        try:
            pod = decoded(GET_POD.what, await budget.request(GET_POD), POD)
        except ClusterError as error:
            failure = error
        else:
            is_over = pod.metadata.uid != request.uid or pod.metadata.deletionTimestamp
            return Accepted() if is_over else None
        if is_gone(failure):
            return Accepted()
        if refusal_of(failure) is not None or not await budget.pause(failure):
            return OutcomeUnknown(message=f"the pod cannot be read back: {failure}")


class _Taken(Struct, frozen=True):
    """An eviction of the last minute."""

    at_ns: int
    uid: str
    workload: str
    tenant: str
    queue: str


class EvictionBudget:
    """A limit of evictions per minute: in the cluster, of one workload, and for one tenant and queue.

    Evictions are counted for the tenant and the queue of the pod group that gets the room. What others do not use is
    borrowed: while other tenants have pod groups, a tenant gets at most three quarters of what the others have left of
    the cluster's limit, so that there is some for one that has used nothing. Once another one was refused, each gets at most
    an even part, for a minute. The same holds for the queues of a tenant, of what the tenant gets.

    A pod counts once, however often its eviction is tried. Pods without an owner count as one workload of their
    namespace. Time is given, in whole nanoseconds.
    """

    def __init__(self, cluster_per_minute: int, workload_per_minute: int) -> None:
        self._cluster_most = cluster_per_minute
        self._workload_most = workload_per_minute
        self._taken: deque[_Taken] = deque()
        """The evictions of the last minute, so never more than the limit."""
        self._refused: dict[tuple[str, str], int] = {}
        """Tenant and queue of the evictions that were refused in the last minute for their share, and when the last was."""

    def take(self, request: EvictRequest, now_ns: int) -> Rejected | None:
        """Count an eviction; returns the refusal if a limit is reached."""
        while self._taken and self._taken[0].at_ns <= now_ns - MINUTE_NS:
            self._taken.popleft()
        if any(one.uid == request.uid for one in self._taken):
            return None
        workload = request.workload or f"pods without an owner in namespace {request.namespace}"
        if sum(one.workload == workload for one in self._taken) >= self._workload_most:
            text = f"the limit of {self._workload_most} evictions a minute of {workload} is reached"
            return Rejected(code="EvictionBudget", message=text)
        if text := self._over_share(request, now_ns):
            return Rejected(code=EVICTION_SHARE, message=text)
        one = _Taken(now_ns, request.uid, workload, request.tenant, request.queue)
        self._taken.append(one)
        return None

    def _over_share(self, request: EvictRequest, now_ns: int) -> str:
        """Return which limit of the tenant or its queue is reached; empty if none is."""
        most, tenant, queue = self._cluster_most, request.tenant, request.queue
        self._refused = {
            one: at_ns for one, at_ns in self._refused.items() if at_ns > now_ns - MINUTE_NS
        }
        used = Counter((one.tenant, one.queue) for one in self._taken)
        over = f"the limit of {most} evictions a minute in the cluster is reached"
        is_over = used.total() >= most
        if not is_over:
            tenants: Counter[str] = Counter()
            for (name, _), count in used.items():
                tenants[name] += count
            refused = [name for name, _ in self._refused]
            most = _share(most, tenant, tenants, refused, has_others=request.has_other_tenants)
            is_over = tenants[tenant] >= most
            over = f"the share of {tenant_text(tenant)}, {most} evictions a minute, is used up"
        if not is_over:
            queues = Counter({name: count for (of, name), count in used.items() if of == tenant})
            refused = [name for of, name in self._refused if of == tenant]
            most = _share(most, queue, queues, refused, has_others=request.has_other_queues)
            is_over = queues[queue] >= most
            over = f"the share of {tenant_text(tenant)} in queue {queue}, {most} evictions a minute, is used up"
        if not is_over:
            return ""
        self._refused[tenant, queue] = now_ns
        return over

    def give_back(self, uid: str) -> None:
        """Do not count a refused eviction."""
        self._taken = deque(one for one in self._taken if one.uid != uid)


def _share(
    most: int, name: str, used: Counter[str], refused: Iterable[str], *, has_others: bool
) -> int:
    """Return how much of a limit one may use of those who share it; `used` is what each has used, `refused` names those
    who got less than they asked for."""
    left = most - (used.total() - used[name])
    if not has_others:
        return left
    others = [one for one in refused if one != name]
    even = max(1, most // len(dict.fromkeys((*used, *others, name)))) if others else most
    return min(even, -(-3 * left // 4))
