"""Protected pods: `volcano.sh/preemptable: "false"`, a DaemonSet as the owner, and PodDisruptionBudgets protect a pod only within what
its queue deserves.

What a queue holds above that was lent to it: a queue that stays within what it deserves with the request may reclaim it, whatever
the pods there say. The search tries first without any protected pod, on all nodes; protected pods are then the last in the order of
eviction. A protected pod is a victim if its queue, once the victims before it are gone, has more than it deserves of a resource that
both the pod and the preemptor use; under hierarchical `drf` alone, if its queue has at least the preemptor's share by weight
afterwards. Without a
plugin that says what queues deserve, nothing is above that, and protection always holds. It always holds for `preempt`, too: within
a queue no namespace deserves a part of its own, and a priority that a job states must not end the protection of others.

A budget is asked first, through the eviction API. Only after it has refused for `budgetTimeout` are its pods deleted without it.
Until then no other pod of the plan is evicted, because it would be evicted in vain.
"""

from collections.abc import Mapping
from fractions import Fraction

from projections.budget_refusals import is_namespace_overdue, is_overdue
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.queues import Queue, add
from projections.shares import dominant
from scheduling.group_trial import GroupTrial
from scheduling.quota import quota_check
from scheduling.quota.fair_tree import path_of
from scheduling.quota.queue_order import QueueOrder, keeps_fair_tree
from scheduling.quota.quota_rules import RemainingCharges, quota_of
from scheduling.session import Session
from scheduling.victim_eligibility import eviction_limits
from scheduling.victims.pdb_filter import BudgetsLeft
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimPlugins


def may_be_protected(session: Session, action: str, group: PodGroup) -> bool:
    """Return whether an action could evict protected pods for a group, where no others will do."""
    cluster, donors = session.cluster, session.donors
    if not eviction_limits(cluster, action).takes_protected or not donors.has_other_than(
        group.queue
    ):
        return False
    if not quota_of(cluster).is_named and not keeps_fair_tree(cluster):
        return False
    if any(cluster.queues[name].protected for name in donors.others(group.queue)):
        return True
    for of_namespace in cluster.budgets.all.values():
        session.work.add(len(of_namespace))
        for budget in of_namespace.values():
            # A budget selects pods of any queue: its owner chooses which are the first.
            for count, uid in enumerate(budget.pods, 1):
                of_group = cluster.groups.get(cluster.pods[uid].group_key)
                if (
                    of_group is not None
                    and of_group.queue != group.queue
                    and of_group.queue in donors.names
                ):
                    session.work.add(count)
                    return True
            session.work.add(len(budget.pods))
    return False


def asked_first(trial: GroupTrial) -> list[Pod]:
    """Return the victims of reclaim whose budgets must be asked before any pod is evicted, because they have not refused for
    long enough."""
    refused = BudgetsLeft(trial.cluster).refused(trial.evicted)
    return [pod for pod in refused if not is_overdue(trial.cluster, pod.facts.uid)]


