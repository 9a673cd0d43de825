"""Inter-pod affinity: the terms of all pods, and the classes of waiting pods that these terms can tell apart.

Pods that are equal in what they demand are still unlike where terms of other pods ask about their labels:
anti-affinity of a pod keeps them away from its domain, and affinity makes its domain better or worse. So the class of a
waiting pod names the labels that terms ask about, where a term selects it. Where there are no terms, nothing of this
costs anything. Classes are found when a pod is read, and again as a cycle opens if terms have changed: once for all
changes, as one tenant can change thousands of terms that each select thousands of pods.

Also recorded here: which pods came to a node or left one, as pods with terms about others wait for that.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from projections.affinity_terms import EVERYWHERE, AffinityTerms, SelectedAs, scopes_of
from projections.nodes import NodeTable
from projections.nominations import reserve, room_of
from projections.pod_class import PodClass, PodClasses
from projections.pod_groups import Nomination, PodGroup
from projections.pod_terms import NO_TERMS, Labels, Regard, size_of
from projections.pods import PENDING, RELEASING, Pod
from projections.sized_cache import ENTRY_BYTES
from projections.wakeup_events import ALL_PODS, WakeupEvents

MET_MAX: Final = 256
"""With more kinds of pods that came or went, anybody may have."""

KNOWN_BYTES_MAX: Final = 4 << 20
"""Bytes of labels of pods of which it is remembered what terms can tell of them; beyond it, all are forgotten."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


class Regards:
    """The classes of pods, and the (anti-)affinity terms of all pods that are not finished."""

    def __init__(self) -> None:
        self.classes = PodClasses()
        self.terms = AffinityTerms()
        self.lookers = 0
        """Pods that are not finished and have terms about others."""
        self.namespaces: dict[str, dict[str, str]] = {}
        """Namespace to its labels, as far as it was shown."""
        self.version = 0
        """Grows with every change of namespaces."""
        self.terms_version = 0
        """Grows with every term that is new or gone."""
        self.outdated: dict[str, None] = {}
        """Namespaces (or EVERYWHERE) where terms have changed since waiting pods were last classified."""
        self.is_restoring = False
        """Whether pods come out of a snapshot, with their classes."""
        self._known: dict[tuple[str, Labels], SelectedAs | None] = {}
        self._known_bytes = 0

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self.namespaces.get(namespace)
        return {NAMESPACE_NAME: namespace} if found is None else found

    def selected_as(self, pod: Pod) -> SelectedAs | None:
        """A pod as the terms of other pods can tell it from others; None where no term selects it."""
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
        """Count the terms of a pod in (1) or out (-1)."""
        terms = pod.pod_class.terms
        if (
            terms is NO_TERMS
            or not terms.looks_around
            or pod.facts.phase in ("Succeeded", "Failed")
        ):
            return
        self.lookers += sign
        for one in terms.regards:
            if self.terms.count(one, sign):
                self.outdate(scopes_of(one))

    def outdate(self, scopes: Iterable[str]) -> None:
        """Terms about pods of these namespaces have changed."""
        self.outdated.update(dict.fromkeys(scopes))
        self.terms_version += 1
        self.forget()

    def forget(self) -> None:
        """Drop what is known of which terms select which pods."""
        self._known.clear()
        self._known_bytes = 0


class Watched(Protocol):
    """The part of the cluster that is looked at and changed here."""

    regards: Regards
    nodes: NodeTable
    wakeup_events: WakeupEvents

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods, by UID."""

    def mark_node_freed(self, node: str) -> None:
        """Remember that a node may now take what it could not before."""

    @property
    def groups(self) -> Mapping[str, PodGroup]:
        """All pod groups, by key."""

    def replace_pod(self, old: Pod | None, new: Pod | None, *, is_last: bool = True) -> None:
        """Take a pod out as it was and put it in as it is."""

    def update_group(self, group: PodGroup) -> None:
        """Bring what follows from a group's pods in line."""


def meet(cluster: Watched, old: Pod | None, new: Pod | None) -> None:
    """A pod comes, changes or goes: before anything else is counted of it."""
    regards = cluster.regards
    reserve(cluster, old, new)
    had_lookers = regards.lookers
    if new is not None:
        regards.count(new, 1)
    if old is not None:
        regards.count(old, -1)
    is_known = regards.is_restoring
    if new is not None and new.group_key and new.status == PENDING and not is_known:
        new.pod_class = class_of(cluster, new)
    if regards.lookers or had_lookers:
        _note_move(cluster, old, new)


def class_of(cluster: Watched, pod: Pod) -> PodClass:
    """The class of a waiting pod, with what terms of other pods can tell of it."""
    return cluster.regards.classes.selected(pod.pod_class, cluster.regards.selected_as(pod))


