"""The preemptor: one pending pod that needs room used by other pods, with the trial of its whole group."""

from msgspec import Struct

from projections import quota_charging
from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.policy.policy import RECLAIMING, Policy
from projections.queues import Queue, add
from scheduling.group_trial import GroupTrial
from scheduling.session import Session


class Preemptor(Struct):
    """A pod that preempts or reclaims, its action, and the victims and placements chosen for its group so far."""

    session: Session
    action: str
    """The action: to preempt takes victims of the same queue, to reclaim those of other queues."""
    trial: GroupTrial
    pod: Pod
    is_within: bool = False
    """True if the victims are pods of the group itself, rather than of other groups."""

    takes_protected: bool = False
    """True if protected pods may be victims, as far as their queues hold more than they deserve."""

    wanted: tuple[Pod, ...] = ()
    """The pods that are placed together, if room is needed for more than this pod."""

    @property
    def is_reclaiming(self) -> bool:
        """Return True if the victims are of other queues."""
        return self.action in RECLAIMING

    @property
    def asked(self) -> Charge:
        """Return what the queue would be charged."""
        if not self.wanted:
            return quota_charging.requested(self.cluster, self.pod.pod_class)
        total: Amounts = {}
        for pod in self.wanted:
            add(total, quota_charging.requested(self.cluster, pod.pod_class), 1)
        return tuple(total.items())

    @property
    def cluster(self) -> Cluster:
        """Return the cluster."""
        return self.session.cluster

    @property
    def policy(self) -> Policy:
        """Return the policy."""
        return self.session.cluster.policy

    @property
    def group(self) -> PodGroup:
        """Return the group of the pod."""
        return self.trial.group

    @property
    def queue(self) -> Queue:
        """Return the queue of the group."""
        return self.session.cluster.queues[self.trial.group.queue]

    def comes_before(self, group: PodGroup) -> bool:
        """Return True if the preemptor's group has a higher priority than another one, or an equal one and is older."""
        return _rank(self.group) < _rank(group)


def _rank(group: PodGroup) -> tuple[int, int, str]:
    return -group.priority, group.created_ns, group.key
