"""Apply nodes and HyperNodes to the cluster."""

from collections.abc import Callable, Iterable

from events.normalize_config_map import DEVICE_INFO, DEVICE_PREFIX
from projections.cluster import Cluster
from projections.deltas import NodeChanged
from projections.device_holders import HELD_TWICE
from projections.device_report import DeviceReport, Reports, report_of
from projections.hyper_nodes import HyperNodeFacts
from projections.hyper_tree import HyperTree
from projections.nodes import NodeFacts
from projections.pod_devices import reassign_devices
from projections.policy.policy import Policy
from projections.quarantine import forget_node
from projections.unready_nodes import update_unready
from projections.wakeup_events import ALL_PODS


def put_node(cluster: Cluster, facts: NodeFacts, digest: str) -> None:
    """Add or update a node."""
    before = cluster.nodes.ensure_node(facts.name).facts
    cluster.nodes.put(facts, digest)
    cluster.wakeup_events.nodes_updated[facts.name] = None
    cluster.config_errors.put(f"Node//{facts.name}", facts.faults, keeps=(HELD_TWICE,))
    update_unready(cluster, before, facts)
    _changed(cluster, facts.name, NodeChanged(before, facts))
    if facts.devices != (before.devices if before is not None else {}):
        reassign_devices(cluster, facts.name)


def node_report(cluster: Cluster, name: str) -> DeviceReport | None:
    """Return what the device reports that the policy reads say of a node; None if none mentions it."""
    own_only = cluster.plugins.ignores_cluster_reports
    return report_of(cluster.object_facts, name, own_only=own_only)


def change_policy(cluster: Cluster, policy: Policy) -> None:
    """Set another policy, and update the nodes of which it reads other device reports."""
    change_reports(cluster, cluster.nodes.nodes, lambda: cluster.change_policy(policy))


def change_reports(cluster: Cluster, names: Iterable[str], change: Callable[[], None]) -> None:
    """Make a change of device reports, and update the nodes of these names whose report it changes."""
    known = [name for name in names if (node := cluster.nodes.nodes.get(name)) and node.is_present]
    before = [node_report(cluster, name) for name in known]
    change()
    for name, was in zip(known, before, strict=True):
        report, node = node_report(cluster, name), cluster.nodes.nodes[name]
        if report == was or node.facts is None:
            continue
        facts = node.facts.with_report(cluster.device_families, was, report)
        if facts != node.facts:
            put_node(cluster, facts, node.digest)


def drop_node(cluster: Cluster, name: str) -> None:
    """Remove a node; pods on it remain until they are deleted too."""
    before = cluster.nodes.nodes[name].facts
    forget_node(cluster, name)
    cluster.nodes.drop(name)
    cluster.config_errors.put(f"Node//{name}", ())
    update_unready(cluster, before, None)
    _changed(cluster, name, NodeChanged(before, None))
    _forget_report(cluster, name)


def _forget_report(cluster: Cluster, node: str) -> None:
    """Forget the report of a node that is gone, if the ConfigMap with it was deleted before."""
    of_kind = cluster.object_facts.get(DEVICE_INFO.kind, {})
    name = f"{DEVICE_INFO.namespace}/{DEVICE_PREFIX}{node}"
    found = of_kind.get(name)
    if isinstance(found, Reports) and found.is_gone:
        del of_kind[name]


def put_hyper_node(cluster: Cluster, facts: HyperNodeFacts) -> None:
    """Add or update a HyperNode."""
    there = ((name, one.facts.labels) for name, one in cluster.nodes.nodes.items() if one.facts)
    _change_hyper_nodes(cluster, facts.name, lambda tree: tree.put(facts, there))


def drop_hyper_node(cluster: Cluster, name: str) -> None:
    """Remove a HyperNode."""
    _change_hyper_nodes(cluster, name, lambda tree: tree.drop(name))


def _change_hyper_nodes(cluster: Cluster, name: str, change: Callable[[HyperTree], None]) -> None:
    tree = cluster.nodes.hyper_tree
    before = _readiness(tree, name)
    version, related, changed_nodes = tree.version, tree.related(name), list(tree.below(name))
    change(tree)
    if tree.version == version:
        return
    tree.report_errors(cluster.config_errors, {**related, **tree.related(name)})
    cluster.changed_rows.topology.update(dict.fromkeys((*changed_nodes, *tree.below(name))))
    cluster.wakeup_events.hyper_nodes_changed_at = cluster.position
    if _readiness(tree, name) != before:
        close = (key for key, group in cluster.groups.items() if group.has_topology_constraint)
        cluster.pod_groups.mark_all(close, cluster.position)


def _readiness(tree: HyperTree, name: str) -> tuple[str, bool, str | None]:
    """Return what decides whether any group can be placed by the tree, as far as one HyperNode changes it."""
    facts = tree.facts.get(name)
    return tree.problem, bool(tree.facts), None if facts is None else facts.tier_name


def _changed(cluster: Cluster, name: str, delta: NodeChanged) -> None:
    cluster.changed_rows.nodes[name] = cluster.changed_rows.topology[name] = None
    cluster.mark_node_freed(name)
    if cluster.inter_pod_affinity.pods_with_terms:
        cluster.wakeup_events.changed_pod_kinds[ALL_PODS] = None
    cluster.indexes.dispatch(cluster, delta)
    cluster.plugins.quota.nodes_changed(cluster)
