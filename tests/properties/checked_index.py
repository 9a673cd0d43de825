"""A requeue index that is compared with what each class answers when it is asked, and with one that is built again."""

from typing import ClassVar

from projections.wakeup_events import WakeupEvents
from scheduling.preemptible_capacity import VictimIndex
from scheduling.requeue import RequeueCheck
from scheduling.requeue_index import Classes, RequeueIndex


class CheckedIndex(RequeueIndex):
    """Notes each class that it does not find although it is requeued: what it raises here would not end a cycle."""

    failures: ClassVar[list[str]] = []
    lookups: ClassVar[list[int]] = [0]

    def candidates(self, events: WakeupEvents, action: str | None = None) -> Classes:
        """Look up, and ask every class."""
        found = super().candidates(events, action)
        self.lookups[0] += 1
        cluster = self._cluster
        donors = VictimIndex(cluster)
        if list(self._donors.others("")) != list(donors.others("")):
            self.failures.append(f"donors: kept {self._donors.others('')}, not {donors.others('')}")
        for groups in cluster.scheduling_queue.by_queue.values():
            for one in groups.values():
                if action not in (None, one.action) or id(one) in found:
                    continue
                reclaimable = None if action is None else self._reclaimable
                if RequeueCheck(cluster, events, donors, reclaimable).is_requeued(one):
                    self.failures.append(f"{one.queue} {one.key} is requeued by {events}")
        try:
            self.audit()
        except AssertionError as error:
            self.failures.append(str(error))
        return found
