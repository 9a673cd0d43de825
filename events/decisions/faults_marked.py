"""Faults of pods are written on them, for a controller outside that restarts them."""

from collections.abc import Sequence

from events.decision import DecisionItem, PodGroupDecision
from events.decisions.reschedule import RestartedPod


class FaultsMarked(PodGroupDecision, frozen=True, kw_only=True):
    """Faulty pods of a job get an annotation that says so; nothing is deleted."""

    kind = "faults_marked.v1"
    word = "mark"
    is_in_document = True

    mode: str
    """`external-grace` or `external-force`: what the controller outside is to do."""
    members: tuple[RestartedPod, ...]
    """The pods, each with its fault."""

    def items(self) -> Sequence[DecisionItem]:
        """Return one item a pod."""
        return [
            self.item(pod=one.pod, node=one.node, code=one.fault, message=one.detail)
            for one in self.members
        ]

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the pods are under the first one."""
        count = len(self.members)
        return [
            f"mark {count} faulty pod{'s' * (count > 1)} of {self.pod_group} ({self.mode})",
            *(f"fault: {one.pod} on {one.node}: {one.detail}" for one in self.members),
        ]
