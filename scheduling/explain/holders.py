"""Which pod groups hold a resource or card: part of the explanation of a waiting pod."""

from typing import Final

from projections import quota_charging
from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pods import Pod
from scheduling.explanation import Held, Holder
from scheduling.quota import quota_check
from scheduling.unschedulable import Unschedulable

HOLDERS_MAX: Final = 5


class Holders:
    """The holders of what pods need, in one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def needed_by(self, pod: Pod | None, reason: Unschedulable | None) -> tuple[Held, ...]:
        """Return the holders of what the pod needs: its cards, by the names under which they are charged, or the short resource."""
        names: tuple[str, ...] = ()
        if pod is not None:
            charging, pod_class = self._cluster.plugins.quota.charging, pod.pod_class
            names = charging.accepted(self._cluster.cards, pod_class.request, pod_class.cards)
        if not names and reason is not None and reason.limit:
            names = quota_charging.cards_of_charge(self._cluster, reason.limit)
        return tuple(one for name in names if (one := self._of(name)) is not None)

    def _of(self, name: str) -> Held | None:
        """Return the holders of a resource or card; None if it is never charged, or neither held nor there."""
        cluster = self._cluster
        if quota_check.is_never_charged(cluster, name):
            return None
        resource = cluster.cards.resource.get(name)
        total = cluster.resources.allocatable.get(name, 0)
        if resource is not None:
            total = sum(
                node.allocatable(resource)
                for node in cluster.nodes.order
                if node.facts is not None and node.facts.cards.get(resource) == name
            )
        groups = cluster.groups.values()
        found = [
            (-one.allocated[name], one.key, one.queue) for one in groups if one.allocated.get(name)
        ]
        if not found and not total:
            return None
        found.sort()
        queues: Amounts = {}
        for held, _, queue in found:
            queues[queue] = queues.get(queue, 0) - held
        return Held(
            name=name,
            total=total,
            allocated=sum(queues.values()),
            queues=dict(sorted(queues.items(), key=lambda one: (-one[1], one[0]))),
            holders=tuple(Holder(key, queue, -held) for held, key, queue in found[:HOLDERS_MAX]),
            others=max(0, len(found) - HOLDERS_MAX),
        )
