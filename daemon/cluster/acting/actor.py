"""Executes one request of the loop on the API server, and returns its outcome."""

from collections.abc import Callable

from daemon.cluster.acting.binding import annotate, bind, mark_pod
from daemon.cluster.acting.config_maps import write_config_map
from daemon.cluster.acting.evicting import EvictionBudget, delete, evict
from daemon.cluster.acting.pod_groups import GroupTeller
from daemon.cluster.acting.pod_status import PodStatusWriter, update_queue_status
from daemon.cluster.acting.request_budget import Pacing, RequestBudget, Requester
from events.errors import ClusterError
from events.messages import (
    AnnotateRequest,
    BindRequest,
    ConfigMapRequest,
    EvictRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    PodMarkRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
    Request,
)


class Actor:
    """Executes requests. Each may be repeated without harm; no answer of the server raises."""

    def __init__(
        self,
        client: Requester,
        pacing: Pacing,
        now_ns: Callable[[], int],
        budget: EvictionBudget | None = None,
    ) -> None:
        self._client = client
        self._pacing = pacing
        self._budget = budget
        self._pods = PodStatusWriter(now_ns)
        self._groups = GroupTeller(now_ns)

    async def perform(self, request: Request) -> Reply:
        """Execute a request."""
        return (await self.attempt(request))[0]

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Execute a request, and count the API requests that it took."""
        budget = self._request_budget(request)
        try:
            return await self._carry_out(budget, request), budget.attempts
        except ClusterError as error:
            return OutcomeUnknown(message=str(error)), budget.attempts

    async def _carry_out(self, budget: RequestBudget, request: Request) -> Reply:
        match request:
            case AnnotateRequest():
                return await annotate(budget, request)
            case BindRequest():
                return await bind(budget, request)
            case EvictRequest():
                return await self._evict(budget, request)
            case PodMarkRequest():
                return await mark_pod(budget, request)
            case PodConditionRequest():
                return await self._pods.write(budget, request)
            case PodGroupPhaseRequest():
                return await self._groups.update_phase(budget, request)
            case PodGroupCountsRequest():
                return await self._groups.update_counts(budget, request)
            case PodGroupConditionRequest():
                return await self._groups.update_condition(budget, request)
            case QueueStatusRequest():
                return await update_queue_status(budget, request)
            case ConfigMapRequest():
                return await write_config_map(budget, request)

    async def _evict(self, budget: RequestBudget, request: EvictRequest) -> Reply:
        if request.is_forced:
            return await delete(budget, request)
        carry_out = delete if request.is_without_budgets else evict
        if self._budget is None or not request.is_limited:
            return await carry_out(budget, request)
        now_ns = int(self._pacing.elapsed_seconds() * 1_000_000_000)
        over = self._budget.take(request, now_ns)
        if over is not None:
            return over
        reply = await carry_out(budget, request)
        if isinstance(reply, Rejected):
            self._budget.give_back(request.uid)
        return reply

    def _request_budget(self, request: Request) -> RequestBudget:
        namespace = "" if isinstance(request, QueueStatusRequest) else request.namespace
        return RequestBudget(self._client, self._pacing, request.name, namespace)
