"""A claim: one pod that asks for room which others have, in a trial for its whole group."""

from msgspec import Struct

from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy import Policy
from projections.queues import Queue
from scheduling.session import Session
from scheduling.trial import Trial


class Claim(Struct):
    """What is asked for, by whom, and what has been chosen for the group so far."""

    session: Session
    action: str
    """`preempt`: of the same queue. `reclaim`: of other queues."""
    trial: Trial
    pod: Pod
    is_within: bool = False
    """Whether pods of the group itself are asked for, rather than those of others."""

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
        return self.trial.group

    @property
    def queue(self) -> Queue:
        """The queue of the group."""
        return self.session.cluster.queue(self.trial.group.queue)
