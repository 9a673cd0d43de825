"""The limits of queues compared with what is requested of them."""

from collections.abc import Mapping

from projections import quota_charging
from projections.cluster import Cluster
from projections.device_family import Cards
from projections.pod_class import Amounts, PodClass
from projections.pods import Charge
from projections.queues import Queue
from scheduling.card_choice import CardChoice
from scheduling.explanation import Limit
from scheduling.quota import quota_check
from scheduling.quota.quota_rules import quota_of


class QueueLimits:
    """The limits of one queue and of the queues above it."""

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        self._cluster = cluster
        self._queue = queue

    def cards_allowed(self, pod_class: PodClass, extra: Amounts) -> Cards:
        """Return the cards that the queue allows a pod now; if none, the cards that would do."""
        cluster = self._cluster
        if pod_class.is_best_effort:
            return None
        chosen = quota_of(cluster).choose_cards(cluster, self._queue, pod_class, extra)
        if isinstance(chosen, CardChoice):
            return chosen.cards
        known = tuple(name for name in pod_class.cards if name in cluster.cards.resource)
        return known or pod_class.cards or None

    def charged(self, charge: Charge, extra: Amounts) -> tuple[Limit, ...]:
        """Return the limits of a queue and its ancestors compared with a charge: what a pod would add to what is
        allocated. `extra` counts as used."""
        return tuple(
            Limit(
                name=member,
                queue="" if one is self._queue else one.name,
                used=quota_check.used(one, member, extra),
                reserved=0,
                requested=amount,
                limit=quota_check.limit_of(self._cluster, one, member),
            )
            for one in self._queue.lineage
            for name, amount in charge
            for member in quota_charging.cards_of_charge(self._cluster, name)
        )

    def reserved(
        self, least: Amounts, reclaimable: Mapping[str, Amounts] | None = None
    ) -> tuple[Limit, ...]:
        """Return the limits of a queue compared with the minimum of a group that asks to be admitted. Resources that
        others could release for it do not count as reserved.

        A choice of cards is one entry: all cards that may serve it, and what is reserved on any of them.
        """
        cluster, queue = self._cluster, self._queue
        limits: list[Limit] = []
        reclaimable = reclaimable or {}
        own = reclaimable.get(queue.name, {})
        for above in queue.lineage[1:]:
            limits += [
                Limit(
                    name=name,
                    queue=above.name,
                    used=quota_check.used(above, name, {}),
                    reserved=quota_check.reserved(above, name)
                    - reclaimable.get(above.name, {}).get(name, 0),
                    requested=amount,
                    limit=quota_check.admission_limit_of(cluster, above, name),
                )
                for name, amount in least.items()
            ]
        for name, amount in least.items():
            ours = quota_charging.cards_of_charge(cluster, name)
            held = sum(
                kept for other, kept in queue.inqueue.items()
                if set(quota_charging.cards_of_charge(cluster, other)) & set(ours)
            )  # fmt: skip
            limits.append(
                Limit(
                    name=name,
                    used=sum(quota_check.used(queue, one, {}) for one in ours),
                    reserved=held
                    - sum(queue.elastic.get(one, 0) + own.get(one, 0) for one in ours),
                    requested=amount,
                    limit=quota_check.admission_limit_of(cluster, queue, name),
                )
            )
        return tuple(limits)
