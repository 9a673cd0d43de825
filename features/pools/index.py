"""Which pool each node and each pod group belongs to, and the pod groups of each pool."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

from features.pools.bounded_options import effective_options
from features.pools.facts import PoolFacts
from features.pools.group_overrides import override_of
from features.pools.job_options import JobOptions, job_options, unused_option
from features.pools.job_priority import job_priority
from projections.config_errors import OPTION_CUT, UNUSED_OPTION
from projections.deltas import ONLY_RUNS
from projections.index import Index
from projections.job_option_keys import RELEASE_REQUESTED, TASK
from projections.kinds.namespace import pool_of_namespace
from projections.pod_terms import Labels
from projections.pods import FAILED, SUCCEEDED
from projections.policy.policy import Policy
from projections.policy.pools import CPU, PRIORITY, Pool, Pools
from projections.pool_members import PoolMembers
from projections.resource_names import counts_devices
from projections.wakeup_events import WakeupFollower

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.deltas import (
        NodeChanged,
        PodChanged,
        PodGroupChanged,
        PolicyChanged,
        QueueChanged,
    )
    from projections.nodes import NodeFacts
    from projections.pod_class import PodClass
    from projections.pod_groups import PodGroup


MILLI: Final = 1000
ENDED: Final = (SUCCEEDED, FAILED)


class PoolIndex(Index):
    """The pools of nodes and pod groups, where the policy has others than one that is decided by `session`."""

    name = "pools"
    COMPARED: ClassVar[tuple[str, ...]] = ("nodes", "groups", "by_pool", "options")

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        """Node to its pool; "" for a node in none."""
        self.groups: dict[str, str] = {}
        """Pod group to its pool; "" if it names a pool that does not exist."""
        self.by_pool: dict[str, dict[str, None]] = {}
        """Pool to the keys of its pod groups."""
        self.options: dict[str, JobOptions] = {}
        """Pod group to its options as they count, if there are pools: what it states, cut to the bounds of its queue and
        pool, and what an operator has set."""

    def rebuilt(self, cluster: Cluster, /) -> PoolIndex:
        """Assign all nodes and pod groups again."""
        twin = PoolIndex()
        for node in cluster.nodes.nodes.values():
            if node.facts is not None:
                twin.nodes[node.name] = cluster.policy.pools.of_node(node.facts.labels)
        for group in cluster.groups.values():
            pool = pool_of(cluster, group)
            twin._put(group.key, pool)
            if cluster.policy.pools.deciders:
                found = cluster.policy.pools.named(pool)
                twin.options[group.key] = effective_options(
                    cluster, group, found, options_of(group)
                )
        return twin

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        """Assign a node to its pool, and let that be due for a pass."""
        facts = delta.new or delta.old
        assert facts is not None
        pools = cluster.tables.of(PoolFacts)
        before = self.nodes.pop(facts.name, None)
        if before is not None:
            pools.mark_due(cluster, before)
        if delta.new is not None:
            self.nodes[facts.name] = pool = cluster.policy.pools.of_node(facts.labels)
            pools.mark_due(cluster, pool)

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Let the pools of the pods and of their nodes be due for a pass, unless the pods only began to run."""
        pools = cluster.tables.of(PoolFacts)
        for one in changes if cluster.policy.pools.deciders else ():
            cluster.position = one.position
            pod = one.new or one.old
            assert pod is not None
            if one.extent == ONLY_RUNS:
                continue
            if pod.node:
                pools.mark_due(cluster, self.nodes.get(pod.node, ""))
            if pod.group_key:
                pools.mark_due(cluster, self.groups.get(pod.group_key, ""))

    def on_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Assign pod groups to their pools."""
        for one in changes:
            cluster.position = one.position
            self._assign(cluster, one)

    def _assign(self, cluster: Cluster, delta: PodGroupChanged) -> None:
        key, pools = delta.group.key, cluster.tables.of(PoolFacts)
        before = self.groups.get(key)
        pool = "" if delta.is_gone else pool_of(cluster, delta.group)
        if delta.is_gone:
            self.options.pop(key, None)
        elif cluster.policy.pools.deciders:
            found = cluster.policy.pools.named(pool)
            options = effective_options(cluster, delta.group, found, options_of(delta.group))
            if self.options.get(key) != options:
                self.options[key] = options
                pools.mark_due(cluster, pool)
        self._report_unused(cluster, key, pool)
        if before == pool and not delta.is_gone:
            return
        if before is not None:
            del self.groups[key]
            del self.by_pool[before][key]
            if not self.by_pool[before]:
                del self.by_pool[before]
            pools.mark_due(cluster, before)
        if not delta.is_gone:
            self._put(key, pool)
            pools.mark_due(cluster, pool)

    def on_queue(self, cluster: Cluster, delta: QueueChanged) -> None:
        """Let all pools be due for a pass: a quota may have changed."""
        if not delta.is_same_spec:
            cluster.tables.of(PoolFacts).mark_all_due(cluster)

    def on_policy(self, cluster: Cluster, delta: PolicyChanged) -> None:
        """Assign everything again."""
        self.rebuild(cluster)
        for key, pool in self.groups.items():
            self._report_unused(cluster, key, pool)
        facts = cluster.tables.of(PoolFacts)
        facts.dirty = {}
        facts.mark_all_due(cluster)

    def dropped(self, cluster: Cluster) -> None:
        """Remove the errors about options."""
        for key in self.groups:
            if key in cluster.groups:
                for code in (UNUSED_OPTION, OPTION_CUT):
                    cluster.config_errors.replace(f"PodGroup/{key}", code, ())

    def _report_unused(self, cluster: Cluster, key: str, name: str) -> None:
        """Keep as configuration errors the options of a pod group that have no effect in its pool, or are beyond a bound."""
        options, subject = self.options.get(key), f"PodGroup/{key}"
        if options is None and subject not in cluster.config_errors.current:
            return
        pool = cluster.policy.pools.named(name)
        reasons: list[str] = []
        if options is not None and pool is not None and not cluster.groups[key].is_foreign:
            reasons = [text for one in options.stated if (text := unused_option(one, pool))]
        faults = tuple([(UNUSED_OPTION, text) for text in reasons])
        cluster.config_errors.replace(subject, UNUSED_OPTION, faults)
        cuts: list[str] = []
        if options is not None and pool is not None and not cluster.groups[key].is_foreign:
            cuts = [*options.cuts, *_priority_cut(cluster, pool, cluster.groups[key], options)]
        faults = tuple([(OPTION_CUT, text) for text in cuts])
        cluster.config_errors.replace(subject, OPTION_CUT, faults)

    def _put(self, key: str, pool: str) -> None:
        self.groups[key] = pool
        self.by_pool.setdefault(pool, {})[key] = None


class Members(PoolMembers):
    """Divides nodes and pod groups by the index of pools."""

    def nodes(self, cluster: Cluster) -> dict[str, str]:
        """Return node to pool; "" for a node in none."""
        return cluster.indexes.of(PoolIndex).nodes

    def groups(self, cluster: Cluster) -> dict[str, str]:
        """Return pod group to pool; "" for one that names a pool that does not exist."""
        return cluster.indexes.of(PoolIndex).groups

    def pool_of(self, cluster: Cluster, group: PodGroup) -> str:
        """Return the pool of a pod group as its object, pods and namespace say now; "" if it names one that does not exist."""
        return pool_of(cluster, group)

    def is_put_by_operator(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether an operator has put a pod group into its pool."""
        return bool(operator_pool(cluster, group))

    def policy_problem(self, cluster: Cluster, policy: Policy) -> str:
        """Return that a pool with jobs is missing in a policy (determined 6.4); "" if none is."""
        if cluster.policy.pools.is_plain:
            return ""
        return removed_pools(cluster, policy.pools)


