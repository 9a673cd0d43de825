"""`conformance`: pods that are critical to the cluster itself are never evicted."""

from typing import Final

from projections.pods import Pod
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimFilter

CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
SYSTEM: Final = "kube-system"


class Conformance(VictimFilter):
    """Protects pods of the critical priority classes and of the namespace kube-system."""

    name = "conformance"
    actions = ("preempt", "reclaim", "gangpreempt", "gangreclaim")

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Accept all other pods."""
        return [
            pod
            for pod in candidates
            if pod.facts.priority_class not in CRITICAL and pod.facts.namespace != SYSTEM
        ]