class VictimProtection:
    """Which candidates one preemptor may evict: victim plugins and budgets agree, and what protects the others does not hold."""

    def __init__(self, preemptor: Preemptor) -> None:
        self._preemptor = preemptor
        self._plugins = VictimPlugins(preemptor)
        self._budgets = preemptor.cluster.budgets
        self._refused = preemptor.cluster.budget_refusals
        """UIDs of the pods whose budgets refused in the last minutes."""

    def allowed(self, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that may be evicted together, the unprotected ones first, else in the order given."""
        preemptor = self._preemptor
        free = [pod for pod in candidates if not pod.facts.is_protected]
        if self._budgets.all or self._refused:
            left = self._budgets_left()
            free = [pod for pod in free if not self._is_refused(left, pod)]
        if not preemptor.takes_protected:
            return self._within_budgets(self._plugins.eligible(free))
        is_free = {pod.facts.uid: None for pod in free}
        held = [pod for pod in candidates if pod.facts.uid not in is_free]
        eligible = self._plugins.eligible([*free, *held])
        allowed = self._within_budgets([one for one in eligible if one.facts.uid in is_free])
        chosen = {pod.facts.uid: None for pod in allowed}
        rest = [one for one in eligible if one.facts.uid not in chosen and self._may_be_asked(one)]
        return [*allowed, *self._above_deserved(allowed, rest)]

    def is_protected(self, pod: Pod) -> bool:
        """Return whether a pod is protected, after the victims chosen already."""
        return pod.facts.is_protected or self._is_refused(self._budgets_left(), pod)

    def _budgets_left(self) -> BudgetsLeft:
        return BudgetsLeft(self._preemptor.cluster, self._preemptor.trial.evicted)

    def _within_budgets(self, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that budgets let go together."""
        return self._budgets_left().allowed(candidates) if self._budgets.all else candidates

    def _is_refused(self, left: BudgetsLeft, pod: Pod) -> bool:
        """Return whether budgets refuse the eviction of a pod; for `reclaim` also if they did so in the last minutes, whatever
        is counted here."""
        has_failed = self._preemptor.is_reclaiming and pod.facts.uid in self._refused
        return has_failed or left.refuse(pod)

    def _may_be_asked(self, pod: Pod) -> bool:
        """Return False for a pod whose budgets refused another pod a moment ago, or always hold. Those that have refused for long
        enough are asked about all pods at once: one after the other, many pods would take many times as long."""
        cluster = self._preemptor.cluster
        covering = self._budgets.covering(pod)
        if not covering and pod.facts.uid not in self._refused:
            return True
        if not cluster.policy.action_arguments.budget_timeout_ns:
            return False
        if is_namespace_overdue(cluster, pod.facts.namespace):
            return True
        return not any(
            uid in budget.pods
            for uid in cluster.eviction_backoff
            if uid in self._refused
            for budget in covering
        )

    def _above_deserved(self, gone: list[Pod], candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that their queues hold above what they deserve, once `gone` and the ones before are evicted."""
        if not candidates:
            return []
        preemptor = self._preemptor
        cluster, rules = preemptor.cluster, quota_of(preemptor.cluster)
        if not rules.is_named:
            return self._above_fair_share(candidates)
        deserved = rules.deserved(cluster, preemptor.queue)
        asked = dict(preemptor.asked)
        entitled = [(name, amount) for name, amount in asked.items() if deserved.get(name)]
        extra = preemptor.trial.extra
        if not entitled or any(
            quota_check.used(preemptor.queue, name, extra) + amount > deserved[name]
            for name, amount in entitled
        ):
            return []
        left = RemainingCharges(cluster, preemptor.trial.lost_by_lineage)
        for pod in gone:
            left.evict(pod)
        chosen: list[Pod] = []
        for pod in candidates:
            theirs = left.queue_of(pod)
            deserved = rules.deserved(cluster, theirs)
            names = [name for name, amount in pod.charge or () if amount]
            common = [name for name in names if asked.get(name)] or names
            relevant = [name for name in common if deserved.get(name)] or [
                name for name in names if deserved.get(name)
            ]
            if not relevant or left.exceeds(theirs, deserved, relevant):
                left.evict(pod)
                chosen.append(pod)
        return chosen

    def _above_fair_share(self, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates whose queues keep at least the preemptor's share of the cluster by weight; none without a tree of
        shares. Unlike in the order of queues, a queue that waits for nothing keeps its share, too."""
        found: list[Pod] = []
        for tier in self._plugins.tiers:
            for plugin in tier:
                if isinstance(plugin, QueueOrder) and plugin.keeps_fair_tree:
                    found = plugin.victims(self._preemptor, candidates)
        if not found:
            return []
        shares = _WeightedShares(self._preemptor)
        return [pod for pod in found if shares.release(pod)]


class _WeightedShares:
    """What queues hold while pods are chosen as victims of a preemptor."""

    def __init__(self, preemptor: Preemptor) -> None:
        self._cluster, self._queue = preemptor.cluster, preemptor.queue
        trial, self._group = preemptor.trial, preemptor.group.key
        self._moved: dict[str, Amounts] = {}
        """Queue to what it holds more or less than State says."""
        for pod in (*[one.pod for one in trial.placed], *(preemptor.wanted or (preemptor.pod,))):
            self._move(self._queue.name, pod, 1)
        for pod in trial.evicted:
            self._move(self._queue_of(pod), pod, -1)
        self._work = preemptor.work
        self._work.add(len(self._cluster.queues))
        self._below: dict[tuple[str, ...], Amounts] = {}

    def release(self, pod: Pod) -> bool:
        """Evict a pod if its queue keeps at least the preemptor's share without it; return whether it does."""
        name = self._queue_of(pod)
        self._move(name, pod, -1)
        if self._is_above(self._cluster.queues[name]):
            return True
        self._move(name, pod, 1)
        return False

    def _queue_of(self, pod: Pod) -> str:
        return self._cluster.groups[pod.group_key].queue

    def _move(self, queue: str, pod: Pod, sign: int) -> None:
        add(self._moved.setdefault(queue, {}), pod.pod_class.request, sign)

    def _is_above(self, theirs: Queue) -> bool:
        """Compare both queues, or what is above them, where their paths in the tree part."""
        queues = self._cluster.queues
        ours, other = list(path_of(self._queue, queues)), list(path_of(theirs, queues))
        for level, ((name, weight), (other_name, other_weight)) in enumerate(
            zip(ours, other, strict=False)
        ):
            if name != other_name:
                path = tuple([one for one, _ in ours[: level + 1]])
                our_share = self._share(path) / weight
                return our_share <= self._share((*path[:-1], other_name)) / other_weight
        return False

    def _share(self, path: tuple[str, ...]) -> Fraction:
        """Return the dominant share of all queues below a path."""
        queues, total = self._cluster.queues, dict(self._held_below(path))
        for name, moved in self._moved.items():
            if _is_below(queues[name], queues, path):
                add(total, tuple(moved.items()), 1)
        return Fraction(dominant(total, self._cluster.cluster_totals.totals))

    def _held_below(self, path: tuple[str, ...]) -> Amounts:
        """Return what all queues below a path hold in State, and what is kept for their nominated pods."""
        if path not in self._below:
            total = self._below[path] = {}
            groups, queues = self._cluster.groups, self._cluster.queues
            for queue in queues.values():
                if not _is_below(queue, queues, path):
                    continue
                add(total, tuple(queue.held.items()), 1)
                self._work.add(len(queue.groups))
                for key in queue.groups:
                    if key == self._group:
                        continue  # Its nominated pods are among those placed.
                    for nominated in groups[key].decided.nominations.values():
                        add(total, nominated.request, 1)
        return self._below[path]


def _is_below(queue: Queue, queues: Mapping[str, Queue], path: tuple[str, ...]) -> bool:
    return tuple([one for one, _ in path_of(queue, queues)][: len(path)]) == path
