"""Inter-pod affinity: the terms of all pods, and the classes of pending pods that these terms distinguish.

Pods with equal demands still differ if terms of other pods refer to their labels: anti-affinity of a pod excludes
them from its topology domain, affinity changes the score of its domain. So the class of a pending pod contains the
labels that terms refer to, if a term selects it. Without terms there is no cost. Classes are determined when a pod
is read, and again at the start of a cycle if terms have changed: once for all changes, because one tenant can
change thousands of terms that each select thousands of pods.

This module also records which kinds of pods were added to a node or removed from one, because pods with terms about
other pods wait for that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import structs

from events.sized_cache import ENTRY_BYTES
from projections.affinity_terms import EVERYWHERE, AffinityTerms, SelectedAs, scopes_of
from projections.deltas import PodChanged, PolicyChanged
from projections.device_families import DeviceFamilies
from projections.group_rows import Nomination
from projections.index import Index
from projections.pod_class import PodClass, PodClasses
from projections.pod_terms import NO_TERMS, Labels, size_of
from projections.pods import PENDING, Pod
from projections.quarantine import leave_tenant
from projections.wakeup_events import ALL_PODS, PodKind, WakeupEvents

if TYPE_CHECKING:
    from projections.cluster import Cluster

CHANGED_POD_KINDS_MAX: Final = 256
"""Maximum number of changed kinds of pods; with more, all kinds count as changed."""

KNOWN_BYTES_MAX: Final = 4 << 20
"""Bytes of labels of pods for which the result of `selected_as` is cached; beyond it, the cache is cleared."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


