"""Index of pods by the terms that refer to them: counts and domains for affinity, spread and host ports.

Each entry is built when it is first needed and then updated node by node. The index only saves time and can be
recomputed from State.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projections.affinity_terms import SelectedAs, Selecting
from projections.cluster import Cluster
from projections.pod_terms import HostPort, Labels, PodAffinityTerm, Selector, selects
from projections.pods import Pod
from scheduling.label_domains import Domain, NodeLabels
from scheduling.pod_topology.counts import Count, PodCounts

COUNTS_MAX: Final = 1024
"""Maximum number of counts; beyond it all are dropped."""

COUNTS_BYTES_MAX: Final = 256 << 20
"""Maximum size of the counts: three columns of eight bytes for each node."""

VERDICTS_MAX: Final = 1 << 12
"""Maximum number of cached verdicts of one count, by namespace and labels or by class."""

SELECTING_MAX: Final = 1 << 12
"""Maximum number of pod kinds for which the topology keys of the terms that select them are cached."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Equal as long as no node and no term changed."""


def counts_max(cluster: Cluster) -> int:
    """Return the maximum number of counts for a cluster of this size."""
    column_bytes = 24 * max(1, len(cluster.nodes.order))
    return min(COUNTS_MAX, max(1, COUNTS_BYTES_MAX // column_bytes))


class PodTopologyIndex:
    """The counts and domains of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._layout = (-1, -1)
        self._counts_by_key: dict[object, PodCounts] = {}
        self._domains: dict[str, Domain] = {}
        self._node_labels = NodeLabels(cluster.nodes)
        self._no_domain = Domain(cluster.nodes, "")
        self._selecting: dict[SelectedAs, Selecting] = {}
        self._selecting_version = (-1, -1)

    @property
    def stamp(self) -> Stamp:
        """Return the version of the state that was read."""
        table = self.cluster.nodes
        return (
            table.layout,
            len(table.changed_slots),
            len(table.updated_slots),
            self.cluster.inter_pod_affinity.version,
        )

    def domain(self, key: str) -> Domain:
        """Return the domains of a topology key."""
        self._drop_outdated()
        if key not in self._node_labels.all_keys():
            self._no_domain.refresh()
            return self._no_domain
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domain(self.cluster.nodes, key)
        found.refresh()
        return found

    def matching_all(self, terms: tuple[PodAffinityTerm, ...]) -> PodCounts:
        """Return the counts of pods that match all of the terms."""
        labels_of = self.cluster.inter_pod_affinity.labels_of

        def is_meant(namespace: str, labels: Mapping[str, str]) -> bool:
            return all(one.matches(namespace, labels, labels_of) for one in terms)

        return self._pod_counts(("covered", terms), lambda: _by_labels(is_meant))

    def matching_selector(self, namespace: str, selector: Selector | None) -> PodCounts:
        """Return the counts of pods of a namespace that match a selector."""

        def is_selected(of: str, labels: Mapping[str, str]) -> bool:
            return of == namespace and selects(selector, labels)

        return self._pod_counts(("selected", namespace, selector), lambda: _by_labels(is_selected))

    def selecting(self, seen: SelectedAs) -> Selecting:
        """Return the topology keys, among those that nodes have, of the terms of other pods that select such pods."""
        self._drop_outdated()
        index, node_keys = self.cluster.inter_pod_affinity, self._node_labels.all_keys()
        version = (index.terms_version, self._node_labels.version)
        if version != self._selecting_version or len(self._selecting) >= SELECTING_MAX:
            self._selecting_version, self._selecting = version, {}
        found = self._selecting.get(seen)
        if found is None:
            found = index.terms.selecting(seen, index.labels_of, node_keys)
            self._selecting[seen] = found
        return found

    def with_anti_affinity_to(self, seen: SelectedAs, topology_key: str) -> PodCounts:
        """Return the counts of pods with required anti-affinity to such pods by this topology key."""

        def count(pod: Pod) -> int:
            terms = pod.pod_class.terms.required_anti_affinity
            return sum(
                [one.topology_key == topology_key and self._selects(one, seen) for one in terms]
            )

        return self._pod_counts(("barring", seen, topology_key), lambda: _by_class(count))

    def preference_weights(self, seen: SelectedAs, topology_key: str) -> PodCounts:
        """Return the sums of the weights with which pods prefer (or avoid) such pods by this topology key."""

        def count(pod: Pod) -> int:
            weighted = [one for one in pod.pod_class.terms.affinity_terms if one.weight]
            return sum(
                [
                    one.weight
                    for one in weighted
                    if one.term.topology_key == topology_key and self._selects(one.term, seen)
                ]
            )

        return self._pod_counts(("weighing", seen, topology_key), lambda: _by_class(count))

    def _selects(self, term: PodAffinityTerm, seen: SelectedAs) -> bool:
        return term.matches(
            seen.namespace, dict(seen.labels), self.cluster.inter_pod_affinity.labels_of
        )

    def using_ports(self, ports: tuple[HostPort, ...]) -> PodCounts:
        """Return the counts of pods that use one of these host ports."""
        return self._pod_counts(
            ("listening", ports),
            lambda: _by_class(
                lambda pod: int(
                    any(a.collides(b) for a in ports for b in pod.pod_class.terms.ports)
                )
            ),
        )

    def _pod_counts(self, key: object, count: Callable[[], Count]) -> PodCounts:
        self._drop_outdated()
        found = self._counts_by_key.get(key)
        if found is None:
            if len(self._counts_by_key) >= counts_max(self.cluster):
                self._counts_by_key.clear()
            found = self._counts_by_key[key] = PodCounts(self.cluster, count())
        found.refresh()
        return found

    def clear(self) -> None:
        """Drop all counts: their terms may be gone."""
        self._counts_by_key, self._domains, self._selecting = {}, {}, {}

    def _drop_outdated(self) -> None:
        now = (self.cluster.nodes.layout, self.cluster.inter_pod_affinity.version)
        if now != self._layout:
            self._layout = now
            self._counts_by_key, self._domains, self._selecting = {}, {}, {}
            self._node_labels = NodeLabels(self.cluster.nodes)
            self._no_domain = Domain(self.cluster.nodes, "")


def _by_labels(judge: Callable[[str, Mapping[str, str]], bool]) -> Count:
    """Count pods by namespace and labels; evaluate each combination once."""
    known: dict[tuple[str, Labels], int] = {}

    def count(pod: Pod) -> int:
        facts = pod.facts
        key = (facts.namespace, facts.labels)
        found = known.get(key)
        if found is None:
            if len(known) >= VERDICTS_MAX:
                known.clear()
            found = known[key] = int(judge(facts.namespace, dict(facts.labels)))
        return found

    return count


def _by_class(judge: Count) -> Count:
    """Count pods by class; evaluate each class once."""
    known: dict[int, int] = {}

    def count(pod: Pod) -> int:
        index = pod.pod_class.index
        found = known.get(index)
        if found is None:
            if len(known) >= VERDICTS_MAX:
                known.clear()
            found = known[index] = judge(pod)
        return found

    return count