def put_namespace(cluster: Watched, name: str, labels: dict[str, str] | None) -> None:
    """A namespace came, changed its labels, or (None) is gone."""
    regards = cluster.regards
    before = regards.labels_of(name)
    if labels is None:
        regards.namespaces.pop(name, None)
    else:
        regards.namespaces[name] = {NAMESPACE_NAME: name, **labels}
    if regards.labels_of(name) == before:
        return
    regards.version += 1
    regards.forget()
    if any(one.term.namespace_selector is not None for one in regards.terms.held):
        regards.outdate((EVERYWHERE,))
    if regards.lookers:
        cluster.wakeup_events.met[ALL_PODS] = None


def classify_again(cluster: Watched) -> None:
    """Find the classes of waiting pods again where terms about them have changed, once for all these changes."""
    outdated, cluster.regards.outdated = cluster.regards.outdated, {}
    if not outdated:
        return
    for group in list(cluster.groups.values()):
        if EVERYWHERE not in outdated and group.key.partition("/")[0] not in outdated:
            continue
        found = False
        for pod in list(group.pending):
            pod_class = class_of(cluster, pod)
            if pod_class is not pod.pod_class:
                if ALL_PODS in cluster.wakeup_events.met and pod.pod_class.selected_as is not None:
                    cluster.wakeup_events.groups[group.key] = None
                twin = pod.copy()
                twin.pod_class = pod_class
                cluster.replace_pod(pod, twin, is_last=False)
                found = True
        if found:
            cluster.update_group(group)


def _place(pod: Pod | None) -> tuple[object, ...] | None:
    if pod is None or not pod.occupies:
        return None
    return pod.node, pod.status == RELEASING, pod.facts.namespace, pod.facts.labels


def _note_move(cluster: Watched, old: Pod | None, new: Pod | None) -> None:
    """Remember who came to stand somewhere, or left, for those who wait for that."""
    before, after = _place(old), _place(new)
    if before == after:
        return
    for pod, place in ((old, before), (new, after)):
        if pod is not None and place is not None:
            note_met(cluster.wakeup_events, pod)
    if before is not None and after is not None and before[0] == after[0]:
        cluster.nodes.invalidate(str(after[0]))


def stop_expecting(cluster: Watched, uid: str, held: Nomination) -> None:
    """Keep room for a pod no longer. Who could not stand near it may do so now."""
    cluster.nodes.expect(held.node, uid, held.request, -1)
    pod = cluster.pods.get(uid)
    if cluster.regards.lookers and pod is not None:
        note_met(cluster.wakeup_events, pod)


def note_met(due: WakeupEvents, pod: Pod) -> None:
    """A pod came to stand on a node, or left it."""
    if ALL_PODS in due.met:
        return
    barring = tuple([one for one in pod.pod_class.terms.regards if not one.weight])
    due.met[met_key(pod.facts.namespace, pod.facts.labels, barring)] = None
    if len(due.met) > MET_MAX:
        due.met.clear()
        due.met[ALL_PODS] = None


def met_key(namespace: str, labels: Labels, barring: tuple[Regard, ...]) -> str:
    """A kind of pod as one text: its namespace and labels, and the pods that it keeps away."""
    return msgspec.json.encode((namespace, labels, barring)).decode()


def recount(cluster: Watched, pods: Iterable[Pod]) -> None:
    """Count all terms again, classify waiting pods again, and count which pods are expected on which node (for
    `projections/audit.py`)."""
    kept = cluster.regards
    counted = Regards()
    counted.namespaces = kept.namespaces
    listed = list(pods)
    for pod in listed:
        counted.count(pod, 1)
    held, again = kept.terms.held, counted.terms.held
    assert held == again, f"terms: kept {held}, counted {again}"
    asked, again_asked = kept.terms.requirements, counted.terms.requirements
    assert asked == again_asked, f"requirements: kept {asked}, counted {again_asked}"
    assert kept.lookers == counted.lookers, f"lookers: {kept.lookers}, counted {counted.lookers}"
    for pod in listed:
        is_outdated = EVERYWHERE in kept.outdated or pod.facts.namespace in kept.outdated
        if pod.group_key and pod.status == PENDING and not is_outdated:
            seen = pod.pod_class.selected_as
            assert seen == counted.selected_as(pod), f"{pod.key} is selected otherwise: {seen}"
    promised = [one for group in cluster.groups.values() for one in group.nominations.items()]
    expected = [(uid, held.node) for uid, held in promised]
    expected += [(pod.facts.uid, room[0]) for pod in listed if (room := room_of(pod)) is not None]
    told = [(uid, name) for name, node in cluster.nodes.nodes.items() for uid in node.expected]
    assert sorted(told) == sorted(expected), f"expected: kept {told}, counted {expected}"