class InterPodAffinityIndex(Index):
    """The classes of pods, and the affinity and anti-affinity terms of all pods that are not finished."""

    name = "inter-pod affinity"
    COMPARED: ClassVar[tuple[str, ...]] = ("terms", "pods_with_terms")
    follows_status = False

    def __init__(self, families: DeviceFamilies) -> None:
        self.classes = PodClasses(families)
        self.terms = AffinityTerms()
        self.pods_with_terms = 0
        """Number of unfinished pods with terms about other pods."""
        self.namespaces: dict[str, dict[str, str]] = {}
        """Namespace to its labels, if it was observed."""
        self.version = 0
        """Grows with every change of namespaces."""
        self.terms_version = 0
        """Grows with every term that is added or removed."""
        self.outdated: dict[str, None] = {}
        """Namespaces (or EVERYWHERE) in which terms have changed since pending pods were last classified."""
        self._had_terms = False
        """Whether pods had terms before those of the present settling were counted."""
        self._known: dict[tuple[str, Labels], SelectedAs | None] = {}
        self._known_bytes = 0

    def rebuilt(self, cluster: "Cluster", /) -> "InterPodAffinityIndex":
        """Count the terms of all pods again."""
        twin = InterPodAffinityIndex(self.classes.families)
        twin.namespaces = self.namespaces
        for pod in cluster.pods.values():
            twin.count(pod, 1)
        return twin

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Record what the moves of pods mean to others."""
        has_labels = bool(cluster.plugins.pod_labels)
        if not (self._had_terms or self.pods_with_terms or has_labels):
            return
        for one in changes:
            cluster.position, old, new = one.position, one.old, one.new
            if self._had_terms or self.pods_with_terms:
                _record_move(cluster, old, new)
            if has_labels and old is not None and new is not None:
                _record_label_change(cluster, old, new)

    def classify(self, cluster: "Cluster", changes: list[PodChanged]) -> None:
        """Count the terms of pods, then give those that are pending their classes: a row in another class takes its place
        in the change."""
        self._had_terms = self.pods_with_terms > 0
        for one in changes:
            old, new = one.old, one.new
            if new is not None and new.pod_class.terms is not NO_TERMS:
                self.count(new, 1)
            if old is not None and old.pod_class.terms is not NO_TERMS:
                self.count(old, -1)
        are_told_apart = bool(
            self.terms.held or cluster.plugins.pod_labels or cluster.quarantines.of_tenant
        )
        for index, one in enumerate(changes):
            pod = one.new
            if pod is None or not pod.group_key or pod.status != PENDING:
                continue
            known = pod.pod_class
            is_plain = known.index == known.plain and not known.closed_tenant
            if are_told_apart or not is_plain or known.plugin_labels:
                pod_class = class_of(cluster, pod)
                if pod_class is not pod.pod_class:
                    pod = cluster.pods[pod.facts.uid] = pod.with_class(pod_class)
                    changes[index] = structs.replace(one, new=pod)

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Classify all pending pods again if plugins read other labels."""
        if cluster.plugins.pod_labels != delta.old.pod_labels:
            self.outdate((EVERYWHERE,))

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        found = self.namespaces.get(namespace)
        return {NAMESPACE_NAME: namespace} if found is None else found

    def selected_as(self, pod: Pod) -> SelectedAs | None:
        """Return a pod as the terms of other pods see it; None if no term selects it."""
        if not self.terms.held:
            return None
        key = (pod.facts.namespace, pod.facts.labels)
        if key in self._known:
            return self._known[key]
        found = self.terms.selected_as(*key, self.labels_of)
        self._known_bytes += ENTRY_BYTES + size_of(key[1])
        if self._known_bytes > KNOWN_BYTES_MAX:
            self.forget()
        else:
            self._known[key] = found
        return found

    def count(self, pod: Pod, sign: int) -> None:
        """Add the terms of a pod (1) or remove them (-1)."""
        terms = pod.pod_class.terms
        if (
            terms is NO_TERMS
            or not terms.depends_on_other_pods
            or pod.facts.phase in ("Succeeded", "Failed")
        ):
            return
        self.pods_with_terms += sign
        for one in terms.affinity_terms:
            if self.terms.count(one, sign):
                self.outdate(scopes_of(one))

    def outdate(self, scopes: Iterable[str]) -> None:
        """Record that terms about pods of these namespaces have changed."""
        self.outdated.update(dict.fromkeys(scopes))
        self.terms_version += 1
        self.forget()

    def outdate_all(self) -> None:
        """Record that pods of all namespaces are to be classified again."""
        self.outdate((EVERYWHERE,))

    def forget(self) -> None:
        """Clear the cache of which terms select which pods."""
        self._known.clear()
        self._known_bytes = 0


def class_of(cluster: "Cluster", pod: Pod) -> PodClass:
    """Return the class of a pending pod, with what terms of other pods refer to, the labels that plugins read, and its tenant if
    nodes are closed to that."""
    classes, pod_class = cluster.inter_pod_affinity.classes, pod.pod_class
    keys, tenant = cluster.plugins.pod_labels, ""
    if cluster.quarantines.of_tenant:
        tenant = cluster.tenants.tenant_of(pod.facts.namespace)
        tenant = tenant if tenant in cluster.quarantines.of_tenant else ""
    if keys or tenant or pod_class.plugin_labels or pod_class.closed_tenant:
        labels = tuple([one for one in pod.facts.labels if one[0] in keys])
        pod_class = classes.labelled(pod_class, labels, tenant)
    return classes.selected(pod_class, cluster.inter_pod_affinity.selected_as(pod))


def put_namespace(cluster: "Cluster", name: str, labels: dict[str, str] | None) -> None:
    """Add or update a namespace and its labels, or (None) remove it."""
    index = cluster.inter_pod_affinity
    before = index.labels_of(name)
    if labels is None:
        index.namespaces.pop(name, None)
    else:
        index.namespaces[name] = {NAMESPACE_NAME: name, **labels}
    if index.labels_of(name) == before:
        return
    index.version += 1
    index.forget()
    tenant = cluster.tenants.tenant_of(name)
    if cluster.tenants.put(name, index.labels_of(name)):
        leave_tenant(cluster, name, tenant)
    if any(one.term.namespace_selector is not None for one in index.terms.held):
        index.outdate((EVERYWHERE,))
    if index.pods_with_terms:
        cluster.wakeup_events.changed_pod_kinds[ALL_PODS] = None


