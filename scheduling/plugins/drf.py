"""`drf`: dominant resource fairness between pod groups, and with `enableHierarchy` between queues in a tree.

The share of a group is the largest fraction that it holds of any resource of the cluster (`projections/shares.py`);
the shares of queues are in `scheduling/quota/fair_tree.py`.
"""

from collections.abc import Iterable

from msgspec import Struct

from events.errors import PolicyError
from projections.cluster import Cluster
from projections.plugin import JobOrder
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy.plugin_config import PluginConfig, PolicyPlugin
from projections.policy.policy import RECLAIMING
from projections.queues import Queue, add
from projections.shares import EQUAL, dominant, with_more
from scheduling.quota.fair_tree import FairKey, FairTree
from scheduling.quota.queue_order import QueueKey, QueueOrder
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimFilter
from scheduling.work_budget import FAIR, FAIR_AGAIN


class Drf(JobOrder, QueueOrder, VictimFilter):
    """Orders by dominant share: the smallest is first."""

    name = "drf"
    actions = ("preempt", "reclaim", "gangreclaim")
    depends_on_totals = True
    follows_shape = True
    compares_groups = True
    prevents_reclaim_back = True

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.keeps_fair_tree = config.takes_part("enableHierarchy")

    @classmethod
    def check(cls, config: PluginConfig, tier: Iterable[type[PolicyPlugin]], path: str) -> None:
        """Refuse a tree of shares beside a plugin that computes shares itself."""
        if config.takes_part("enableHierarchy"):
            for other in tier:
                if getattr(other, "computes_shares", False):
                    raise PolicyError(
                        f"{path}: hierarchical drf and {other.name} contradict each other"
                    )

    def takes_part(self, flag: str) -> bool:
        """Return whether it is enabled for a flag; queues are ordered by the tree only."""
        if flag == QueueOrder.FLAG and not self.keeps_fair_tree:
            return False
        return super().takes_part(flag)

    def job_order(self, cluster: Cluster, group: PodGroup) -> object:
        """Return the dominant share of the group."""
        return dominant(group.held, cluster.cluster_totals.totals) if group.held else 0

    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return the ranks of the queue in the tree of shares."""
        return _FairOrder(FairKey() if fair is None else fair.key(queue))

    def filters(self, action: str) -> bool:
        """Return whether it filters the victims of an action: those of other queues only with a tree."""
        if action in RECLAIMING and not self.keeps_fair_tree:
            return False
        return super().filters(action)

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Accept pods of groups whose share without them is still at least the preemptor's share with its pod.

        If the groups are as equal before as after, because neither dominant share is that of the pod, each could
        evict for the other without end: then only pods of lower priority or younger groups are accepted.
        """
        if preemptor.is_reclaiming:
            return self._by_fair_tree(preemptor, candidates)
        groups, totals = preemptor.cluster.groups, preemptor.cluster.cluster_totals.totals
        ours = dict(preemptor.group.held)
        for one in preemptor.trial.placed:
            ours = with_more(ours, one.pod.pod_class.request)
        for pod in preemptor.trial.evicted_of(preemptor.group.key):
            ours = with_more(ours, pod.pod_class.request, -1)
        share = dominant(ours, totals)
        asked = dominant(with_more(ours, preemptor.pod.pod_class.request), totals)
        left: dict[str, dict[str, int]] = {}
        chosen: list[Pod] = []
        for pod in candidates:
            key = pod.group_key
            if key not in left:
                left[key] = dict(groups[key].held)
                for gone in preemptor.trial.evicted_of(key):
                    left[key] = with_more(left[key], gone.pod_class.request, -1)
            without = with_more(left[key], pod.pod_class.request, -1)
            if asked > dominant(without, totals) + EQUAL:
                continue
            is_tie = dominant(left[key], totals) <= share + EQUAL and not preemptor.is_within
            if not is_tie or preemptor.comes_before(groups[key]):
                left[key] = without
                chosen.append(pod)
        return chosen

    def _by_fair_tree(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Accept pods of queues that still use more by weight than the preemptor's queue, once it has the pod, or all pods that are
        placed together, and they lost theirs."""
        cluster, fair, trial = preemptor.cluster, preemptor.fair, preemptor.trial
        ours = dict(preemptor.group.held)
        for pod in (*[one.pod for one in trial.placed], *(preemptor.wanted or (preemptor.pod,))):
            add(ours, pod.pod_class.request, 1)
        preemptor.work.add(len(preemptor.wanted))
        base = {
            key: self._held_without(preemptor, key)
            for key in fair.changed_since(trial, trial.moved)
        }
        entered = fair.entered
        fair.assume({**base, preemptor.group.key: ours})
        chosen: list[Pod] = []
        held: dict[str, Amounts] = {}
        """What the groups of candidates hold without the victims chosen here."""
        for pod in candidates:
            group = cluster.groups[pod.group_key]
            before = fair.assumed(group)
            held.setdefault(group.key, before)
            fair.assume({group.key: with_more(before, pod.pod_class.request, -1)})
            if fair.has_less(preemptor.queue, cluster.queues[group.queue]):
                chosen.append(pod)
            else:
                fair.assume({group.key: before})
        fair.assume(held)
        looks = 1 + len(base) + 2 * len(candidates)
        preemptor.work.add(FAIR * looks + FAIR_AGAIN * (fair.entered - entered))
        return chosen

    def _held_without(self, preemptor: Preemptor, key: str) -> Amounts:
        """Return what a group holds once its victims have terminated."""
        held = preemptor.cluster.groups[key].held
        for pod in preemptor.trial.evicted_of(key):
            held = with_more(held, pod.pod_class.request, -1)
        return held


class _FairOrder(Struct, frozen=True):
    """The ranks on the path to a queue, level by level."""

    key: FairKey

    def compare(self, other: QueueKey) -> int:
        assert isinstance(other, _FairOrder)
        return (self.key > other.key) - (self.key < other.key)
