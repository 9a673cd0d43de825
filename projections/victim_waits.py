"""How long pod groups wait for terminating pods on the nodes that they are nominated to.

A pod that was asked to end may never do so: a device or a mount hangs, a finalizer stays. A group that is nominated to its node
waits for `victimTimeout` of the policy. After that the terminating pods on these nodes count as staying (`Pod.is_stuck`), for all
groups, so that other room is searched, and other pods may be evicted. A group for which that happened more than
RETRIES_MAX times evicts no more pods until it is placed. The room is used as any other once such a pod ends after all.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from projections.terminating_pods import TerminatingPods

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup

RETRIES_MAX: Final = 2
"""How many times a group may turn to other nodes because pods did not end."""


class VictimWait(Struct, frozen=True):
    """A group that waits, or has waited, for terminating pods."""

    until_ns: int | None = None
    """End of its time; None if it does not wait now."""
    timeouts: int = 0
    """How many times pods did not end in time."""

    @property
    def may_evict(self) -> bool:
        """Return whether pods may still be evicted for the group."""
        return self.timeouts <= RETRIES_MAX


def start_wait(cluster: "Cluster", group: "PodGroup", at_ns: int) -> None:
    """Begin the time of a group that was just nominated, if pods are terminating on the nodes."""
    before = cluster.victim_waits.get(group.key, VictimWait())
    terminating = cluster.indexes.of(TerminatingPods)
    if not any(terminating.on(held.node) for held in group.decided.nominations.values()):
        until_ns = None
    elif before.until_ns is not None:
        return
    else:
        until_ns = at_ns + cluster.policy.action_arguments.victim_timeout_ns
    _put(cluster, group.key, structs.replace(before, until_ns=until_ns))


def end_wait(cluster: "Cluster", key: str) -> None:
    """Forget the time of a group that lost its nominations; how many times pods did not end is kept."""
    if (wait := cluster.victim_waits.get(key)) is not None:
        _put(cluster, key, structs.replace(wait, until_ns=None))


def expire(cluster: "Cluster", at_ns: int) -> None:
    """Let terminating pods count as staying where a group has waited for them long enough."""
    if not cluster.victim_waits:
        return
    for key, wait in list(cluster.victim_waits.items()):
        group = cluster.groups.get(key)
        if group is None:
            del cluster.victim_waits[key]
        elif wait.until_ns is not None and wait.until_ns <= at_ns:
            nodes = dict.fromkeys(held.node for held in group.decided.nominations.values())
            terminating = cluster.indexes.of(TerminatingPods)
            stuck = [uid for name in nodes for uid in terminating.on(name)]
            for uid in stuck:
                old = cluster.pods[uid]
                cluster.replace_pod(old, old.decided_as(is_stuck=True))
            timeouts = wait.timeouts + bool(stuck)
            _put(cluster, key, VictimWait(timeouts=timeouts))
            cluster.pod_groups.mark(key, cluster.position)
            cluster.wakeup_events.groups[key] = None


def _put(cluster: "Cluster", key: str, wait: VictimWait) -> None:
    if wait == VictimWait():
        cluster.victim_waits.pop(key, None)
    else:
        cluster.victim_waits[key] = wait