class PoolsDue(WakeupFollower):
    """Lets the decider of a pool look again at what is woken there."""

    def group_woken(self, cluster: Cluster, key: str) -> None:
        """Record that something changed in the pool of a pod group."""
        pool = cluster.indexes.of(PoolIndex).groups.get(key, "")
        cluster.tables.of(PoolFacts).mark_due(cluster, pool)

    def all_woken(self, cluster: Cluster) -> None:
        """Record that something changed in all pools."""
        cluster.tables.of(PoolFacts).mark_all_due(cluster)

    def node_counted(self, cluster: Cluster, facts: NodeFacts) -> None:
        """Record that something changed in the pool of a node."""
        pool = cluster.policy.pools.of_node(facts.labels)
        cluster.tables.of(PoolFacts).mark_due(cluster, pool)


def _priority_cut(
    cluster: Cluster, pool: Pool, group: PodGroup, options: JobOptions
) -> tuple[str, ...]:
    """Return that the priority of a job is cut to a bound, if it is."""
    is_named = group.observed.facts is not None and bool(group.observed.facts.priority_class)
    if pool.decider != PRIORITY or not (cluster.policy.bounds_priorities or is_named):
        return ()
    cut = job_priority(cluster, pool, group, options).cut
    return (cut,) if cut else ()


