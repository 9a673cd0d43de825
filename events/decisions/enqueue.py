"""The admission of a pod group to its queue."""

from collections.abc import Sequence

from events.decision import DecisionItem, PodGroupDecision


class EnqueueDecided(PodGroupDecision, frozen=True, kw_only=True):
    """A pod group is admitted to its queue: its `minMember` pods are reserved there."""

    kind = "enqueue_decided.v1"
    word = "enqueue"
    is_in_document = True

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the group."""
        return (self.item(),)

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        return [f"admit {self.pod_group} to {self.queue}"]
