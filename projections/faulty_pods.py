"""Which nodes have faults, and which pods are hit by them.

A pod is faulty for the first of these reasons that holds (the vendor's order):

1. its node is faulty as a whole, or does not exist
2. a device that it has is unhealthy
3. it failed, or the last run of one of its containers did
4. a recovery controller says so by the label `fault-type`
5. its node, or a device that it has, works with less health
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct

from events.duration import SECOND
from projections.devices import device_of
from projections.fault_options import BACKUP_OF, FAULT_TYPE, RETRY_TIMES
from projections.index import Index
from projections.node_faults import (
    CARD_UNHEALTHY,
    GONE,
    NODE_UNHEALTHY,
    SUB_HEALTH,
    FaultRules,
    NodeFault,
    node_faults,
)
from projections.pods import BINDING, FAILED, NODE_OWNERS, RELEASING, SUCCEEDED
from projections.rescheduling import Reschedulings, has_pods_again, is_stranded

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.deltas import NodeChanged, PodChanged, PodGroupChanged, PolicyChanged
    from projections.pod_groups import PodGroup
    from projections.pods import Pod
    from projections.policy.action_arguments import RescheduleArguments

POD_FAILED: Final = "pod-failed"
SEPARATE: Final = "RelationFaultSeparate"
SOFTWARE: Final = "software"
"""Names of the faults of pods in the vendor's records, beside those of `node_faults.py`."""

FAULTS_OF_PODS: Final = (
    NODE_UNHEALTHY,
    CARD_UNHEALTHY,
    SUB_HEALTH,
    POD_FAILED,
    SEPARATE,
    SOFTWARE,
)

_OF_LABEL: Final = {"Separate": SEPARATE, "SubHealth": SUB_HEALTH, "software": SOFTWARE}


class PodFault(Struct, frozen=True, array_like=True):
    """Why a pod is faulty."""

    kind: str
    """`NodeUnhealthy`, `CardUnhealthy`, `pod-failed`, `RelationFaultSeparate`, `software` or `SubHealthFault`."""
    text: str
    """What was reported, for people."""
    device: str = ""
    """The device that is unhealthy, if it is one."""
    source: str = ""


