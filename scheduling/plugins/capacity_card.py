"""`capacity-card`: each queue has a quota of cards by their names, and a capability of cpu and memory.

Quotas are hard: a queue within its own quota may reclaim, and what others use beyond a quota may be reclaimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from events.errors import PolicyError
from events.requeue import QUEUE_UPDATED
from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pods import Charge, Pod
from projections.policy.plugin_config import PluginConfig
from projections.policy.policy_values import JsonObject, Warn
from projections.queues import Queue
from scheduling.plugins.quota_plugin import QuotaPlugin
from scheduling.quota import quota_check
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
    limits_cards = True

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        arguments = config.arguments
        assert isinstance(arguments, CapacityCardArguments)
        self.exempts_card_pods = arguments.cardUnlimitedCpuMemory
        self.infers_cards = arguments.unnamedCardPolicy == "infer"
        self.default_capability = 0 if arguments.unsetCpuMemoryIsZero else None
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
            return facts.capability.get(name, self.default_capability)
        return facts.quota.get(name, 0)

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
