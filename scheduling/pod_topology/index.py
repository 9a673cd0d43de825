"""Who stands where: the tallies and domains that terms about other pods ask for.

Each is made when it is first asked for and then kept up to date node by node. They only ever save time: each
can be made anew from State.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projections.affinity_terms import SelectedAs, Selecting
from projections.cluster import Cluster
from projections.pod_terms import HostPort, Labels, PodAffinityTerm, Selector, selects
from projections.pods import Pod
from scheduling.pod_topology.counts import Count, Tally
from scheduling.pod_topology.domains import Domain, NodeLabels

TALLIES_MAX: Final = 1024
"""Tallies kept at a time; when there are more, all are forgotten."""

TALLIES_BYTES_MAX: Final = 256 << 20
"""Bytes of tallies kept at a time: three columns of eight bytes for each node."""

KINDS_MAX: Final = 1 << 12
"""Kinds of pods (namespace and labels, or class) that a tally remembers its verdict on."""

SELECTING_MAX: Final = 1 << 12
"""Kinds of pods of which it is remembered by which topology keys terms of other pods select them."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Equal as long as nothing moved."""


def tallies_max(cluster: Cluster) -> int:
    """How many tallies are kept at a time."""
    column_bytes = 24 * max(1, len(cluster.nodes.order))
    return min(TALLIES_MAX, max(1, TALLIES_BYTES_MAX // column_bytes))


class Neighbourhood:
    """The tallies and domains of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._layout = (-1, -1)
        self._tallies: dict[object, Tally] = {}
        self._domains: dict[str, Domain] = {}
        self._node_labels = NodeLabels(cluster.nodes)
        self._no_domain = Domain(cluster.nodes, "")
        self._selecting: dict[SelectedAs, Selecting] = {}
        self._terms_version = -1

    @property
    def stamp(self) -> Stamp:
        """What was looked at so far."""
        table = self.cluster.nodes
        return (
            table.layout,
            len(table.changed_slots),
            len(table.updated_slots),
            self.cluster.inter_pod_affinity.version,
        )

    def domain(self, key: str) -> Domain:
        """The domains of a topology key."""
        self._look()
        if key not in self._node_labels.all_keys():
            self._no_domain.refresh()
            return self._no_domain
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domain(self.cluster.nodes, key)
        found.refresh()
        return found

    def covered(self, terms: tuple[PodAffinityTerm, ...]) -> Tally:
        """Pods that all of the terms mean."""
        labels_of = self.cluster.inter_pod_affinity.labels_of

        def is_meant(namespace: str, labels: Mapping[str, str]) -> bool:
            return all(one.matches(namespace, labels, labels_of) for one in terms)

        return self._tally(("covered", terms), lambda: _by_labels(is_meant))

    def selected(self, namespace: str, selector: Selector | None) -> Tally:
        """Pods of a namespace with such labels."""

        def is_selected(of: str, labels: Mapping[str, str]) -> bool:
            return of == namespace and selects(selector, labels)

        return self._tally(("selected", namespace, selector), lambda: _by_labels(is_selected))

    def selecting(self, seen: SelectedAs) -> Selecting:
        """The topology keys of the terms of other pods that select such pods, of those keys that nodes have."""
        self._look()
        index = self.cluster.inter_pod_affinity
        if index.terms_version != self._terms_version or len(self._selecting) >= SELECTING_MAX:
            self._terms_version, self._selecting = index.terms_version, {}
        found = self._selecting.get(seen)
        if found is None:
            found = index.terms.selecting(seen, index.labels_of, self._node_labels.all_keys())
            self._selecting[seen] = found
        return found

    def barring(self, seen: SelectedAs, topology_key: str) -> Tally:
        """Pods with required anti-affinity to such pods, by this topology key."""

        def count(pod: Pod) -> int:
            terms = pod.pod_class.terms.required_anti_affinity
            return sum(
                [one.topology_key == topology_key and self._selects(one, seen) for one in terms]
            )

        return self._tally(("barring", seen, topology_key), lambda: _by_class(count))

    def weighing(self, seen: SelectedAs, topology_key: str) -> Tally:
        """What affinity and preferred anti-affinity of pods to such pods, by this topology key, adds to a domain."""

        def count(pod: Pod) -> int:
            weighted = [one for one in pod.pod_class.terms.affinity_terms if one.weight]
            return sum(
                [
                    one.weight
                    for one in weighted
                    if one.term.topology_key == topology_key and self._selects(one.term, seen)
                ]
            )

        return self._tally(("weighing", seen, topology_key), lambda: _by_class(count))

    def _selects(self, term: PodAffinityTerm, seen: SelectedAs) -> bool:
        return term.matches(
            seen.namespace, dict(seen.labels), self.cluster.inter_pod_affinity.labels_of
        )

    def listening(self, ports: tuple[HostPort, ...]) -> Tally:
        """Pods that have one of these ports of their node."""
        return self._tally(
            ("listening", ports),
            lambda: _by_class(
                lambda pod: int(
                    any(a.collides(b) for a in ports for b in pod.pod_class.terms.ports)
                )
            ),
        )

    def _tally(self, key: object, count: Callable[[], Count]) -> Tally:
        self._look()
        found = self._tallies.get(key)
        if found is None:
            if len(self._tallies) >= tallies_max(self.cluster):
                self._tallies.clear()
            found = self._tallies[key] = Tally(self.cluster, count())
        found.refresh()
        return found

    def forget(self) -> None:
        """Drop all tallies: terms that they are of may be gone."""
        self._tallies, self._domains, self._selecting = {}, {}, {}

    def _look(self) -> None:
        now = (self.cluster.nodes.layout, self.cluster.inter_pod_affinity.version)
        if now != self._layout:
            self._layout = now
            self._tallies, self._domains, self._selecting = {}, {}, {}
            self._node_labels = NodeLabels(self.cluster.nodes)
            self._no_domain = Domain(self.cluster.nodes, "")


def _by_labels(judge: Callable[[str, Mapping[str, str]], bool]) -> Count:
    """Counts pods by namespace and labels, asking once for all that agree in both."""
    known: dict[tuple[str, Labels], int] = {}

    def count(pod: Pod) -> int:
        facts = pod.facts
        key = (facts.namespace, facts.labels)
        found = known.get(key)
        if found is None:
            if len(known) >= KINDS_MAX:
                known.clear()
            found = known[key] = int(judge(facts.namespace, dict(facts.labels)))
        return found

    return count


def _by_class(judge: Count) -> Count:
    """Counts pods by class, asking once for each."""
    known: dict[int, int] = {}

    def count(pod: Pod) -> int:
        index = pod.pod_class.index
        found = known.get(index)
        if found is None:
            if len(known) >= KINDS_MAX:
                known.clear()
            found = known[index] = judge(pod)
        return found

    return count
