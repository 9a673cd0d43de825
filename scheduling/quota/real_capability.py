"""Compute how much of a resource a queue can use beside the guarantees of others (Volcano's `capacity`).

    real capability = min(capability, max(room - guarantees of all, 0) + own guarantee)

The room is the allocatable resources of the cluster; in a tree of queues, the real capability of the parent. A
capability of cpu or memory that is not set is that of the parent, else unlimited; other resources are then
unlimited.

Guarantees that cannot be kept stop no other queue (in Volcano they do): a guarantee that alone exceeds the room counts
as none, and while the others together exceed it, nothing is kept free for any of them. Each such queue has an error of
its configuration.
"""

from bisect import bisect_right
from typing import Final

from events.amount_text import amount_text
from projections.charging import PLAIN
from projections.cluster import Cluster
from projections.queue_tree import GUARANTEE_ERROR, ROOT, siblings_of
from projections.queues import Queue

ENDLESS: Final = 1 << 62
"""The allocatable amount of a cluster to which any number of nodes may be added."""


def _stated(queue: Queue, name: str) -> int | None:
    """Return the capability that the queue itself states."""
    if queue.facts is None or name not in queue.facts.capability:
        return None
    stated = queue.facts.capability[name]
    return None if name in PLAIN and stated <= 0 else stated


class RealCapability:
    """What queues can use beside the guarantees of others, and which guarantees are kept."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, queue: Queue, name: str, *, total: int | None = None) -> int | None:
        """Return how much of a resource a queue can use beside the guarantees of others; None without a limit. `total` is the
        allocatable amount, if it is not that of the cluster as it is."""
        if total is None:
            total = self._cluster.resources.allocatable.get(name, 0)
        if self._cluster.plugins.quota.keeps_tree:
            return self._within(queue, name, total)
        assert queue.facts is not None
        stated = queue.facts.capability.get(name, 0)
        if stated <= 0 and name not in PLAIN:
            return None if name not in queue.facts.capability else 0
        room = self._beside_guarantees(queue, name, total)
        return room if stated <= 0 else min(stated, room)

    def kept_guarantee(self, queue: Queue, name: str) -> int:
        """Return how much of a resource is guaranteed to a queue: what its object states, or nothing if that alone exceeds the
        room."""
        stated = 0 if queue.facts is None else queue.facts.guarantee.get(name, 0)
        if not stated or not self._cluster.plugins.quota.checks_guarantees:
            return stated
        room = self._room(queue, name, self._cluster.resources.allocatable.get(name, 0))
        return stated if room is None or stated <= room else 0

    def unkept_guarantees(self) -> dict[str, tuple[str, ...]]:
        """Return the queues whose guarantees cannot be kept, by name, and why."""
        cluster = self._cluster
        if not cluster.queue_tree.has_guarantee_errors:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for name in sorted(cluster.queues):
            errors = cluster.config_errors.current.get(f"Queue//{name}", ())
            if texts := tuple([text for code, text in errors if code == GUARANTEE_ERROR]):
                found[name] = texts
        return found

    def are_guarantees_due(self) -> bool:
        """Return whether the next cycle has to determine again which guarantees can be kept: the resources of the cluster have
        changed since the last one."""
        cluster = self._cluster
        return (
            bool(cluster.queue_tree.guaranteed)
            and cluster.plugins.quota.checks_guarantees
            and cluster.cluster_totals.totals != cluster.resources.allocatable
        )

    def update_guarantee_errors(self) -> None:
        """Set the configuration errors of queues whose guarantees cannot be kept. They change with the queues and with the
        resources of the cluster only."""
        cluster = self._cluster
        tree = cluster.queue_tree
        checked = (tree.version, dict(cluster.resources.allocatable))
        if (not tree.guaranteed and not tree.has_guarantee_errors) or tree.checked == checked:
            return
        tree.checked = checked
        tree.has_guarantee_errors = False
        for queue in cluster.queues.values():
            self._update_error(queue)

    def update_guarantee_error(self, queue: Queue) -> None:
        """Set the configuration errors of a queue that was changed, and of all while there are any, for it may be the cause."""
        if queue.facts is not None and queue.facts.guarantee:
            self._update_error(queue)
        if self._cluster.queue_tree.has_guarantee_errors:
            self.update_guarantee_errors()

    def _update_error(self, queue: Queue) -> None:
        names = () if queue.facts is None else queue.facts.guarantee
        problems = [self._problem(queue, name) for name in names]
        errors = tuple([(GUARANTEE_ERROR, text) for text in problems if text])
        self._cluster.config_errors.replace(f"Queue//{queue.name}", GUARANTEE_ERROR, errors)
        self._cluster.queue_tree.has_guarantee_errors |= bool(errors)

    def _problem(self, queue: Queue, name: str) -> str:
        """Return why the guarantee of a queue cannot be kept; empty if it can. No number in it changes with the cluster, so that
        the error is recorded once."""
        assert queue.facts is not None
        stated, total = (
            queue.facts.guarantee[name],
            self._cluster.resources.allocatable.get(name, 0),
        )
        room = self._room(queue, name, total) if stated else None
        if room is None:
            return ""
        what = f"spec.guarantee.{name} <{amount_text(name, stated)}>"
        is_of_cluster = queue.parent is None or room == total
        of = (
            "the nodes of the cluster have"
            if is_of_cluster
            else f"its parent <{siblings_of(queue)}> may use"
        )
        if not total:
            return f"{what}: no node has any; it counts as 0"
        if stated > room:
            return f"{what} is more than {of}; it counts as 0"
        if self._kept(queue, name, room) == 0:
            return f"{what} and those of other queues are together more than {of}; nothing is kept free for any of them"
        return ""

    def _within(self, queue: Queue, name: str, total: int) -> int | None:
        """Return the real capability in a tree. The root is limited by the cluster only where guarantees exist."""
        stated = _stated(queue, name)
        above = self._room(queue, name, total)
        if above is None:
            return stated
        room = self._beside_guarantees(queue, name, above)
        return room if stated is None else min(stated, room)

    def _room(self, queue: Queue, name: str, total: int) -> int | None:
        """Return what a queue and its siblings share; None without a limit."""
        if not self._cluster.plugins.quota.keeps_tree:
            return total
        if queue.name == ROOT:
            return None
        above = None if queue.parent is None else self._within(queue.parent, name, total)
        if above is None and self._cluster.queue_tree.guaranteed.get(siblings_of(queue), {}).get(
            name, 0
        ):
            return total
        return above

    def _beside_guarantees(self, queue: Queue, name: str, room: int) -> int:
        kept = self._kept(queue, name, room)
        own = queue.facts.guarantee.get(name, 0) if queue.facts is not None else 0
        return room - kept + (own if kept and own <= room else 0)

    def _kept(self, queue: Queue, name: str, room: int) -> int:
        """Return how much of the room is kept for guarantees, of the queue and its siblings: all that fit, or nothing if these
        do not fit together."""
        cluster = self._cluster
        siblings = siblings_of(queue)
        total = cluster.queue_tree.guaranteed.get(siblings, {}).get(name, 0)
        if total <= room:
            return total
        amounts, sums = cluster.queue_tree.guarantees(cluster, siblings, name)
        fitting = sums[bisect_right(amounts, room)]
        return fitting if fitting <= room else 0
