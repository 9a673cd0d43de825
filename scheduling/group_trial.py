"""Trial placements for one pod group: what they add to its gang, and what its victims release."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Self

from projections.cluster import Cluster
from projections.nodes import Node
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.sub_groups import SubGroupKey
from scheduling.trial import Mark, Trial


class GroupTrial(Trial):
    """Placements of pods of one group, and evictions in its favour."""

    def __init__(self, cluster: Cluster, group: PodGroup) -> None:
        super().__init__(cluster)
        self.group = group
        self.roles: dict[str, int] = {}
        """Role to number of pods placed now; not counted without minimums by role or sub-groups, which need it."""
        self.nodes_of: dict[SubGroupKey, list[Node]] = {}
        """Sub-group to the nodes of its pods that are placed now or later."""
        self.released_above: dict[str, Amounts] = {}
        """Ancestor queue to the charges that victims of other queues would release."""
        self.lost_by_lineage: dict[str, Amounts] = {}
        """Queue to the charges of the victims in it and in its descendants."""
        self.moved: list[str] = []
        """Keys of the groups with a pod evicted or spared, one entry for each time."""
        self._released_by_queue: dict[str, Amounts] = {}
        self._grouped: list[Pod] | None = None
        """The victims of which the first `_count_grouped` are in `_by_group`."""
        self._by_group: dict[str, list[Pod]] = {}
        self._count_grouped = 0
        self._is_counted = bool(group.observed.min_tasks) or group.sub_groups is not None

    def __enter__(self) -> Self:
        """Begin to place pods of the group."""
        super().__enter__()
        try:
            self.begin(self.group)
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def extra(self) -> Amounts:
        """Return what the placed pods would be charged to the queue of the group, less what is kept there for them and what
        victims of the queue release."""
        return self.charged.get(self.group.queue, {})

    @property
    def parts(self) -> dict[SubGroupKey, int]:
        """Return sub-group to number of pods placed now or later."""
        return {key: len(nodes) for key, nodes in self.nodes_of.items()}

    @property
    def parts_now(self) -> dict[SubGroupKey, int]:
        """Return sub-group to number of pods placed now."""
        if not self.later or not self.nodes_of:
            return self.parts
        keys = [self._sub_group_of(one.pod) for one in self.now]
        return dict(Counter(key for key in keys if key is not None))

    @property
    def is_ready(self) -> bool:
        """Return True if the gang is complete with the pods that have room now."""
        if not self.now:
            return False
        if not self._is_counted:
            return self.group.is_ready_with(len(self.now), {})
        return self.group.is_ready_with(len(self.now), self.roles, self.parts_now)

    def place(
        self,
        pod: Pod,
        node: Node,
        devices: tuple[str, ...] = (),
        *,
        later: bool = False,
        is_last: bool = False,
    ) -> None:
        """Take room and devices for a pod."""
        super().place(pod, node, devices, later=later, is_last=is_last)
        if self._is_counted:
            if not later:
                self.roles[pod.facts.role] = self.roles.get(pod.facts.role, 0) + 1
            if (key := self._sub_group_of(pod)) is not None:
                self.nodes_of.setdefault(key, []).append(node)

    def restore(self, mark: Mark) -> None:
        """Restore all values as they were at a mark."""
        if self._is_counted:
            for one in self.placed_since(mark):
                if not one.is_later:
                    self.roles[one.pod.facts.role] -= 1
                if (key := self._sub_group_of(one.pod)) is not None:
                    self.nodes_of[key].pop()
        super().restore(mark)
        self._grouped = None

    def place_nominated(self) -> None:
        """Place the nominated pods of the group on the nodes to which they are nominated."""
        for pod in self.group.pending:
            nomination = self.group.decided.nominations.get(pod.facts.uid)
            if nomination is None:
                continue
            if (node := self.cluster.nodes.nodes.get(nomination.node)) is not None:
                self.place(pod, node, nomination.devices, later=True)

    def evict(self, pod: Pod) -> None:
        """Evict a pod: its queue is no longer charged for it."""
        super().evict(pod)
        self._add_released(pod, 1)

    def spare(self, pod: Pod) -> None:
        """Keep a pod that was evicted."""
        super().spare(pod)
        self._add_released(pod, -1)

    def evicted_of(self, key: str) -> Sequence[Pod]:
        """Return the victims of a pod group, in the order in which they were chosen."""
        if self._grouped is not self.evicted:
            self._grouped, self._by_group, self._count_grouped = self.evicted, {}, 0
        for pod in self.evicted[self._count_grouped :]:
            self._by_group.setdefault(pod.group_key, []).append(pod)
        self._count_grouped = len(self.evicted)
        return self._by_group.get(key, ())

    @property
    def evicted_by_group(self) -> dict[str, Sequence[Pod]]:
        """Return the victims by pod group, those groups first of which one was chosen first, if only for a while."""
        return {key: pods for key in dict.fromkeys(self.moved) if (pods := self.evicted_of(key))}

    def released_by_queue(self, queue: str) -> Amounts:
        """Return the charges that a queue would release for its own victims. Do not modify the result."""
        return self._released_by_queue.get(queue, {})

    def _add_released(self, pod: Pod, sign: int) -> None:
        """Update the sums over victims, so that reading them does not visit each victim."""
        moved, key, charge = self.moved, pod.group_key, pod.charge or ()
        moved.append(key)
        self._steps.append(partial(moved.append, key))
        queue = self.cluster.queues[self.cluster.groups[key].queue]
        self._add(self._released_by_queue, queue.name, charge, sign)
        for one in queue.lineage:
            self._add(self.lost_by_lineage, one.name, charge, sign)
        if queue.name == self.group.queue:
            self._add(self.charged, queue.name, charge, -sign)
            return
        for above in queue.lineage[1:]:
            self._add(self.released_above, above.name, charge, sign)

    def _sub_group_of(self, pod: Pod) -> SubGroupKey | None:
        parts = self.group.sub_groups
        return None if parts is None else parts.key_of(pod.facts.labels)