def pools_of_groups(cluster: Cluster) -> dict[str, str]:
    """Return pod group to pool; "" for one that names a pool that does not exist."""
    index = cluster.indexes.find(PoolIndex)
    return (
        dict.fromkeys(cluster.groups, cluster.policy.pools.all[0].name)
        if index is None
        else index.groups
    )


def pools_of_nodes(cluster: Cluster) -> dict[str, str]:
    """Return node to pool; "" for a node in none."""
    index = cluster.indexes.find(PoolIndex)
    if index is not None:
        return index.nodes
    there = [name for name, node in cluster.nodes.nodes.items() if node.facts is not None]
    return dict.fromkeys(there, cluster.policy.pools.all[0].name)


def operator_pool(cluster: Cluster, group: PodGroup) -> str:
    """Return the pool into which an operator has put a pod group; "" if none has."""
    override = override_of(cluster, group)
    return "" if override is None else override.pool


def pool_of(cluster: Cluster, group: PodGroup) -> str:
    """Return the pool of a pod group: the one into which an operator has put it, that it names, that its namespace names, whose nodes its pods select, or
    the default one; "" if it names one that does not exist."""
    pools = cluster.policy.pools
    if pools.is_plain:
        return pools.all[0].name
    if len(pools.all) == 1 and not pools.all[0].node_selector:
        only = pools.all[0]
        stated = operator_pool(cluster, group) or options_of(group).pool
        return only.name if not stated or only.is_session or pools.named(stated) else ""
    stated = operator_pool(cluster, group) or options_of(group).pool
    named = stated or pool_of_namespace(cluster, group.key.partition("/")[0])
    if named:
        found = pools.named(named)
        return "" if found is None else found.name
    for pod_class in group.classes.values():
        pairs = dict(pod_class.selector.pairs)
        for one in pools.all:
            if one.node_selector and one.node_selector_is_in(pairs):
                return one.name
    compute = pools.named(pools.compute)
    assert compute is not None
    if group.classes and not any(slots_of(compute, one) for one in group.classes.values()):
        return pools.aux
    return pools.compute


def removed_pools(cluster: Cluster, pools: Pools) -> str:
    """Return why the pools of a policy cannot take the place of those in force: one with jobs is missing; "" if they can
    (determined 6.4)."""
    for name, groups in sorted(cluster.indexes.of(PoolIndex).by_pool.items()):
        if not name or pools.named(name) is not None:
            continue
        jobs = [key for key in groups if cluster.groups[key].pods]
        if jobs:
            return (
                f"pool {name} is missing and has {len(jobs)} pod groups, such as {min(jobs)}: keep it, or name it in"
                f" `replaces` of another pool"
            )
    return ""


def options_of(group: PodGroup) -> JobOptions:
    """Return what a pod group and its pods state."""
    of_object = () if group.observed.facts is None else group.observed.facts.pool_options
    of_pods: dict[Labels, None] = {}
    for one in group.pods.values():
        if one.facts.pool_options and one.status not in ENDED:
            of_pods[_of_job(one.facts.pool_options)] = None
    return job_options(of_object, tuple(of_pods))


@lru_cache(maxsize=1 << 14)
def _of_job(stated: Labels) -> Labels:
    """Return what a pod states of its job, and not of itself."""
    return tuple([one for one in stated if one[0] not in (TASK, RELEASE_REQUESTED)])


def slots_of(pool: Pool, pod_class: PodClass) -> int:
    """Return the slots that a pod of a class asks for in a pool."""
    total = 0
    for name, amount in pod_class.request:
        if is_slot(pool, name):
            total += -(-amount // MILLI) if name == CPU else amount
    return total


def slots_of_node(pool: Pool, node: NodeFacts) -> int:
    """Return the slots of a node, if it is in a pool."""
    return sum(
        amount // MILLI if name == CPU else amount
        for name, amount in node.allocatable.items()
        if is_slot(pool, name)
    )


def is_slot(pool: Pool, name: str) -> bool:
    """Return whether a resource counts as slots of a pool."""
    return name in pool.slots if pool.slots else counts_devices(name)
