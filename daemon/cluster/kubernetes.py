"""A Kubernetes cluster as the loop knows one: what it shows, and what can be asked of it.

Put together here are the watches, the actor that binds, evicts and tells, and the recorder of Events. `run`
keeps them going beside the loop; how they are doing is told to `Health` once a second.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from daemon.cluster.acting.actor import Actor
from daemon.cluster.acting.errand import Pacing
from daemon.cluster.acting.evicting import EvictionBudget
from daemon.cluster.acting.recorder import Recorder
from daemon.cluster.client.calls import REQUIRED
from daemon.cluster.client.http_client import Client
from daemon.cluster.watching.health import WatchHealth
from daemon.cluster.watching.watches import Watches
from daemon.health import Health
from events.record import Record
from events.sighting import EvictRequest, Reply, Request, Sighting
from projections.cluster import Cluster

TOLD_EVERY_SECONDS: Final = 1.0
"""How often it is told how the watches are."""

STALE_SECONDS: Final = 700.0
"""A watch that is open and shows neither event nor bookmark for longer is stale: it should have been
reopened long before (rule K3.12)."""

_REQUIRED_NAMES: Final = frozenset(one.name for one in REQUIRED)


class Manner(Struct, frozen=True):
    """How muster behaves towards an API server."""

    streams_lists: bool = False
    """Whether lists are streamed where the server can (rule K3.13)."""
    writes_events: bool = True
    evictions_per_minute: int = 120
    """In the whole cluster (rule K9.8)."""
    evictions_per_workload: int = 30
    """A minute, of the pods of one owner."""


class KubernetesCluster:
    """The shore to one API server. `identity` is who writes Events; times are those of the clock given."""

    def __init__(
        self,
        client: Client,
        manner: Manner,
        identity: str,
        *,
        jitter: Callable[[], float],
        now_ns: Callable[[], int],
        elapsed_ns: Callable[[], int],
    ) -> None:
        self.server = client.server
        pacing = Pacing(jitter=jitter, elapsed_seconds=lambda: elapsed_ns() / 1_000_000_000)
        self._watches = Watches(client, jitter, streams_lists=manner.streams_lists)
        budget = EvictionBudget(manner.evictions_per_minute, manner.evictions_per_workload)
        self._actor = Actor(client, pacing, now_ns, budget, self._workload_of)
        self._writes_events = manner.writes_events
        self.recorder = Recorder(client, pacing, now_ns, identity)
        self._owner_of: Callable[[str], str] = lambda _: ""

    def show_since(self, progress: Mapping[str, str]) -> None:
        """Show what happened since these revisions where the server still knows; else all there is."""
        self._watches.show_since(progress)

    def sightings(self) -> AsyncIterator[list[Sighting]]:
        """What the watches show, in arrival order; a whole list in one piece."""
        return self._watches.sightings()

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out, and count the tries."""
        return await self._actor.attempt(request)

    def knows_owners(self, owner_of: Callable[[str], str]) -> None:
        """How to find the owner's UID of a pod's: evictions are counted by it."""
        self._owner_of = owner_of

    def note(self, records: Iterable[Record], cluster: Cluster) -> None:
        """Write Events of durable records, when there is time."""
        if self._writes_events:
            self.recorder.observe(records, cluster)

    def watch_health(self) -> list[WatchHealth]:
        """How the watch of each kind stands."""
        return self._watches.health()

    async def run(self, health: Health) -> None:
        """Keep watching, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watches.run(), name="watches")
                tasks.create_task(self.recorder.run(), name="events")
                while True:
                    tell(health, self._watches.health(), self.server)
                    await asyncio.sleep(TOLD_EVERY_SECONDS)
        finally:
            forget(health)

    def _workload_of(self, request: EvictRequest) -> str:
        return self._owner_of(request.uid)


def tell(health: Health, watches: Iterable[WatchHealth], server: str) -> None:
    """What follows from the watches for readiness, and for whether the daemon is alive."""
    unlisted: list[str] = []
    away = ""
    for one in watches:
        key = f"watch/{one.resource}"
        is_needed = one.resource in _REQUIRED_NAMES or one.is_required
        if not one.is_listed and is_needed:
            unlisted.append(one.resource)
        if one.state == "forbidden":
            health.set(key, one.reason)
        elif one.state == "waiting" and is_needed:
            health.set(key, one.reason or "it is tried again")
            away = one.reason
        else:
            health.clear(key)
        _beat(health, one)
    if unlisted:
        why = f" ({server}: {away})" if away else ""
        health.set("lists", ", ".join(unlisted) + why)
    else:
        health.clear("lists")


def _beat(health: Health, one: WatchHealth) -> None:
    """A watch that tries, or waits to try, moves; one that is open must show something now and then."""
    key = f"watch {one.resource}"
    shown = one.last_event_seconds if one.last_event_seconds is not None else one.state_seconds
    if one.state != "watching" or min(shown, one.state_seconds) < STALE_SECONDS:
        health.beat(key)
    # Else nothing: what does not beat stands still after a minute.


def forget(health: Health) -> None:
    """Nothing is watched any more: a standby has no watches."""
    for key in list(health.reasons):
        if key.partition("/")[0] in ("watch", "lists", "api"):
            health.clear(key)
    for key in list(health.still):
        if key.startswith("watch "):
            health.rest(key)
