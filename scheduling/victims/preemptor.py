"""A claim: one pod that asks for room which others have, in a trial for its whole group."""

from msgspec import Struct

from projections import quota_charging
from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.policy import RECLAIMING, Policy
from projections.queues import Queue, add
from scheduling.node_overlay import NodeOverlay
from scheduling.session import Session


class Preemptor(Struct):
    """What is asked for, by whom, and what has been chosen for the group so far."""

    session: Session
    action: str
    """One of those that preempt: of the same queue. Of those that reclaim: of other queues."""
    overlay: NodeOverlay
    pod: Pod
    is_within: bool = False
    """Whether pods of the group itself are asked for, rather than those of others."""

    wanted: tuple[Pod, ...] = ()
    """The pods that room is asked for at once, where it is not for this one alone."""

    @property
    def is_reclaiming(self) -> bool:
        """Whether room is asked of other queues."""
        return self.action in RECLAIMING

    @property
    def asked(self) -> Charge:
        """What the queue would be charged."""
        if not self.wanted:
            return quota_charging.requested(self.cluster, self.pod.pod_class)
        total: Amounts = {}
        for pod in self.wanted:
            add(total, quota_charging.requested(self.cluster, pod.pod_class), 1)
        return tuple(total.items())

    @property
    def cluster(self) -> Cluster:
        """What is true."""
        return self.session.cluster

    @property
    def policy(self) -> Policy:
        """The rules."""
        return self.session.cluster.policy

    @property
    def group(self) -> PodGroup:
        """Whose pod it is."""
        return self.overlay.group

    @property
    def queue(self) -> Queue:
        """The queue of the group."""
        return self.session.cluster.queue(self.overlay.group.queue)
