"""Keep the quota of jobs that are restarted after a fault: their queues are charged for it until their pods are back.

A restart keeps what the pods of the job were charged, as it keeps the nodes of healthy pods, and gives both up at the same
time (`projections/restart_times.py`). Less is kept as pods get nodes again. It counts like a nomination: in votes and
when pods of other groups are placed, but not against the job itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.deltas import PodGroupChanged, QueueChanged
from projections.index import Index
from projections.pod_class import Amounts
from projections.pods import Charge
from projections.queues import add

if TYPE_CHECKING:
    from projections.cluster import Cluster


def kept_charge(cluster: "Cluster", key: str) -> Charge:
    """Return what is kept for the pods of a group that are not back, by charge name."""
    if not cluster.policy.reschedules:
        return ()
    restart = cluster.reschedulings.restarts.get(key)
    if restart is None or not restart.kept:
        return ()
    group = cluster.groups.get(key)
    if group is None:
        return restart.kept
    if group.queue != restart.queue:
        return ()
    held: Amounts = dict(group.allocated)
    for one in group.decided.nominations.values():
        add(held, one.charge, 1)
    return tuple(
        (name, amount - held.get(name, 0))
        for name, amount in restart.kept
        if amount > held.get(name, 0)
    )


class KeptQuota(Index):
    """What is charged to queues for jobs that are restarted."""

    name = "kept quota"
    COMPARED: ClassVar[tuple[str, ...]] = ("of_group",)
    can_be_left_out = True

    def __init__(self) -> None:
        self.of_group: dict[str, tuple[str, Charge]] = {}
        """Pod group key to the queue and what it is charged."""

    def rebuilt(self, cluster: "Cluster", /) -> "KeptQuota":
        """Find what is kept again."""
        twin = KeptQuota()
        for key, restart in cluster.reschedulings.restarts.items():
            charge = kept_charge(cluster, key)
            if charge and restart.queue in cluster.queues:
                twin.of_group[key] = restart.queue, charge
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Find what is kept again, and add it to the ledgers, which were summed up without it."""
        super().rebuild(cluster)
        for name, charge in self.of_group.values():
            queue = cluster.queues[name]
            add(queue.nominated, charge, 1)
            above = queue.above
            while above is not None:
                add(above.sums.setdefault("nominated", {}), charge, 1)
                above = above.above

    def of_queue(self, name: str) -> list[Charge]:
        """Return what is kept in a queue."""
        return [charge for queue, charge in self.of_group.values() if queue == name]

    def on_pod_groups(self, cluster: "Cluster", changes: Sequence[PodGroupChanged]) -> None:
        """Update what is kept for groups of which pods came or went."""
        is_needed = self.of_group or (cluster.policy.reschedules and cluster.reschedulings.restarts)
        for one in changes if is_needed else ():
            cluster.position = one.position
            self.update(cluster, one.group.key, is_gone=one.is_gone)

    def on_queue(self, cluster: "Cluster", delta: QueueChanged) -> None:
        """Forget what was kept in a queue that is gone, and charge a queue that comes again."""
        name = delta.queue.name
        if delta.is_gone:
            for key in [key for key, one in self.of_group.items() if one[0] == name]:
                del self.of_group[key]
            return
        for key, restart in cluster.reschedulings.restarts.items():
            if restart.queue == name and key not in self.of_group:
                self.update(cluster, key)

    def update(self, cluster: "Cluster", key: str, *, is_gone: bool = False) -> None:
        """Update what is kept for a group after its restart or its pods changed."""
        restart = cluster.reschedulings.restarts.get(key)
        charge: Charge = ()
        if restart is not None and restart.queue in cluster.queues:
            charge = restart.kept if is_gone else kept_charge(cluster, key)
        name, before = self.of_group.get(key, ("", ()))
        after = "" if restart is None or not charge else restart.queue
        if (name, before) == (after, charge):
            return
        for queue, one, sign in ((name, before, -1), (after, charge, 1)):
            if one and queue in cluster.queues:
                cluster.queues[queue].add_charge("nominated", one, sign)
                cluster.changed_rows.queues[queue] = cluster.changed_queues[queue] = None
        if charge:
            self.of_group[key] = after, charge
        else:
            self.of_group.pop(key, None)
