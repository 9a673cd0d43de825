"""A Kubernetes cluster as the loop knows one: what it shows, and what can be asked of it.

Put together here are the watches, the actor that binds, evicts and tells, and the recorder of Events. `run`
keeps them going beside the loop, and `Health` asks how the watches are.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

from msgspec import Struct

from daemon.cluster.acting.actor import Actor
from daemon.cluster.acting.evicting import EvictionBudget
from daemon.cluster.acting.k8s_events import Regarding, log_anchored
from daemon.cluster.acting.recorder import Recorder
from daemon.cluster.acting.request_budget import Pacing
from daemon.cluster.client.http_client import Client
from daemon.cluster.watching.audit import FULL_LIST_SECONDS
from daemon.cluster.watching.health import WatchHealth
from daemon.cluster.watching.watches import Watches
from daemon.health import Health
from daemon.watch_health import WatchHealthCheck
from engine.batch import Batch
from events.messages import Reply, Request, ResumePoint, WatchMessage
from events.record import Head
from projections.cluster import Cluster


class ClusterOptions(Struct, frozen=True):
    """How muster behaves towards an API server."""

    streams_lists: bool = False
    """Whether lists are streamed where the server can (rule K3.13)."""
    full_list_seconds: float = FULL_LIST_SECONDS
    """Between two full lists of a kind beside its watch; 0 for none."""
    writes_events: bool = True
    evictions_per_minute: int = 120
    """In the whole cluster."""
    evictions_per_workload: int = 30
    """A minute, of the pods of one owner."""


class KubernetesCluster:
    """The adapter to one API server. `identity` is the reporting instance of Events; times come from the given clock."""

    def __init__(
        self,
        client: Client,
        manner: ClusterOptions,
        identity: str,
        *,
        jitter: Callable[[], float],
        now_ns: Callable[[], int],
        elapsed_ns: Callable[[], int],
    ) -> None:
        self.server = client.server
        self._elapsed_ns = elapsed_ns
        pacing = Pacing(
            jitter=jitter,
            elapsed_seconds=lambda: elapsed_ns() / 1_000_000_000,
            sleep=client.pause,
        )
        self._watches = Watches(
            client,
            jitter,
            streams_lists=manner.streams_lists,
            full_list_seconds=manner.full_list_seconds,
            now_ns=now_ns,
        )
        budget = EvictionBudget(manner.evictions_per_minute, manner.evictions_per_workload)
        self._actor = Actor(client, pacing, now_ns, budget)
        self._namespace = client.namespace
        self._writes_events = manner.writes_events
        self.recorder = Recorder(client, pacing, now_ns, identity)

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Show what happened since these revisions where the server still knows; else all there is."""
        self._watches.resume_from(progress)

    def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """What the watches show, in arrival order; a whole list in one piece."""
        return self._watches.messages()

    def attempt(self, request: Request) -> Coroutine[None, None, tuple[Reply, int]]:
        """Carry a request out, and count the tries."""
        return self._actor.attempt(request)

    def note(self, batch: Batch, cluster: Cluster) -> None:
        """Write Events of a durable batch, when there is time."""
        if self._writes_events:
            self.recorder.observe(batch, cluster)

    def note_anchor(self, head: Head, lease: str) -> None:
        """Write an Event of the head of the log about a Lease in muster's own namespace, when there is time."""
        if self._writes_events:
            regarding = Regarding("Lease", lease, "", self._namespace, "coordination.k8s.io/v1")
            self.recorder.note([log_anchored(head.position, head.digest, regarding)])

    def doubt(self, reason: str) -> None:
        """Something suggests that the API server was set back: look into it."""
        self._watches.doubt(reason)

    def watch_health(self) -> list[WatchHealth]:
        """How the watch of each kind stands."""
        return self._watches.health()

    async def run(self, health: Health) -> None:
        """Keep watching, until cancelled."""
        watch_check = WatchHealthCheck(
            self._watches.health, self._elapsed_ns, lambda: health.stands("log"), self.server
        )
        with health.asking(watch_check):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watches.run(), name="watches")
                tasks.create_task(self.recorder.run(), name="events")