def classify_again(cluster: "Cluster") -> None:
    """Determine the classes of pending pods again if terms about them have changed, once for all these changes."""
    outdated, cluster.inter_pod_affinity.outdated = cluster.inter_pod_affinity.outdated, {}
    if not outdated:
        return
    for group in list(cluster.groups.values()):
        if EVERYWHERE not in outdated and group.key.partition("/")[0] not in outdated:
            continue
        found: list[tuple[Pod, Pod]] = []
        for pod in list(group.pending):
            pod_class = class_of(cluster, pod)
            if pod_class is not pod.pod_class:
                if (
                    ALL_PODS in cluster.wakeup_events.changed_pod_kinds
                    and pod.pod_class.selected_as is not None
                ):
                    cluster.wakeup_events.groups[group.key] = None
                found.append((pod, pod.with_class(pod_class)))
        if found:
            cluster.replace_pods(found)
            cluster.pod_groups.mark(group.key, cluster.position)


def _record_label_change(cluster: "Cluster", old: Pod, new: Pod) -> None:
    """Record that a pod on a node has other labels, for plugins that filter nodes by the pods there."""
    if new.occupies and old.node == new.node and old.facts.labels != new.facts.labels:
        cluster.nodes.invalidate(new.node)
        cluster.mark_node_freed(new.node)


def _place(pod: Pod | None) -> tuple[object, ...] | None:
    if pod is None or not pod.occupies:
        return None
    return pod.node, pod.is_leaving, pod.facts.namespace, pod.facts.labels


def _record_move(cluster: "Cluster", old: Pod | None, new: Pod | None) -> None:
    """Record that a pod was added to a node or removed from it, for pods with terms about it."""
    before, after = _place(old), _place(new)
    if before == after:
        return
    for pod, place in ((old, before), (new, after)):
        if pod is not None and place is not None:
            record_changed_pod_kind(cluster.wakeup_events, pod)
    if before is not None and after is not None and before[0] == after[0]:
        cluster.nodes.invalidate(str(after[0]))


def remove_nomination(cluster: "Cluster", pod: Pod | None, uid: str, held: Nomination) -> None:
    """Remove the nomination of a pod. Pods that its anti-affinity excluded may be placed now."""
    cluster.nodes.nominate(held.node, uid, held.request, -1)
    if cluster.inter_pod_affinity.pods_with_terms and pod is not None:
        record_changed_pod_kind(cluster.wakeup_events, pod)


def record_changed_pod_kind(events: WakeupEvents, pod: Pod) -> None:
    """Record that a pod of this kind was added to a node or removed from one."""
    if ALL_PODS in events.changed_pod_kinds:
        return
    anti_affinity = pod.pod_class.terms.required_anti_affinity
    kind = PodKind(pod.facts.namespace, pod.facts.labels, anti_affinity)
    events.changed_pod_kinds[kind] = None
    if len(events.changed_pod_kinds) > CHANGED_POD_KINDS_MAX:
        events.changed_pod_kinds.clear()
        events.changed_pod_kinds[ALL_PODS] = None


def check_classes(cluster: "Cluster") -> None:
    """Classify pending pods again (for `projections/audit.py`)."""
    kept = cluster.inter_pod_affinity
    counted = kept.rebuilt(cluster)
    for pod in cluster.pods.values():
        is_outdated = EVERYWHERE in kept.outdated or pod.facts.namespace in kept.outdated
        if pod.group_key and pod.status == PENDING and not is_outdated:
            seen = pod.pod_class.selected_as
            assert seen == counted.selected_as(pod), f"{pod.key} is selected otherwise: {seen}"
