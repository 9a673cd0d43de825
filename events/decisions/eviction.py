"""The eviction of pods."""

from collections.abc import Sequence
from typing import Self

from msgspec import structs

from events.decision import DecisionItem, Eviction, Placement, PodGroupDecision


class EvictionDecided(PodGroupDecision, frozen=True, kw_only=True):
    """Pods of one group are evicted. Their resources are free only when the pods are deleted."""

    kind = "eviction_decided.v1"
    word = "evict"
    is_in_document = True

    evictions: tuple[Eviction, ...]
    action: str
    """The action that decided, such as `preempt` or `reclaim`."""
    in_favour_of: str = ""
    """The pod group for which they are evicted, if any."""
    code: str = ""
    message: str = ""

    @property
    def pods(self) -> Sequence[Eviction]:
        """Return the pods with the nodes that they leave."""
        return self.evictions

    @property
    def beneficiary(self) -> str:
        """Return the pod group for which they are evicted, if any."""
        return self.in_favour_of

    def with_pods(self, pods: Sequence[Placement | Eviction]) -> Self:
        """Return the part of the decision that is about some of its pods."""
        return structs.replace(self, evictions=tuple(pods))

    def items(self) -> Sequence[DecisionItem]:
        """Return an item a pod."""
        return [
            self.item(
                pod=one.pod,
                node=one.node,
                code=self.code,
                message=self.message,
                in_favour_of=self.in_favour_of,
            )
            for one in self.evictions
        ]

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the pods are under the first one."""
        why = f" for {self.in_favour_of}" if self.in_favour_of else ""
        because = f": {self.message}" if self.message else ""
        lines = [f"{one.pod} leaves {one.node}" for one in self.evictions]
        many = "1 pod" if len(lines) == 1 else f"{len(lines)} pods"
        return [f"evict {many} of {self.pod_group}: {self.action}{why}{because}", *lines]
