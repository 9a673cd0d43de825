"""What pods think of each other: which terms there are, and for which waiting pods they matter.

Pods that are equal in what they demand are still unlike where others look at their labels: anti-affinity
of a pod keeps those away that it does not bear, and affinity makes their nodes better or worse. So a
waiting pod's class names the regards that cover it. Where there are none, nothing of this costs anything.

Also noted here is who came to stand where, or left: that is what pods wait for that look around.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from projections.nodes import NodeTable
from projections.nominations import reserve, room_of
from projections.pod_class import PodClass, PodClasses
from projections.pod_groups import Nomination, PodGroup
from projections.pod_terms import NO_TERMS, Labels, LabelsOf, Regard, size_of
from projections.pods import PENDING, RELEASING, Pod
from projections.sized_cache import ENTRY_BYTES
from projections.wakeup_events import ALL_PODS, WakeupEvents

MET_MAX: Final = 256
"""With more kinds of pods that came or went, anybody may have."""

KNOWN_BYTES_MAX: Final = 4 << 20
"""Bytes of labels of pods of which it is remembered which regards cover them; when there are more, all are
forgotten."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


class Regards:
    """The classes of pods, and the regards of all pods that are not finished."""

    def __init__(self) -> None:
        self.classes = PodClasses()
        self.held: dict[Regard, int] = {}
        """Regard to the number of pods that have it."""
        self.lookers = 0
        """Pods that are not finished and have terms about others."""
        self.namespaces: dict[str, dict[str, str]] = {}
        """Namespace to its labels, as far as it was shown."""
        self.version = 0
        """Grows with every change of namespaces."""
        self._known: dict[tuple[str, Labels], tuple[Regard, ...]] = {}
        self._known_bytes = 0

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self.namespaces.get(namespace)
        return {NAMESPACE_NAME: namespace} if found is None else found

    def about(self, pod: Pod) -> tuple[Regard, ...]:
        """The regards that cover a pod, in one order wherever they came from."""
        if not self.held:
            return ()
        key = (pod.facts.namespace, pod.facts.labels)
        found = self._known.get(key)
        if found is None:
            labels = dict(pod.facts.labels)
            covering = [one for one in self.held if one.term.covers(key[0], labels, self.labels_of)]
            found = tuple(sorted(covering, key=msgspec.json.encode))
            self._known_bytes += ENTRY_BYTES + size_of(key[1])
            if self._known_bytes > KNOWN_BYTES_MAX:
                self.forget()
            else:
                self._known[key] = found
        return found

    def count(self, pod: Pod, sign: int) -> list[Regard]:
        """Count what a pod thinks in or out. The regards that are new by that, or gone."""
        terms = pod.pod_class.terms
        if (
            terms is NO_TERMS
            or not terms.looks_around
            or pod.facts.phase in ("Succeeded", "Failed")
        ):
            return []
        self.lookers += sign
        changed: list[Regard] = []
        for one in terms.regards:
            left = self.held.get(one, 0) + sign
            if left:
                self.held[one] = left
            else:
                del self.held[one]
            if left == 0 or (left == 1 and sign > 0):
                changed.append(one)
        if changed:
            self.forget()
        return changed

    def forget(self) -> None:
        """Ask anew which regards cover whom."""
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
    changed = [] if new is None else regards.count(new, 1)
    if old is not None:
        changed += regards.count(old, -1)
    if new is not None and new.group_key and new.status == PENDING:
        new.pod_class = class_of(cluster, new)
    if changed:
        pod = new or old
        assert pod is not None
        _look_again(cluster, changed, apart_from=pod.facts.uid)
    if regards.lookers or changed:
        _note_move(cluster, old, new)


def class_of(cluster: Watched, pod: Pod) -> PodClass:
    """The class of a waiting pod, with what others think of it."""
    return cluster.regards.classes.regarded(pod.pod_class, cluster.regards.about(pod))


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
    asking = [one for one in regards.held if one.term.namespace_selector is not None]
    if asking:
        _look_again(cluster, None, apart_from="")
    if regards.lookers:
        cluster.wakeup_events.met[ALL_PODS] = None


def _look_again(cluster: Watched, changed: list[Regard] | None, *, apart_from: str) -> None:
    """Find the classes of waiting pods anew: of those that these regards cover, or of all."""
    labels_of = cluster.regards.labels_of
    for group in list(cluster.groups.values()):
        found = False
        for pod in list(group.pending):
            if pod.facts.uid == apart_from or not _is_covered(pod, changed, labels_of):
                continue
            pod_class = class_of(cluster, pod)
            if pod_class is not pod.pod_class:
                twin = pod.copy()
                twin.pod_class = pod_class
                cluster.replace_pod(pod, twin, is_last=False)
                found = True
        if found:
            cluster.update_group(group)


def _is_covered(pod: Pod, regards: Iterable[Regard] | None, labels_of: LabelsOf) -> bool:
    if regards is None:
        return True
    facts = pod.facts
    return any(one.term.covers(facts.namespace, dict(facts.labels), labels_of) for one in regards)


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
    """Count all regards again, and ask again what they say of pods that wait (for `projections/audit.py`).

    And who is expected where.
    """
    kept = cluster.regards
    counted = Regards()
    counted.namespaces = kept.namespaces
    listed = list(pods)
    for pod in listed:
        counted.count(pod, 1)
    assert kept.held == counted.held, f"regards: kept {kept.held}, counted {counted.held}"
    assert kept.lookers == counted.lookers, f"lookers: {kept.lookers}, counted {counted.lookers}"
    for pod in listed:
        if pod.group_key and pod.status == PENDING:
            regarded = pod.pod_class.regarded
            assert regarded == counted.about(pod), f"{pod.key} is regarded otherwise: {regarded}"
    promised = [one for group in cluster.groups.values() for one in group.nominations.items()]
    expected = [(uid, held.node) for uid, held in promised]
    expected += [(pod.facts.uid, room[0]) for pod in listed if (room := room_of(pod)) is not None]
    told = [(uid, name) for name, node in cluster.nodes.nodes.items() for uid in node.expected]
    assert sorted(told) == sorted(expected), f"expected: kept {told}, counted {expected}"
