"""What queues have room for, beside what they are charged and what they have reserved.

The limits of queues follow from objects, from the policy, and from what was computed at the start of the cycle. No decision
changes them, so that an action asks the plugin once for the limit of a queue. Only "there is room" is answered here: what
is short, and what evictions could release, is for `quota_check.py`.
"""

from collections.abc import Mapping

from projections.cluster import Cluster
from projections.pods import Charge
from projections.queues import Queue
from scheduling.quota.quota_check import (
    committed,
    fits_beside_choices,
    used,
    why_queue_closed,
)
from scheduling.quota.quota_rules import QuotaRules, quota_of
from scheduling.shortage import Shortage


class Limits(dict[str, int | None]):
    """Charge name to a limit of one queue, asked when it is first needed."""

    def __init__(self, cluster: Cluster, queue: Queue, rules: QuotaRules, *, admits: bool) -> None:
        super().__init__()
        self._cluster, self._queue = cluster, queue
        self._ask = rules.admission_limit if admits else rules.limit

    def __missing__(self, name: str) -> int | None:
        """Ask the plugin."""
        found = self[name] = self._ask(self._cluster, self._queue, name)
        return found


class QueueRoom:
    """What one queue, and the queues above it, have room for."""

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        self._cluster, self._queue, rules = cluster, queue, quota_of(cluster)
        self._limits_card, self._limits_pods = rules.limits_card, rules.limits_pods
        self._to_admit = [(one, Limits(cluster, one, rules, admits=True)) for one in queue.lineage]
        self._to_use = [(one, Limits(cluster, one, rules, admits=False)) for one in queue.lineage]
        self._closed: dict[bool, Shortage | None] = {}

    def why_closed(self, *, allocates: bool) -> Shortage | None:
        """Return why the queue accepts no pod group at all, or None."""
        if allocates not in self._closed:
            closed = why_queue_closed(self._cluster, self._queue, allocates=allocates)
            self._closed[allocates] = closed
        return self._closed[allocates]

    def may_reserve(self, least: Charge) -> bool:
        """Return True if so much can be reserved without anything being released. A choice of cards, or several cards, may
        have room though False is returned."""
        cards: list[tuple[str, int]] = []
        for name, amount in least:
            if self._limits_card(name):
                cards.append((name, amount))
                continue
            for one, limits in self._to_admit:
                most = limits[name]
                if most is not None and committed(one, name) + amount > most:
                    return False
        if not cards:
            return True
        if len(cards) > 1:
            return False
        [(card, amount)] = cards
        return fits_beside_choices(
            self._cluster, self._queue, card, amount, self._to_use[0][1][card]
        )

    def may_use(self, charge: Charge) -> bool:
        """Return True if a pod may be charged these amounts, which are not those of cards with quotas."""
        if not self._limits_pods:
            return True
        for name, amount in charge:
            for one, limits in self._to_use:
                most = limits[name]
                if most is not None and used(one, name, {}) + amount > most:
                    return False
        return True

    def times(self, charge: Charge, cards: Charge, extra: Mapping[str, int]) -> int | None:
        """Return how many pods that are charged so much, and so many of any of these cards, may follow one another beside what
        pods on trial are charged (`extra`); None without a limit."""
        least: int | None = None
        if self._limits_pods:
            for name, amount in charge:
                for one, limits in self._to_use:
                    least = _less(least, limits[name], used(one, name, extra), amount)
        queue, limits = self._to_use[0]
        for name, amount in cards:
            least = _less(least, limits[name], used(queue, name, extra), amount)
        return least

    def cards_with_room(self, wanted: Charge) -> tuple[str, ...]:
        """Return the cards of which so many are within the quota of the queue."""
        queue, limits = self._to_use[0]
        return tuple(
            [
                name
                for name, amount in wanted
                if (most := limits[name]) is None or used(queue, name, {}) + amount <= most
            ]
        )


def _less(least: int | None, most: int | None, used: int, amount: int) -> int | None:
    """Return how many times an amount fits between what is used and the most, if that is less than the least."""
    if most is None or (not amount and used <= most):
        return least
    times = max(0, (most - used) // amount) if amount else 0
    return times if least is None else min(least, times)


class QueueRooms:
    """The room of all queues, for the time of one action."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._of: dict[str, QueueRoom] = {}

    def of(self, name: str) -> QueueRoom:
        """Return the room of a queue."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = QueueRoom(self._cluster, self._cluster.queues[name])
        return found
