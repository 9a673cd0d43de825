"""What stands of the decisions of pool deciders: pods that are asked to release their resources, backfilled pods, work
that comes back, and which pools are due for a pass.

These are facts: a snapshot has them. Only State changes them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field, structs

from events.decision import Decision
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import RELEASE, ReleaseDecided
from events.duration import SECOND
from events.messages import PodMarkRequest
from projections.job_option_keys import RELEASE_REQUESTED, TASK
from projections.pods import Pod
from projections.policy.pools import Pool
from projections.tables import Table

if TYPE_CHECKING:
    from projections.cluster import Cluster

RELEASE_MARK: Final = "release"
"""Value of `what` in outcomes of asking a pod to release its resources."""
LABEL: Final = "determined-preemption"
"""The same as a label, for the Determined master, which watches it (determined 5.5)."""
TRIES_MAX: Final = 3
"""How often it is tried to write them, if the API server does not answer; the pod is evicted at its deadline anyway."""
RETURNING_MAX: Final = 10_000
"""Released tasks that are remembered until their pods are created again; the oldest are dropped."""
PASS_INTERVAL_NS: Final = SECOND // 2
"""Shortest time between two passes of one pool (determined 1.6)."""


class Release(Struct, frozen=True, array_like=True):
    """A running pod that is asked to release its resources."""

    decision: int
    pod: str
    """`namespace/name`"""
    in_favour_of: str
    """The pod group for which it is asked; "" if its group has more than its share."""
    deadline_ns: int
    tries: int = 0
    is_marked: bool = False
    """Whether the request is written on the pod, or was given up."""


class Returning(Struct, frozen=True, array_like=True):
    """A task that was released and whose pods will be created again."""

    task: str
    """Name of the pod, or of the task that its label states."""
    submitted_ns: int
    requested_ns: int


class PoolFacts(Table):
    """The facts of all pools, where the policy has others than one that is decided by `session`."""

    releases: dict[str, Release] = field(default_factory=dict)
    """By UID of the pod."""
    backfilled: dict[str, None] = field(default_factory=dict)
    """UIDs of pods that were bound by backfill."""
    returning: dict[str, tuple[Returning, ...]] = field(default_factory=dict)
    """Key of a pod group to its tasks that will come back."""
    requested: dict[str, tuple[int, int]] = field(default_factory=dict)
    """UID of a pod that came back, to when its job was submitted and when it first asked for slots."""
    started: dict[str, int] = field(default_factory=dict)
    """UID of a pod to the time at which it was bound by a pool decider."""
    dirty: dict[str, None] = field(default_factory=dict)
    """Pools in which something changed since their last pass."""
    passes: dict[str, int] = field(default_factory=dict)
    """Pool to the time of its last pass."""
    due: dict[str, None] = field(default_factory=dict)
    """Pools that have a pass in the open cycle."""

    def mark_due(self, cluster: "Cluster", pool: str) -> None:
        """Record that something changed in a pool, so that its decider looks at it again."""
        if pool and pool in cluster.policy.pools.deciders:
            self.dirty[pool] = None

    def mark_all_due(self, cluster: "Cluster") -> None:
        """Record that something changed in all pools."""
        self.dirty.update(dict.fromkeys(cluster.policy.pools.deciders))

    def decided(self, cluster: "Cluster", position: int, event: Decision) -> None:
        """Keep which pods are asked to exit, which are bound by backfill, and when pods were bound."""
        match event:
            case ReleaseDecided():
                for one in event.evictions:
                    release = Release(position, one.pod, event.in_favour_of, event.deadline_ns)
                    self.releases[one.uid] = release
                cluster.changed_rows.groups[event.pod_group] = None
            case EvictionDecided(action=action) if action == RELEASE:
                # They are evicted without having been asked: as if they were asked.
                for one in event.evictions:
                    if one.uid not in self.releases:
                        release = Release(position, one.pod, event.in_favour_of, cluster.now_ns)
                        self.releases[one.uid] = structs.replace(release, is_marked=True)
            case GangBindDecided():
                uids = [one.uid for one in event.placements]
                if isinstance(event, BackfillBindDecided):
                    self.backfilled.update(dict.fromkeys(uids))
                if cluster.policy.pools.deciders:
                    self.started.update(dict.fromkeys(uids, cluster.now_ns))
            case _:
                pass

    def mark_answered(self, what: str, uid: str, decision: int, *, is_lost: bool) -> None:
        """Record that the request is written on a pod or refused, or (`is_lost`) that no answer came."""
        one = self.releases.get(uid)
        if what != RELEASE_MARK or one is None or one.decision != decision:
            return
        tries = one.tries + is_lost
        is_marked = not is_lost or tries >= TRIES_MAX
        self.releases[uid] = structs.replace(one, tries=tries, is_marked=is_marked)

    def mark_requests(self) -> Iterator[PodMarkRequest]:
        """Yield the requests that are not written on their pods, in the order of their decisions."""
        waiting = [(one.decision, uid) for uid, one in self.releases.items() if not one.is_marked]
        for decision, uid in sorted(waiting):
            release = self.releases[uid]
            namespace, _, name = release.pod.partition("/")
            at = datetime.fromtimestamp(release.deadline_ns // SECOND, UTC)
            annotations = {RELEASE_REQUESTED: at.strftime("%Y-%m-%dT%H:%M:%SZ")}
            yield PodMarkRequest(
                decision, namespace, name, uid, RELEASE_MARK, annotations, {LABEL: "true"}
            )

    def standing(self, cluster: "Cluster") -> "Iterator[tuple[Pod, Release]]":
        """Yield the pods that are asked to exit and are evicted at their deadlines: not those that are terminating, or
        whose eviction has just failed."""
        for uid, one in self.releases.items():
            pod = cluster.pods[uid]
            if not (pod.evicted or pod.facts.is_releasing or uid in cluster.eviction_backoff):
                yield pod, one

    def deadlines(self, cluster: "Cluster") -> Iterator[int]:
        """Yield the times at which a cycle is due."""
        for _, one in self.standing(cluster):
            yield one.deadline_ns
        for pool in cluster.policy.pools.all:
            yield from self._run_times(pool, self.passes.get(pool.name, 0))
        for name in self.dirty:
            yield self.passes.get(name, -PASS_INTERVAL_NS) + PASS_INTERVAL_NS

    def _run_times(self, pool: Pool, after_ns: int) -> Iterator[int]:
        """Yield the times after a pass at which tasks of a pool have run for so long that they may be preempted."""
        if pool.min_run_ns:
            for started in self.started.values():
                if started + pool.min_run_ns > after_ns:
                    yield started + pool.min_run_ns

    def cycle_opened(self, cluster: "Cluster") -> None:
        """Choose the pools that have a pass in this cycle."""
        self.due, now_ns = {}, cluster.now_ns
        for pool in cluster.policy.pools.all:
            times = self._run_times(pool, self.passes.get(pool.name, 0))
            if min(times, default=now_ns + 1) <= now_ns:
                self.dirty[pool.name] = None
        for name in sorted(self.dirty):
            if now_ns >= self.passes.get(name, -PASS_INTERVAL_NS) + PASS_INTERVAL_NS:
                self.due[name] = None
                self.passes[name] = now_ns
                del self.dirty[name]

    def policy_changed(self, cluster: "Cluster") -> None:
        """Forget the passes of pools that there are no longer, or that no decider decides any more."""
        for kept in (self.dirty, self.passes, self.due):
            for name in [name for name in kept if name not in cluster.policy.pools.deciders]:
                del kept[name]

    def pod_added(self, cluster: "Cluster", pod: Pod) -> None:
        """Give a pod the place of the released task that it continues, if there is one."""
        waiting = self.returning.get(pod.group_key)
        if not waiting or pod.node or pod.facts.uid in self.requested:
            return
        name = task_name(pod)
        found = next((one for one in waiting if one.task == name), waiting[0])
        left = tuple([one for one in waiting if one is not found])
        if left:
            self.returning[pod.group_key] = left
        else:
            del self.returning[pod.group_key]
        self.requested[pod.facts.uid] = (found.submitted_ns, found.requested_ns)

    def pod_ended(self, cluster: "Cluster", pod: Pod, *, is_deleted: bool) -> None:
        """Forget a pod that has ended or was deleted. If it was asked to release, its task will come back."""
        uid = pod.facts.uid
        if self.releases.pop(uid, None) is not None:
            submitted, requested = self.requested.get(uid, (0, 0))
            group = cluster.groups.get(pod.group_key)
            submitted = submitted or (
                pod.facts.created_ns if group is None else group.observed.created_ns
            )
            one = Returning(task_name(pod), submitted, requested or pod.facts.created_ns)
            self.returning[pod.group_key] = (*self.returning.pop(pod.group_key, ()), one)
            if len(self.returning) > RETURNING_MAX:
                del self.returning[next(iter(self.returning))]
        self.backfilled.pop(uid, None)
        self.started.pop(uid, None)
        if is_deleted:
            self.requested.pop(uid, None)


def task_name(pod: Pod) -> str:
    """Return by which name a pod that continues a task is found: its label, or the name of the pod."""
    return dict(pod.facts.pool_options).get(TASK, pod.facts.name)
