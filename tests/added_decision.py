"""Run `muster` with one more kind of decision: `python -m tests.added_decision COMMAND...`.

Pods with the label `idle: "yes"` that have a node are evicted at the beginning of the next cycle.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from events import union
from events.decision import Decision, Eviction
from events.decisions.eviction import EvictionDecided

if TYPE_CHECKING:
    from scheduling.session import Session


class IdleEvictionDecided(EvictionDecided, frozen=True, kw_only=True):
    """Pods of one group are evicted because they are idle."""

    kind = "idle_eviction_decided.v1"
    word = "evict_idle"

    idle_seconds: int

    def lines(self) -> list[str]:
        """Return the lines of `tell`."""
        first, *more = super().lines()
        return [f"{first}, idle for {self.idle_seconds} s", *more]


def _register() -> None:
    """Add the kind to the table, before anything that follows from it is imported, and an action that decides it."""
    for name in ("DECISIONS", "EVENTS"):
        setattr(union, name, (*getattr(union, name), IdleEvictionDecided))
    from scheduling.session_decider import ACTIONS

    enqueue = ACTIONS["enqueue"]

    def evict_idle(session: "Session") -> Iterator[Decision]:
        for pod in list(session.cluster.pods.values()):
            if ("idle", "yes") in pod.facts.labels and pod.facts.node and not pod.evicted:
                group = session.cluster.groups[pod.group_key]
                yield IdleEvictionDecided(
                    pod_group=group.key,
                    queue=group.queue,
                    evictions=(Eviction(pod=pod.key, uid=pod.facts.uid, node=pod.node),),
                    action="enqueue",
                    code="Idle",
                    message="it does nothing",
                    idle_seconds=5,
                )
        yield from enqueue(session)

    ACTIONS["enqueue"] = evict_idle


if __name__ == "__main__":
    _register()
    from daemon.cli.app import main

    main()
