"""`proportion`: queues divide all resources by weight, up to their requests (Volcano's `proportion`).

    remaining = total
    repeat: each unmet queue gets remaining x weight / weights of the unmet
            but at most its real capability and its request, and at least its guarantee;
            it is met once it has its request, or got nothing more
    until nothing remains or all queues are met

Amounts are in millionths. They are computed at the start of a cycle if any input has changed. The request of a
queue is the sum over its allocated and pending pods. A queue may reserve up to its real capability and use what it
deserves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from msgspec import Struct

from projections.cluster import Cluster
from projections.deltas import RecordApplied
from projections.index import Index
from projections.pod_class import Amounts
from projections.pods import Charge, Pod
from projections.policy.plugin_config import PluginConfig
from projections.queues import Queue
from projections.wakeup_events import ALL_RESOURCES
from scheduling.plugins.quota_plugin import ReclaimingQuota
from scheduling.quota import quota_check
from scheduling.quota.quota_rules import RemainingCharges
from scheduling.quota.real_capability import ENDLESS, RealCapability

WHOLE: Final = 1_000_000
"""Millionths per unit."""
_NEARLY: Final = 1_000
"""A remainder below this rounds up to a whole unit."""


class QueueDemand(Struct):
    """A queue with pod groups; all amounts in millionths."""

    name: str
    weight: int
    request: Amounts
    most: Amounts
    """Resource to real capability, if limited."""
    least: Amounts
    """Resource to guarantee."""


class DeservedShares(Struct):
    """What queues deserve since the start of the last cycle."""

    queues: dict[str, Amounts] = {}
    """Queue to amounts by resource."""


class Proportion(ReclaimingQuota):
    """Quotas by the weights of queues."""

    name = "proportion"
    NO_EFFECT: ClassVar[Mapping[str, str]] = {
        "enabledOverused": "a queue never gets more than it deserves"
    }
    tables = (DeservedShares,)
    computes_shares = True
    keeps_reclaimed = True

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.protects_deserved = config.takes_part("enableReclaimable")

    def deserved(self, cluster: Cluster, queue: Queue) -> Amounts:
        """Return what the queue deserves since the start of the last cycle."""
        return cluster.tables.of(DeservedShares).queues.get(queue.name, {})

    def deserved_version(self, cluster: Cluster) -> object:
        """Return what queues deserve: it is computed as a whole."""
        return cluster.tables.of(DeservedShares).queues

    def limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return what the queue deserves; None while there is no Queue object at all."""
        if queue.facts is None and not cluster.queue_objects:
            return None
        return self.deserved(cluster, queue).get(name, 0)

    def admission_limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the real capability of a queue with an object."""
        if queue.facts is not None:
            return RealCapability(cluster).of(queue, name)
        return self.limit(cluster, queue, name)

    def limit_beside_nodes(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the real capability in a cluster to which nodes may be added: what queues deserve grows up to it."""
        if queue.facts is None:
            return None
        return RealCapability(cluster).of(queue, name, total=ENDLESS)

    def nodes_changed(self, cluster: Cluster) -> None:
        """Wake all queues: what they deserve depends on the resources of the cluster."""
        cluster.mark_quota_released("")

    def indexes(self) -> Iterable[Index]:
        """Return the index of what queues request."""
        return (QueueRequests(),)

    def cycle_opened(self, cluster: Cluster) -> None:
        """Compute what queues deserve, if anything that it depends on has changed."""
        super().cycle_opened(cluster)
        total = {
            name: amount for name, amount in cluster.resources.allocatable.items() if name != "pods"
        }
        asking = [
            _demand(cluster, queue, list(total))
            for _, queue in sorted(cluster.queues.items())
            if queue.groups
        ]
        requests = cluster.indexes.of(QueueRequests)
        if (total, asking) != requests.compared:
            requests.compared = (total, asking)
            cluster.tables.of(DeservedShares).queues = compute_deserved(total, asking)

    def share(self, cluster: Cluster, queue: Queue) -> tuple[int, int]:
        """Return used / deserved."""
        return quota_check.share_of(queue, self.deserved(cluster, queue))

    def reclaim_denied(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> str:
        """Return why the queue exceeds what it deserves of a requested resource."""
        short = quota_check.may_allocate(cluster, queue, request, extra)
        return "" if short is None else short.message

    def is_victim(self, left: RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
        """Return whether the queue of a pod has more than it deserves of anything."""
        theirs = left.queue_of(pod)
        deserved = self.deserved(left.cluster, theirs)
        return left.exceeds(theirs, deserved, dict.fromkeys((*theirs.allocated, *deserved)))


class QueueRequests(Index):
    """What the pods of each queue request, placed or waiting, after the last record."""

    name = "requests of queues"
    COMPARED: ClassVar[tuple[str, ...]] = ("of_queue",)
    can_be_left_out = True

    def __init__(self) -> None:
        self.of_queue: dict[str, Amounts] = {}
        """Queue to its request, without queues that request nothing."""
        self.compared: object = None
        """From what shares were computed last."""

    def rebuilt(self, cluster: Cluster, /) -> QueueRequests:
        """Sum up the requests of all queues again."""
        twin = QueueRequests()
        for name, queue in cluster.queues.items():
            if request := queue.request:
                twin.of_queue[name] = request
        return twin

    def on_record(self, cluster: Cluster, delta: RecordApplied) -> None:
        """Wake all queues if the request of a queue changed, because what they deserve may change."""
        for name in cluster.changed_queues:
            queue = cluster.queues.get(name)
            request = {} if queue is None else queue.request
            if self.of_queue.get(name, {}) == request:
                continue
            cluster.mark_quota_released("", ALL_RESOURCES)
            if request:
                self.of_queue[name] = request
            else:
                del self.of_queue[name]


def _demand(cluster: Cluster, queue: Queue, names: list[str]) -> QueueDemand:
    facts = queue.facts
    guarantee = {} if facts is None else facts.guarantee
    most = {name: RealCapability(cluster).of(queue, name) for name in names if facts is not None}
    return QueueDemand(
        name=queue.name,
        weight=1 if facts is None else max(1, facts.weight),
        request=_millionths(queue.request),
        most=_millionths({name: one for name, one in most.items() if one is not None}),
        least=_millionths(
            {name: RealCapability(cluster).kept_guarantee(queue, name) for name in guarantee}
        ),
    )


def _millionths(amounts: Amounts) -> Amounts:
    return {name: amount * WHOLE for name, amount in amounts.items()}


def compute_deserved(total: Amounts, asking: list[QueueDemand]) -> dict[str, Amounts]:
    """Return what each queue deserves of the total, by resource."""
    remaining = {name: amount * WHOLE for name, amount in total.items()}
    deserved: dict[str, Amounts] = {one.name: {} for one in asking}
    unmet = asking
    while unmet and any(remaining.values()):
        weights = sum(one.weight for one in unmet)
        increase: Amounts = {}
        still: list[QueueDemand] = []
        for one in unmet:
            before = deserved[one.name]
            after = _raised(one, before, remaining, weights)
            deserved[one.name] = after
            for name in {**before, **after}:
                more = after.get(name, 0) - before.get(name, 0)
                increase[name] = increase.get(name, 0) + more
            is_met = all(after.get(name, 0) >= amount for name, amount in one.request.items())
            if not is_met and after != before:
                still.append(one)
        unmet = still
        remaining = {
            name: max(amount - increase.get(name, 0), 0) for name, amount in remaining.items()
        }
    return {
        name: {one: (amount + _NEARLY) // WHOLE for one, amount in amounts.items()}
        for name, amounts in deserved.items()
    }


def _raised(one: QueueDemand, before: Amounts, remaining: Amounts, weights: int) -> Amounts:
    after: Amounts = {}
    for name in {**remaining, **one.least}:
        amount = before.get(name, 0) + remaining.get(name, 0) * one.weight // weights
        amount = min(amount, one.most.get(name, amount), one.request.get(name, 0))
        after[name] = max(amount, one.least.get(name, 0))
    return after
