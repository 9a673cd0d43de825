"""The work of a cycle, counted so that a replay counts the same, and the budget that it must keep to.

Units are about a microsecond of CPU each (measured, `docs/limits.md`). What is counted follows from State
alone: what a cache saved is counted as if it had not, once a cycle for each class of pods, as a daemon that
has just started has no caches. Each action has its part of the budget, and may use what the actions before
it left over.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup

THOUSAND: Final = 1_000

LINE: Final = 60
"""Units for looking at a line."""

DECISION: Final = 120
"""For a decision, sealed, encoded and applied."""

PLACEMENT: Final = 60
"""For each pod that a decision places or evicts."""

POD: Final = 30
"""For trying to place a pod."""

POD_PER_NODE: Final = 1 / 128
"""The same, for each node: the best of all scores."""

CLASS: Final = 250
"""For a class of pods that the cycle had not met."""

CLASS_PER_NODE: Final = 1 / 8
"""The same, for each node: its score, and why it will not do."""

TOPOLOGY_PER_NODE: Final = 1 / 4
"""For trying to place a pod that asks who stands where, for each node."""

TOPOLOGY_PER_CLASS: Final = 40
"""The same, for each other such class in the group: the pods of each are counted for it."""

TOPOLOGY_PER_POD: Final = 4
"""For a class of pods that asks who stands where and that the cycle had not met, for each pod there is."""

NODE_SEARCH: Final = 150
"""For a node that is looked at in order to free it."""

VICTIM: Final = 40
"""The same, for each pod there."""

BUNDLE: Final = 100
"""For a bundle of pods that may make way for a gang, found or tried."""

DONOR: Final = 4
"""For each pod group that is asked for such bundles."""

FAIR: Final = 120
"""For a change that is thought of in the tree of shares (`drf` with `enableHierarchy`): a step for each level."""

FAIR_AGAIN: Final = 20
"""For each pod group that is looked at again there because a resource comes to be used up, or no longer is."""

LATER: Final = 20
"""For each node that pods are leaving, when a place is sought for a pod."""


def class_work(cluster: Cluster, group: PodGroup) -> int:
    """Units that the classes of the waiting pods of a group take in one attempt to place it, pods that are equal not
    counted: what bounds a gang of unlike pods."""
    nodes, pods = len(cluster.nodes.order), len(cluster.pods)
    waiting = [
        one
        for index, one in group.classes.items()
        if index in group.pending_classes or one.is_best_effort
    ]
    around = sum(1 for one in waiting if one.looks_around)
    units = len(waiting) * (CLASS + int(nodes * CLASS_PER_NODE))
    return units + around * (
        int(nodes * TOPOLOGY_PER_NODE) + pods * TOPOLOGY_PER_POD + around * TOPOLOGY_PER_CLASS
    )


def has_too_many_classes(cluster: Cluster, group: PodGroup) -> bool:
    """Whether the pods of a group are of too many classes to be placed in one attempt."""
    return len(group.classes) > 1 and class_work(cluster, group) > (
        THOUSAND * cluster.policy.action_arguments.class_budget
    )


SEARCHES: Final = 4
"""A search for pods to evict may take at least one in so many of what its action may take."""


class Work:
    """The work of the cycle that is open."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.done = 0
        """Units so far."""
        self.budget = 1
        self._ends_at = 0
        self._begun_at = 0
        self._actions = self._begun = 0
        self._classes: dict[int, None] = {}
        self._passed: dict[tuple[object, ...], dict[int, None]] = {}
        """For claims that are alike, the slots of nodes that were looked at in order to free them."""

    def open_cycle(self) -> None:
        """A cycle begins."""
        policy = self._cluster.policy
        self.done, self.budget = 0, THOUSAND * policy.action_arguments.work_budget
        self._actions, self._begun = len(policy.actions), 0
        self._classes, self._passed = {}, {}

    def open_action(self) -> None:
        """The next action begins. It has at least half of an equal part, whatever those before it took."""
        part = self.budget // self._actions
        self._begun += 1
        self._begun_at = self.done
        self._ends_at = max(self.budget * self._begun // self._actions, self.done + part // 2)

    @property
    def allowance(self) -> int:
        """Units that the action may take."""
        return self._ends_at - self._begun_at

    @property
    def least_search(self) -> int:
        """Units that a search for pods to evict may take for nodes that it looks at in vain, however late it begins."""
        return max(1, self.allowance // SEARCHES)

    @property
    def is_used_up(self) -> bool:
        """Whether the action has used up what it may take."""
        return self.done >= self._ends_at

    @property
    def is_half_used(self) -> bool:
        """Whether it has used up half of that."""
        return self.done - self._begun_at >= self.allowance // 2

    def add(self, units: int) -> None:
        """Count some."""
        self.done += units

    def add_bundles(self, groups: int, count: int) -> None:
        """Count the search for bundles of pods, of which so many were found, in so many pod groups."""
        self.done += DONOR * groups + BUNDLE * count

    def add_pod(self, pod_class: PodClass) -> None:
        """Count the search for a node for a pod of a class."""
        nodes = len(self._cluster.nodes.order)
        units = POD + int(nodes * POD_PER_NODE) + LATER * len(self._cluster.nodes.leaving)
        looks_around = pod_class.looks_around
        if looks_around:
            units += int(nodes * TOPOLOGY_PER_NODE)
        if pod_class.index not in self._classes:
            self._classes[pod_class.index] = None
            units += CLASS + int(nodes * CLASS_PER_NODE)
            if looks_around:
                units += len(self._cluster.pods) * TOPOLOGY_PER_POD
        self.done += units

    def add_node_search(self, preemptor_class_key: tuple[object, ...] | None, slot: int) -> None:
        """Count a node that is looked at in order to free it."""
        self.done += self._node_search_units(slot)
        if preemptor_class_key is not None:
            self._passed.setdefault(preemptor_class_key, {})[slot] = None

    def add_passed_over(
        self, preemptor_class_key: tuple[object, ...] | None, slots: Iterable[int]
    ) -> None:
        """Count nodes that are known not to be freed: what found that out may be older than the process."""
        if preemptor_class_key is None:
            return
        passed = self._passed.setdefault(preemptor_class_key, {})
        for slot in slots:
            if slot not in passed:
                passed[slot] = None
                self.done += self._node_search_units(slot)

    def passed_over(self, preemptor_class_key: tuple[object, ...] | None) -> Mapping[int, None]:
        """The slots of nodes that this cycle has counted already for claims that are alike."""
        return {} if preemptor_class_key is None else self._passed.get(preemptor_class_key, {})

    def _node_search_units(self, slot: int) -> int:
        return NODE_SEARCH + VICTIM * len(self._cluster.nodes.order[slot].pods)