class FaultyPods(Index):
    """The faults of nodes, and the pods that they hit."""

    name = "faulty pods"
    COMPARED: ClassVar[tuple[str, ...]] = ("nodes", "pods", "by_group", "closed", "stranded")
    can_be_left_out = True

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[NodeFault, ...]] = {}
        """Name of a node with faults to these, the worst first. A node that does not exist is in it while pods are on it."""
        self.pods: dict[str, PodFault] = {}
        """UID of a pod to why it is faulty. Pods that are finished or terminating are not in it."""
        self.by_group: dict[str, dict[str, None]] = {}
        """Key of a pod group to the UIDs of its faulty pods."""
        self.stranded: dict[str, None] = {}
        """Keys of pod groups that run below their minimum; empty if the policy does not move pods after faults."""
        self.closed: dict[str, None] = {}
        """Names of nodes that are faulty as a whole: no pods are placed there."""

    def rebuilt(self, cluster: Cluster, /) -> FaultyPods:
        """Look at all nodes and pods again."""
        twin = FaultyPods()
        rules = rules_of(cluster)
        for name, node in cluster.nodes.nodes.items():
            if node.facts is not None or node.pods:
                twin._set_node(name, node_faults(node.facts, rules))
        for pod in cluster.pods.values():
            twin._set_pod(pod, twin._fault_of(cluster, pod))
        if cluster.policy.reschedules:
            twin.stranded = {key: None for key, one in cluster.groups.items() if is_stranded(one)}
        return twin

    def faults_of(self, node: str) -> tuple[NodeFault, ...]:
        """Return the faults of a node, the worst first."""
        return self.nodes.get(node, ())

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        """Update the faults of a node and of the pods on it."""
        facts = delta.new or delta.old
        assert facts is not None
        self._update_node(cluster, facts.name)

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Update pods, but for those of which, as with nearly all, nothing is a fault or was one."""
        nodes, with_faults, faulty = cluster.nodes.nodes, self.nodes, self.pods
        for one in changes:
            for pod in (one.new, one.old):
                if pod is None:
                    continue
                facts, name = pod.facts, pod.node
                if (
                    facts.uid in faulty
                    or facts.container_fault
                    or facts.fault_options
                    or pod.status == FAILED
                    or (name and (name in with_faults or name not in nodes))
                    or (name and nodes[name].facts is None)
                    or FAULT_TYPE in dict(facts.labels)
                ):
                    cluster.position = one.position
                    self._update(cluster, one.old, one.new)
                    break

    def _update(self, cluster: Cluster, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            name = "" if pod is None else pod.node
            node = cluster.nodes.nodes.get(name) if name else None
            if name and (node is None or node.facts is None):
                # A node that does not exist is faulty as long as pods are on it.
                self._update_node(cluster, name)
        if new is not None and new.facts.fault_options:
            self._look_at_backups(cluster, old, new)
        if new is not None:
            if old is not None and old.group_key != new.group_key:
                self._update_pod(cluster, old, None)
            self._update_pod(cluster, new, self._fault_of(cluster, new))
        elif old is not None:
            self._update_pod(cluster, old, None)

    def _look_at_backups(self, cluster: Cluster, old: Pod | None, new: Pod) -> None:
        """Let the next cycle look at a group of which a pod is to be replaced by another one, or that one runs."""
        before = () if old is None else old.facts.fault_options
        is_backup = any(key == BACKUP_OF for key, _ in new.facts.fault_options)
        runs = is_backup and new.facts.phase == "Running"
        if new.group_key in self.by_group and (before != new.facts.fault_options or runs):
            cluster.mark_faulty(new.group_key)

    def on_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Update the failed pods of groups: their objects may say that these are replaced."""
        for one in changes:
            cluster.position, group = one.position, one.group
            if cluster.policy.reschedules:
                self._update_group(cluster, group, is_gone=one.is_gone)
            if not group.counts.failed and group.key not in self.by_group:
                continue
            for pod in group.pods.values():
                if pod.status == FAILED:
                    self._update_pod(cluster, pod, self._fault_of(cluster, pod))

    def on_policy(self, cluster: Cluster, delta: PolicyChanged) -> None:
        """Look at everything again: the policy says which conditions and taints are faults."""
        self.rebuild(cluster)
        _faults_changed(cluster)
        for key in (*self.by_group, *self.stranded):
            cluster.mark_faulty(key)

    def _update_group(self, cluster: Cluster, group: PodGroup, *, is_gone: bool) -> None:
        """Let the next cycle look at a group whose restart is complete or has its pods again, or that newly runs below its minimum or no
        longer does."""
        restart = cluster.reschedulings.restarts.get(group.key)
        if restart is not None and (
            restart.is_complete(group) or has_pods_again(cluster, group.key)
        ):
            cluster.mark_faulty(group.key)
        is_below = not is_gone and is_stranded(group)
        if is_below != (group.key in self.stranded):
            if is_below:
                self.stranded[group.key] = None
            else:
                del self.stranded[group.key]
            cluster.mark_faulty(group.key)

    def _update_node(self, cluster: Cluster, name: str) -> None:
        node = cluster.nodes.nodes.get(name)
        is_there = node is not None and (node.facts is not None or node.pods)
        facts = None if node is None else node.facts
        found = node_faults(facts, rules_of(cluster)) if is_there else ()
        before = self.nodes.get(name, ())
        if found == before:
            return
        was_closed = name in self.closed
        self._set_node(name, found)
        cluster.changed_rows.faults[name] = None
        _faults_changed(cluster)
        if was_closed and name not in self.closed and facts is not None:
            cluster.mark_recovered(name)
        for uid in () if node is None else tuple(node.pods):
            pod = cluster.pods[uid]
            self._update_pod(cluster, pod, self._fault_of(cluster, pod))

    def _update_pod(self, cluster: Cluster, pod: Pod, fault: PodFault | None) -> None:
        if self.pods.get(pod.facts.uid) != fault:
            self._set_pod(pod, fault)
            cluster.mark_faulty(pod.group_key)

    def _set_node(self, name: str, faults: tuple[NodeFault, ...]) -> None:
        if faults:
            self.nodes[name] = faults
        else:
            self.nodes.pop(name, None)
        if faults and faults[0].effect == NODE_UNHEALTHY:
            self.closed[name] = None
        else:
            self.closed.pop(name, None)

    def _set_pod(self, pod: Pod, fault: PodFault | None) -> None:
        uid = pod.facts.uid
        if fault is not None:
            self.pods[uid] = fault
            self.by_group.setdefault(pod.group_key, {})[uid] = None
            return
        self.pods.pop(uid, None)
        of_group = self.by_group.get(pod.group_key)
        if of_group is not None:
            of_group.pop(uid, None)
            if not of_group:
                del self.by_group[pod.group_key]

    def _fault_of(self, cluster: Cluster, pod: Pod) -> PodFault | None:
        """Return why a pod is faulty; None if it is not."""
        facts = pod.facts
        if not pod.node or not pod.group_key or pod.status in (SUCCEEDED, RELEASING, BINDING):
            return None
        if facts.owner is not None and facts.owner.kind in NODE_OWNERS:
            return None
        if pod.status == FAILED:
            return None if facts.is_releasing or pod.evicted else _failed(cluster, pod)
        faults = self.nodes.get(pod.node, ())
        for one in faults:
            if one.effect == NODE_UNHEALTHY:
                return PodFault(NODE_UNHEALTHY, one.text, source=one.source)
        own = tuple([device_of(name) for name in pod.devices])
        for one in faults:
            if one.effect == CARD_UNHEALTHY and one.device in own:
                return PodFault(CARD_UNHEALTHY, one.text, one.device, one.source)
        kind, _, detail = facts.container_fault.partition(": ")
        if kind == "DeviceUnhealthy":
            return PodFault(CARD_UNHEALTHY, f"{detail} is unhealthy", detail, "kubelet")
        if kind == "ContainerFailed" and _may_retry(cluster, pod):
            return PodFault(POD_FAILED, f"a container ended with exit code {detail}", source="pod")
        labelled = _OF_LABEL.get(_label(pod, FAULT_TYPE))
        if labelled is not None:
            text = f"label {FAULT_TYPE}: {_label(pod, FAULT_TYPE)}"
            return PodFault(labelled, text, source="label")
        for one in faults:
            if one.effect == SUB_HEALTH and (not one.device or one.device in own):
                return PodFault(SUB_HEALTH, one.text, one.device, one.source)
        return None


