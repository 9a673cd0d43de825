"""Recount HyperNodes and sub-groups from their facts."""

from projections.cluster import Cluster
from projections.hyper_tree import HyperTree, circular
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED, PENDING, READY
from projections.sub_groups import SubGroupKey, SubGroups


def recount(cluster: Cluster) -> None:
    """Find members and sub-groups again. Raise AssertionError if they differ."""
    kept, counted = cluster.nodes.hyper_tree, HyperTree()
    for name, facts in kept.facts.items():
        there = ((one.name, one.facts.labels) for one in cluster.nodes.nodes.values() if one.facts)
        assert facts.name == name, f"HyperNode {facts.name} has the key {name}"
        counted.put(facts, there)
    for what in ("parents", "nodes", "of_node", "selecting", "multi_parent"):
        ours, theirs = getattr(kept, what), getattr(counted, what)
        assert ours == theirs, f"HyperNodes' {what}: kept {ours}, counted {theirs}"
    assert list(kept.circular) == list(circular(kept.facts)), f"in a cycle: {kept.circular}"
    for name in kept.facts:
        standing = cluster.config_errors.current.get(f"HyperNode//{name}", ())
        assert standing == kept.faults_of(name), f"HyperNode {name} faults: kept {standing}"
    for group in cluster.groups.values():
        _recount_parts(group)


def _recount_parts(group: PodGroup) -> None:
    rules = () if group.facts is None else group.facts.sub_group_rules
    assert rules == (() if group.sub_groups is None else group.sub_groups.rules), (
        f"{group.key} has other sub-group policies"
    )
    counted = SubGroups(rules)
    standing: dict[tuple[SubGroupKey | None, str], int] = {}
    for pod in group.pods.values():
        key = counted.key_of(pod.facts.labels)
        is_free = pod.status == PENDING and pod.pod_class.is_best_effort
        if key is not None and (pod.status in READY or is_free):
            counted.count(key, 1)
        if pod.status in ALLOCATED:
            standing[key, pod.node] = standing.get((key, pod.node), 0) + 1
    ours, theirs = {} if group.sub_groups is None else group.sub_groups.ready, counted.ready
    assert ours == theirs, f"pod group {group.key} sub-groups: kept {ours}, counted {theirs}"
    there = standing if group.has_topology_constraint else None
    assert group.pods_by_node == there, (
        f"pod group {group.key} pods by node: {group.pods_by_node}, {there}"
    )
