"""The preemptor: one pending pod that needs room used by other pods, with the trial of its whole group."""

from functools import cached_property

from projections import quota_charging
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.policy.policy import RECLAIMING
from projections.queues import add
from scheduling.group_trial import GroupTrial
from scheduling.session import Session


class Preemptor:
    """A pod that preempts or reclaims, its action, and the victims and placements chosen for its group so far."""

    def __init__(
        self,
        session: Session,
        action: str,
        trial: GroupTrial,
        pod: Pod,
        *,
        is_within: bool = False,
        takes_protected: bool = False,
        wanted: tuple[Pod, ...] = (),
    ) -> None:
        self.session = session
        self.action = action
        """The action: to preempt takes victims of the same queue, to reclaim those of other queues."""
        self.trial = trial
        self.pod = pod
        self.is_within = is_within
        """True if the victims are pods of the group itself, rather than of other groups."""
        self.takes_protected = takes_protected
        """True if protected pods may be victims, as far as their queues hold more than they deserve."""
        self.wanted = wanted
        """The pods that are placed together, if room is needed for more than this pod."""
        self.is_reclaiming = action in RECLAIMING
        """True if the victims are of other queues."""
        self.cluster = session.cluster
        self.policy = session.cluster.policy
        self.group = trial.group
        """The group of the pod."""
        self.queue = session.cluster.queues[trial.group.queue]
        """The queue of the group."""

    @cached_property
    def asked(self) -> Charge:
        """Return what the queue would be charged."""
        if not self.wanted:
            return quota_charging.requested(self.cluster, self.pod.pod_class)
        total: Amounts = {}
        for pod in self.wanted:
            add(total, quota_charging.requested(self.cluster, pod.pod_class), 1)
        return tuple(total.items())

    def comes_before(self, group: PodGroup) -> bool:
        """Return True if the preemptor's group has a higher priority than another one, or an equal one and is older."""
        return _rank(self.group) < _rank(group)


def _rank(group: PodGroup) -> tuple[int, int, str]:
    return -group.priority, group.created_ns, group.key
