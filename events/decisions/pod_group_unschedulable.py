"""The answer that a pod group cannot be placed now."""

from collections.abc import Sequence

from events.decision import DecisionItem, PodGroupDecision


class PodGroupUnschedulable(PodGroupDecision, frozen=True, kw_only=True):
    """A pod group, or the rest of it, cannot be placed now. It stands until the group changes or an event of
    `requeue_on` happens."""

    kind = "pod_group_unschedulable.v1"
    word = "refuse"
    is_in_document = True

    action: str
    """The action that found it: `enqueue`, `allocate` or `backfill`. One record of each may stand."""
    code: str
    message: str
    limit: str = ""
    """What limits it: a resource or a card name."""
    pod: str = ""
    """The pod at which the reason was found, `namespace/name`."""
    requeue_on: tuple[str, ...] = ()
    """The events that could change the answer (`events/requeue.py`)."""
    never_fits: bool = False
    """Whether the nodes could not hold the minimum of the gang even if they were empty, or too many of them have been
    closed for long. Nothing is reserved for the group."""
    fits_only_closed_nodes: bool = False
    """Whether the nodes that are open to the pods (by cordons and taints) could not hold the minimum of the gang even
    if they were empty."""
    node_helps: bool | None = None
    """Whether another node would let the pods run now. None: as the code says (`projections/refusals.py`)."""

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the pod at which the reason was found, or the group."""
        return (self.item(pod=self.pod, code=self.code, message=self.message),)

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the message is under the code."""
        at = f", found at {self.pod}" if self.pod else ""
        return [
            f"refuse {self.pod_group} in {self.queue}: {self.action}, {self.code}{at}",
            self.message,
        ]
