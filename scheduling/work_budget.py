"""The work of a cycle, counted in the same way by a replay, and the budget that limits it.

A unit is about a microsecond of CPU (measured, `docs/limits.md`). The count follows from State alone: cache hits
are counted as misses, once a cycle for each class of pods, because a daemon that has just started has no caches.
Each action has its share of the budget and may also use what the actions before it left over.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from projections.affinity_terms import SelectedAs, Selecting, comparisons_of
from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from scheduling.pod_topology.index import counts_max
from scheduling.pod_topology.plugin_columns import NodeFilter, NodeScore

THOUSAND: Final = 1_000

EQUIVALENCE_GROUP: Final = 60
"""Units for visiting an equivalence class."""

DECISION: Final = 120
"""For a decision: sealing, encoding and applying it."""

PLACEMENT: Final = 60
"""For each pod that a decision places or evicts."""

POD: Final = 30
"""For trying to place a pod."""

CLAIM: Final = 10
"""For trying to place a pod with claims, for each claim; and the same again for each node as for a pod."""

POD_PER_NODE: Final = 1 / 128
"""The same, for each node: the maximum of all scores."""

CLASS: Final = 250
"""For a class of pods that is new in the cycle."""

CLASS_PER_NODE: Final = 1 / 8
"""The same, for each node: its score, and why it is infeasible."""

PLUGIN_PER_NODE: Final = 8
"""The same, for each node and each filter or score of a plugin beside muster."""

TOPOLOGY_PER_NODE: Final = 1 / 4
"""For trying to place a pod with affinity or spread, for each node."""

TOPOLOGY_PER_CLASS: Final = 40
"""The same, for each other such class in the group: the pods of each are counted for it."""

COUNT: Final = 30
"""For each count of pods that such a class needs beyond the first (one for each term about other pods), each time."""

COUNT_PER_NODE: Final = 1
"""For each count of pods that is new in the cycle, for each node."""

TOPOLOGY_PER_POD: Final = 4
"""The same, for each pod in the cluster."""

COMPARISON: Final = 1
"""For each label requirement beyond the first that pods are compared with to count them."""

NODE_SEARCH: Final = 150
"""For a node that is searched for victims."""

VICTIM: Final = 40
"""The same, for each pod there."""

BUNDLE: Final = 100
"""For a victim bundle, found or tried."""

DONOR: Final = 4
"""For each pod group that is searched for victim bundles."""

FAIR: Final = 120
"""For an assumed change in the tree of shares (`drf` with `enableHierarchy`): a step for each level."""

FAIR_AGAIN: Final = 20
"""For each pod group that is re-evaluated there because a resource becomes exhausted or available."""

LATER: Final = 20
"""For each node with terminating pods, when a node is sought for a pod."""


def class_work(cluster: Cluster, group: PodGroup) -> int:
    """Return the units for the classes of the pending pods of a group in one placement attempt, equal pods counted
    once: the limit for gangs of unlike pods."""
    nodes = len(cluster.nodes.order)
    waiting = [
        one
        for index, one in group.classes.items()
        if index in group.pending_classes or one.is_best_effort
    ]
    looking = [one for one in waiting if one.depends_on_other_pods]
    units = len(waiting) * (CLASS + int(nodes * CLASS_PER_NODE))
    units += sum([count_work(cluster, one, None)[1] for one in looking])
    return units + len(looking) * (
        int(nodes * TOPOLOGY_PER_NODE) + len(looking) * TOPOLOGY_PER_CLASS
    )


def has_too_many_classes(cluster: Cluster, group: PodGroup) -> bool:
    """Return True if the pods of a group are of too many classes for one placement attempt."""
    return len(group.classes) > 1 and class_work(cluster, group) > (
        THOUSAND * cluster.policy.action_arguments.class_budget
    )


def count_work(
    cluster: Cluster, pod_class: PodClass, selecting: Callable[[SelectedAs], Selecting] | None
) -> tuple[int, int]:
    """Return how many counts of pods a class needs, and the units for them. Without `selecting`, only those for its
    own terms."""
    terms, seen, pods = pod_class.terms, pod_class.selected_as, len(cluster.pods)
    selectors = [one.selector for one in terms.required_anti_affinity]
    selectors += [one.selector for one in terms.spread]
    selectors += [one.term.selector for one in terms.preferred]
    counts = len(selectors) + bool(terms.required_affinity) + bool(terms.ports)
    selectors += [one.selector for one in terms.required_affinity]
    requirements = sum([max(0, comparisons_of(one) - 1) for one in selectors])
    compared = pods * requirements
    if seen is not None and selecting is not None:
        found = selecting(seen)
        others = len(found.barring) + len(found.weighing)
        counts += others
        compared += found.comparisons + others * cluster.inter_pod_affinity.terms.requirements
    each = len(cluster.nodes.order) * COUNT_PER_NODE + pods * TOPOLOGY_PER_POD
    return counts, counts * each + compared * COMPARISON


SEARCHES: Final = 4
"""A search for victims may use at least one in this many of its action's share."""