def _faults_changed(cluster: Cluster) -> None:
    """Record that what is written about faults for people has changed."""
    if (book := cluster.tables.find(Reschedulings)) is not None:
        book.reports.changed_at["faults"] = cluster.position


MISSING_NS: Final = 40 * SECOND
"""Time for which a node must be missing before its pods are moved, at least: as long as Kubernetes' own garbage collector of
pods waits. A list of nodes may be short when a daemon starts."""


def tolerance_of(fault: PodFault, arguments: RescheduleArguments) -> int:
    """Return how long a fault of a pod must last before pods are moved."""
    least = MISSING_NS if fault.text == GONE.text else 0
    return max(arguments.tolerance_ns, least)


def rules_of(cluster: Cluster) -> FaultRules:
    """Return which conditions and taints the policy takes for faults."""
    arguments = cluster.policy.action_arguments.rescheduling
    return FaultRules(arguments.conditions, arguments.taints)


def _failed(cluster: Cluster, pod: Pod) -> PodFault | None:
    """Return the fault of a failed pod, if its job wants such pods to be replaced."""
    if not _may_retry(cluster, pod):
        return None
    reason = f" ({pod.facts.reason})" if pod.facts.reason else ""
    return PodFault(POD_FAILED, f"pod failed{reason}", source="pod")


def _may_retry(cluster: Cluster, pod: Pod) -> bool:
    if cluster.policy.action_arguments.rescheduling.retry_times:
        return True
    group = cluster.groups.get(pod.group_key)
    stated = (
        () if group is None or group.observed.facts is None else group.observed.facts.fault_options
    )
    return any(key == RETRY_TIMES for key, _ in (*pod.facts.labels, *stated))


def _label(pod: Pod, name: str) -> str:
    return next((value for key, value in pod.facts.labels if key == name), "")
