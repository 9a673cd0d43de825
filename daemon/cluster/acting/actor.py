"""The acting side of a cluster: one request of the loop, carried out, and what came of it."""

from collections.abc import Callable

from daemon.cluster.acting.binding import bind
from daemon.cluster.acting.errand import Errand, Pacing, Requester
from daemon.cluster.acting.evicting import EvictionBudget, evict
from daemon.cluster.acting.pod_groups import GroupTeller
from daemon.cluster.acting.telling import PodTeller, tell_queue
from events.errors import ClusterError
from events.messages import (
    BindRequest,
    ConditionRequest,
    EvictRequest,
    GroupConditionRequest,
    GroupCountsRequest,
    PhaseRequest,
    QueueStatusRequest,
    Refused,
    Reply,
    Request,
    Unknown,
)


class Actor:
    """Carries requests out. Each may be asked for again without harm; none raises for the server's sake."""

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
        self._pods = PodTeller(now_ns)
        self._groups = GroupTeller(now_ns)

    async def perform(self, request: Request) -> Reply:
        """Carry a request out."""
        return (await self.attempt(request))[0]

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out, and count the requests to the API server that it took."""
        errand = self._errand(request)
        try:
            return await self._carry_out(errand, request), errand.attempts
        except ClusterError as error:
            return Unknown(message=str(error)), errand.attempts

    async def preview(self, request: EvictRequest) -> Reply:
        """Whether a pod could be evicted now, without any effect (K9.4)."""
        try:
            return await evict(self._errand(request), request, is_preview=True)
        except ClusterError as error:
            return Unknown(message=str(error))

    async def _carry_out(self, errand: Errand, request: Request) -> Reply:
        match request:
            case BindRequest():
                return await bind(errand, request)
            case EvictRequest():
                return await self._evict(errand, request)
            case ConditionRequest():
                return await self._pods.tell(errand, request)
            case PhaseRequest():
                return await self._groups.tell_phase(errand, request)
            case GroupCountsRequest():
                return await self._groups.tell_counts(errand, request)
            case GroupConditionRequest():
                return await self._groups.tell_condition(errand, request)
            case QueueStatusRequest():
                return await tell_queue(errand, request)

    async def _evict(self, errand: Errand, request: EvictRequest) -> Reply:
        if self._budget is None:
            return await evict(errand, request)
        now_ns = int(self._pacing.elapsed_seconds() * 1_000_000_000)
        over = self._budget.take(request.uid, request.workload, now_ns)
        if over is not None:
            return over
        reply = await evict(errand, request)
        if isinstance(reply, Refused):
            self._budget.give_back(request.uid)
        return reply

    def _errand(self, request: Request) -> Errand:
        namespace = "" if isinstance(request, QueueStatusRequest) else request.namespace
        return Errand(self._client, self._pacing, request.name, namespace)
