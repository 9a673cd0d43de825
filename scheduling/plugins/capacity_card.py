"""`capacity-card`: each queue has a quota of cards by their names, and a capability of cpu and memory.

Quotas are hard: a queue within its own quota may reclaim, and what others use beyond a quota may be reclaimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from events.errors import PolicyError
from events.requeue import QUEUE_UPDATED
from projections.charging import PLAIN, CardCharging
from projections.cluster import Cluster
from projections.device_family import Cards
from projections.pod_class import Amounts, PodClass
from projections.pods import Charge, Pod
from projections.policy.plugin_config import PluginConfig
from projections.policy.policy_values import JsonObject, Warn
from projections.queues import Queue
from scheduling.card_choice import CardChoice
from scheduling.plugins.quota_plugin import QuotaPlugin
from scheduling.quota import quota_check
from scheduling.quota.card_selection import acceptable_cards, choose_cards
from scheduling.quota.quota_rules import RemainingCharges
from scheduling.score_formulas import NodeOrder, ScoreWeights
from scheduling.shortage import Shortage


class CapacityCardArguments(Struct, frozen=True):
    """Arguments of `capacity-card`."""

    cardUnlimitedCpuMemory: bool = False  # noqa: N815
    """Whether pods that use cards are not charged cpu and memory."""
    unnamedCardPolicy: str = "deny"  # noqa: N815
    """Treatment of a pod that requests cards without `card.name`: `deny` or `infer`."""
    unsetCpuMemoryIsZero: bool = False  # noqa: N815
    """Whether a missing capability for cpu or memory means zero instead of no limit."""
    nodeOrderWeight: float = 1.0  # noqa: N815
    """Weight of the order of preference in `A|B`."""


class CapacityCard(QuotaPlugin, NodeOrder):
    """Quotas of cards by queue."""

    name = "capacity-card"
    Arguments = CapacityCardArguments
    NO_EFFECT: ClassVar[Mapping[str, str]] = {"enabledAllocatable": "quotas of cards always hold"}
    protects_deserved_alone = True
    lists_shortages = False
    event_reporter = "volcano.capacity-card"

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        arguments = config.arguments
        assert isinstance(arguments, CapacityCardArguments)
        self._infers_cards = arguments.unnamedCardPolicy == "infer"
        self.charging = CardCharging(
            exempts_card_pods=arguments.cardUnlimitedCpuMemory, infers_cards=self._infers_cards
        )
        self._default_capability = 0 if arguments.unsetCpuMemoryIsZero else None
        self._weight = arguments.nodeOrderWeight

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct | None:
        """Return the arguments. Raise PolicyError for an unknown treatment of unnamed cards."""
        arguments = super().read_arguments(given, path, warn)
        assert isinstance(arguments, CapacityCardArguments)
        if arguments.unnamedCardPolicy not in ("deny", "infer"):
            raise PolicyError(f"{path}.unnamedCardPolicy: expected deny or infer")
        return arguments

    def deserved(self, cluster: Cluster, queue: Queue) -> Amounts:
        """Return the stated deserved amounts and the card quotas."""
        return {} if queue.facts is None else queue.deserved

    def limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the capability of cpu or memory, or the quota of a card; a card that is not listed has none."""
        facts = queue.facts
        if facts is None:
            return None if not cluster.queue_objects or name in ("cpu", "memory") else 0
        if name in ("cpu", "memory"):
            return facts.capability.get(name, self._default_capability)
        return facts.quota.get(name, 0)

    def unstated_limit(self, name: str) -> int | None:
        """Return what the arguments say of cpu and memory; a card that is not listed cannot be used."""
        return self._default_capability if name in PLAIN else 0

    def limits_card(self, name: str) -> bool:
        """Return whether it is neither cpu nor memory."""
        return name not in PLAIN

    def without_cards(self, charge: Charge) -> Charge:
        """Return what is charged of cpu and memory."""
        return tuple([one for one in charge if one[0] in PLAIN])

    def card_quotas(self, queue: Queue) -> Mapping[str, int] | None:
        """Return those that the object of the queue states."""
        return None if queue.facts is None else queue.facts.quota

    def named_cards(self, cluster: Cluster, pod_class: PodClass) -> Cards:
        """Return those that nodes have; None for a pod that names none."""
        if not pod_class.cards:
            return None
        return tuple([name for name in pod_class.cards if name in cluster.cards.resource])

    def has_named_card(self, there: Iterable[str], named: tuple[str, ...]) -> bool:
        """Return whether the node has one of the cards, or the pod names none."""
        return not named or any(card in there for card in named)

    def choose_cards(
        self, cluster: Cluster, queue: Queue, pod_class: PodClass, extra: Mapping[str, int]
    ) -> CardChoice | Shortage:
        """Return the cards that the pod accepts and of which the queue has enough quota left."""
        return choose_cards(cluster, queue, pod_class, extra, infers_cards=self._infers_cards)

    def acceptable_cards(
        self, cluster: Cluster, queue: Queue, pod_class: PodClass
    ) -> Charge | Shortage | None:
        """Return the cards that the pod accepts."""
        return acceptable_cards(cluster, queue, pod_class, infers_cards=self._infers_cards)

    def closed(self, cluster: Cluster, queue: Queue, *, allocates: bool) -> Shortage | None:
        """Refuse all groups of a queue without any capability: no cpu, no memory, no card."""
        if queue.facts is None or any(queue.facts.quota.values()):
            return None
        if any(self.limit(cluster, queue, name) != 0 for name in ("cpu", "memory")):
            return None
        verb = "allocate" if allocates else "enqueue"
        what = f"capability <cpu 0, memory 0> is empty, deny it to {verb}"
        text = f"Queue <{queue.name}> {what}"
        return Shortage("EmptyQueueCapability", "", text, requeue_on=(QUEUE_UPDATED,))

    def share(self, cluster: Cluster, queue: Queue) -> tuple[int, int]:
        """Return used / deserved."""
        return quota_check.share_of(queue, self.deserved(cluster, queue))

    def weights(self) -> ScoreWeights:
        """Return the weight of the order of preference in `A|B`."""
        return ScoreWeights(card_order=round(self._weight * 1000))

    def reclaim_denied(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> str:
        """Return why the queue exceeds its quotas."""
        short = quota_check.may_allocate(cluster, queue, request, extra)
        return "" if short is None else short.message

    def exceeds_deserved(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether a queue has more than it deserves of anything that it deserves by name."""
        have = queue.allocated
        if not have or queue.facts is None:
            return False
        quota = queue.facts.quota
        for name, amount in quota.items():
            if 0 < amount < have.get(name, 0):
                return True
        return any(
            0 < amount < have.get(name, 0)
            for name, amount in queue.facts.deserved.items()
            if name not in quota
        )

    def relevant_to_deserved(self, request: Charge, deserved: Amounts) -> Charge:
        """Return the part that the queue deserves by name."""
        return tuple(one for one in request if one[0] in deserved)

    def is_victim(self, left: RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
        """Return whether the queue of a pod has more than it deserves of something that the pod is charged for."""
        theirs = left.queue_of(pod)
        deserved = self.deserved(left.cluster, theirs)
        names = dict.fromkeys(name for name, _ in pod.charge or () if name in deserved)
        return left.exceeds(theirs, deserved, names)