class Work:
    """The work of the open cycle."""

    def __init__(self, cluster: Cluster, selecting: Callable[[SelectedAs], Selecting]) -> None:
        self._cluster = cluster
        self.done = 0
        """Units used so far."""
        self.budget = 1
        self._ends_at = self._half_at = 0
        self._begun_at = 0
        self._actions = self._begun = 0
        self._classes: dict[int, None] = {}
        self._selecting = selecting
        self._counted: dict[int, int] = {}
        """Class to its counts of pods that the cycle has counted and keeps."""
        self._kept = 0
        """Number of counts that are kept."""
        self._passed: dict[tuple[object, ...], dict[int, None]] = {}
        """Preemptor class to the slots of nodes that were counted as searched for victims."""

    def open_cycle(self) -> None:
        """Begin a cycle."""
        policy = self._cluster.policy
        self.done, self.budget = 0, THOUSAND * policy.action_arguments.work_budget
        self._actions, self._begun = len(policy.actions), 0
        self._classes, self._counted, self._kept, self._passed = {}, {}, 0, {}

    def open_action(self) -> None:
        """Begin the next action. It has at least half of an equal share, regardless of the actions before it."""
        part = self.budget // self._actions
        self._begun += 1
        self._begun_at = self.done
        self._ends_at = max(self.budget * self._begun // self._actions, self.done + part // 2)
        self._half_at = self.done + self.allowance // 2

    @property
    def allowance(self) -> int:
        """Return the units that the action may use."""
        return self._ends_at - self._begun_at

    @property
    def least_search(self) -> int:
        """Return the units that a search for victims may use for nodes that fail, however late it begins."""
        return max(1, self.allowance // SEARCHES)

    @property
    def is_used_up(self) -> bool:
        """Return True if the action has used up its share."""
        return self.done >= self._ends_at

    @property
    def is_half_used(self) -> bool:
        """Return True if the action has used up half of its share."""
        return self.done >= self._half_at

    def add(self, units: int) -> None:
        """Count units."""
        self.done += units

    def add_bundles(self, groups: int, count: int) -> None:
        """Count a search in `groups` pod groups that found `count` victim bundles."""
        self.done += DONOR * groups + BUNDLE * count

    def add_pod(self, pod_class: PodClass, count: int = 1) -> None:
        """Count the search for a node for a pod of a class, or for so many of them."""
        nodes = len(self._cluster.nodes.order)
        each = POD + int(nodes * POD_PER_NODE) + LATER * len(self._cluster.nodes.leaving)
        if pod_class.claims:
            each += len(pod_class.claims) * (CLAIM + int(nodes * POD_PER_NODE))
        units = count * each
        if count and pod_class.index not in self._classes:
            self._classes[pod_class.index] = None
            units += CLASS + int(nodes * CLASS_PER_NODE)
            plugins = self._cluster.plugins
            asked = len(plugins.of(NodeFilter)) + len(plugins.of(NodeScore))
            units += nodes * PLUGIN_PER_NODE * asked
        if pod_class.depends_on_other_pods:
            units += count * int(nodes * TOPOLOGY_PER_NODE)
            units += sum([self._pod_count_units(pod_class) for _ in range(count)])
        self.done += units

    def _pod_count_units(self, pod_class: PodClass) -> int:
        """Return the units for the counts of pods that a class needs. If a cycle needs more than are kept at a time,
        all are dropped and rebuilt."""
        counts = self._counted.get(pod_class.index)
        units = 0
        if counts is None:
            counts, units = count_work(self._cluster, pod_class, self._selecting)
            most = counts_max(self._cluster)
            if self._kept + counts > most:
                self._counted, self._kept = {}, 0
            if counts <= most:
                self._counted[pod_class.index] = counts
                self._kept += counts
        beyond = max(0, counts - 1)
        return units + beyond * (COUNT + int(len(self._cluster.nodes.order) * TOPOLOGY_PER_NODE))

    def add_node_search(self, preemptor_class_key: tuple[object, ...] | None, slot: int) -> None:
        """Count a node that is searched for victims."""
        self.done += self._node_search_units(slot)
        if preemptor_class_key is not None:
            self._passed.setdefault(preemptor_class_key, {})[slot] = None

    def add_passed_over(
        self, preemptor_class_key: tuple[object, ...] | None, slots: Iterable[int]
    ) -> None:
        """Count nodes that are known to fail: the cache entry may be older than the process."""
        if preemptor_class_key is None:
            return
        passed = self._passed.setdefault(preemptor_class_key, {})
        for slot in slots:
            if slot not in passed:
                passed[slot] = None
                self.done += self._node_search_units(slot)

    def passed_over(self, preemptor_class_key: tuple[object, ...] | None) -> Mapping[int, None]:
        """Return the slots of nodes that this cycle has counted already for preemptors of this class."""
        return {} if preemptor_class_key is None else self._passed.get(preemptor_class_key, {})

    def _node_search_units(self, slot: int) -> int:
        return NODE_SEARCH + VICTIM * len(self._cluster.nodes.order[slot].pods)
