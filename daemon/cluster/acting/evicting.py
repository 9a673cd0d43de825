"""Evict a pod (K9): through its disruption budgets, by UID, and within a rate limit of muster's own.

Success means that the pod has begun to terminate (K9.6), so it is also success if the pod is gone, was created again,
or is terminating already. After a lost answer a refusal counts only after the pod was read. Pods that must never be
evicted (K9.7) are excluded before.
"""

from collections import deque
from typing import Final

import msgspec

from daemon.cluster.acting.binding import POD
from daemon.cluster.acting.error_classification import is_gone, is_overload, may_be_done, refusal_of
from daemon.cluster.acting.request_budget import RequestBudget
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import DELETE_POD, EVICT_POD, GET_POD
from daemon.cluster.client.errors import BudgetError, NotFoundError, ServerError
from events.errors import ClusterError
from events.messages import Accepted, EvictRequest, OutcomeUnknown, Rejected, Reply

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
    """Delete a pod at once, without its grace period and disruption budgets (K9.5): its node may be lost.

    The UID makes the request safe to repeat.
    """
    document = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": request.uid},
    }
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


class EvictionBudget:
    """A limit of evictions per minute, in the cluster and of one workload.

    A pod counts once, however often its eviction is tried. Time is given, in whole nanoseconds.
    """

    def __init__(self, cluster_per_minute: int, workload_per_minute: int) -> None:
        self._cluster_most = cluster_per_minute
        self._workload_most = workload_per_minute
        self._taken: deque[tuple[int, str, str]] = deque()
        """Time, workload and pod of each eviction of the last minute, so never more than the limit."""

    def take(self, uid: str, workload: str, now_ns: int) -> Rejected | None:
        """Count an eviction; returns the refusal if a limit is reached."""
        while self._taken and self._taken[0][0] <= now_ns - MINUTE_NS:
            self._taken.popleft()
        if any(taken == uid for _, _, taken in self._taken):
            return None
        if len(self._taken) >= self._cluster_most:
            return _over(f"{self._cluster_most} evictions a minute in the cluster")
        of_workload = sum(other == workload for _, other, _ in self._taken)
        if workload and of_workload >= self._workload_most:
            return _over(f"{self._workload_most} evictions a minute of {workload}")
        self._taken.append((now_ns, workload, uid))
        return None

    def give_back(self, uid: str) -> None:
        """Do not count a refused eviction."""
        self._taken = deque(one for one in self._taken if one[2] != uid)


def _over(limit: str) -> Rejected:
    return Rejected(code="EvictionBudget", message=f"the limit of {limit} is reached")
