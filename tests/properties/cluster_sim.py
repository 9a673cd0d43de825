"""A cluster with owners, in which pods run and evicted pods are replaced, scheduled by the core."""

from collections.abc import Callable

import msgspec

from engine.batch import Batch
from engine.engine import Engine
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import (
    Answer,
    BindRequest,
    EvictRequest,
    PodGroupPhaseRequest,
    Reply,
    WatchMessage,
)
from events.record import GENESIS
from features.table import FEATURES
from projections.pods import RUNNING
from projections.state import State
from tests.properties.api import Api
from tests.properties.overlooked import overlooked
from tests.properties.witness import Witness

SECOND = 1_000_000_000
ROUNDS_MAX = 80


class ClusterSim:
    """The cluster. The witness checks every decision. `evict` answers evictions."""

    def __init__(self, policy: bytes, evict: Callable[[EvictRequest], Reply] | None = None) -> None:
        self.api, self.witness, self.engine = Api(), Witness(), Engine(State(FEATURES), GENESIS)
        self.evict = evict or self.api.evict
        self.bind: Callable[[BindRequest], Reply] = self.api.bind
        self.arrange: Callable[[list[WatchMessage]], list[WatchMessage]] = list
        """In which order what there is to see is shown."""
        self.now_ns = 0
        started = DaemonStarted(
            holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
        )
        changed = PolicyChanged(source="test", policy=msgspec.Raw(policy))
        self.take(self.engine.start(started, changed, 1, 0))
        self.engine.begin_listing()
        self.take(self.engine.observe(self.api.listing(), 0))

    def take(self, batch: Batch | None) -> None:
        self.witness.take(batch)
        self.engine.state.validate()
        cluster = self.engine.state.cluster
        for there in cluster.budgets.all.values():
            for budget in there.values():
                pods = [cluster.pods[uid] for uid in budget.pods]
                evicted = [one for one in pods if one.evicted]
                healthy = sum(one.status == RUNNING for one in pods)
                total, least = len(pods), budget.facts.at_least
                must = least if isinstance(least, int) else -(-total // 2)
                assert not evicted or healthy >= must, f"{healthy} of {total} are left"

    def play(self) -> None:
        """Let all come to rest."""
        for _ in range(ROUNDS_MAX):
            before = len(self.witness.log)
            shown, self.api.unseen = self.api.unseen, []
            self.take(self.engine.observe(self.arrange(shown), self.now_ns))
            self.now_ns += SECOND
            self.take(self.engine.cycle(self.now_ns))
            for request in list(self.engine.requests()):
                reply: Reply
                if isinstance(request, BindRequest):
                    reply = self.bind(request)
                elif isinstance(request, EvictRequest):
                    reply = self.evict(request)
                else:
                    assert isinstance(request, PodGroupPhaseRequest)
                    reply = self.api.tell(request)
                self.take(self.engine.report([Answer(request, reply)], self.now_ns))
            self.api.run_on()
            if len(self.witness.log) == before and not self.api.unseen:
                deadline = self.engine.state.next_deadline_ns
                if deadline is None:
                    missed = overlooked(self.engine, self.now_ns)
                    assert not missed, f"no cycle decided it: {missed}"
                    return
                self.now_ns = max(self.now_ns, deadline - SECOND)
        said = [f"{one.position} {one.body.decode()}" for one, _ in self.witness.log]
        evicted = [one for one in said if "in_favour_of" in one]
        raise AssertionError(f"{len(evicted)} evictions do not end: {evicted[-8:]}")
