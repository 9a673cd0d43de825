"""How far a search for victims has come, so that the next cycle can continue a search that was cut short (`search_deferred`).

Kept are the nodes that were found for pods of the group, and for each class of its pods up to which node, in the order of their
names, all failed. A search continues as long as the policy, the group's order and needs, and its pending pods are the same.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final

import msgspec
from msgspec import structs

from events.decisions.search_deferred import FreedNode, SearchCursor, SearchDeferred
from events.requeue import quota_events, quota_names
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.state import State
from scheduling.victims.victim_decisions import victim_events

DIGITS: Final = 16
"""Number of hexadecimal digits of the digest that are kept."""


class SearchProgress:
    """How far the search of an action for a pod group has come, over all cycles in which it ran."""

    def __init__(self, action: str, group: PodGroup, so_far: SearchDeferred | None = None) -> None:
        self._action = action
        self._group = group
        self.nodes = 0
        """Number of nodes that failed."""
        self.failed_units = 0
        """Units of work spent on nodes that failed in this cycle."""
        self.is_cut = False
        """True if this cycle cut the search short: unless the gang is complete it continues in the next one."""
        self.counts: Counter[str] = Counter()
        """Why nodes were not freed, with the number of nodes."""
        self.counts_before: Counter[str] = Counter()
        """The same in earlier cycles."""
        self.freed: list[str] = []
        """The nodes freed for pods, in order."""
        self._limits: dict[str, None] = {}
        """Quota limits that refused pods of the group."""
        self._planned: list[str] = []
        """The nodes that earlier cycles found, the next one last."""
        self._cursors: dict[int, tuple[Pod, str, int]] = {}
        """Class index to a pod of the class, the node up to which all failed (in the order of names), and how many
        pods of the group had a node then."""
        if so_far is not None:
            self._resume(so_far)

    def _resume(self, so_far: SearchDeferred) -> None:
        self.nodes = so_far.nodes
        self.counts_before = Counter(so_far.counts)
        self._limits = dict.fromkeys(quota_names(so_far.requeue_on))
        self._planned = [one.node for one in reversed(so_far.freed) for _ in range(one.pods)]
        by_key = {pod.key: pod for pod in self._group.pending}
        for one in so_far.cursors:
            self.set_cursor(by_key[one.pod], one.node, one.placed)

    def cursor(self, pod_class: PodClass, placed: int) -> str | None:
        """Return the node after which the search for pods of a class continues; None if it is not in the order of
        names. `placed` is how many pods of the group have a node now."""
        found = self._cursors.get(pod_class.index)
        if found is None or (pod_class.depends_on_other_pods and found[2] != placed):
            return None
        return found[1]

    def has_cursor(self, pod_class: PodClass) -> bool:
        """Return whether the search for pods of a class has come to a node, with however many pods placed."""
        return pod_class.index in self._cursors

    def set_cursor(self, pod: Pod, node: str, placed: int) -> None:
        """Record that all nodes up to one failed for the class of a pod."""
        self._cursors[pod.pod_class.index] = (pod, node, placed)

    def drop_cursor(self, pod_class: PodClass) -> None:
        """Search for pods of a class from the beginning."""
        self._cursors.pop(pod_class.index, None)

    def next_planned(self) -> str | None:
        """Return the node that an earlier cycle found for the next pod."""
        return self._planned.pop() if self._planned else None

    def drop_plan(self) -> None:
        """Drop all that earlier cycles found."""
        self._planned = []
        self._cursors.clear()

    def add_limits(self, names: Iterable[str]) -> None:
        """Record quota limits that refused a pod."""
        self._limits.update(dict.fromkeys(names))

    def include(self, other: "SearchProgress") -> None:
        """Report what the failed search among other groups found if the search in the group itself fails too."""
        self.counts_before = other.counts
        self.add_limits(other._limits)  # noqa: SLF001  # of the same class

    @property
    def requeue_on(self) -> tuple[str, ...]:
        """Return the events that could change the result."""
        return (*victim_events(self._action), *quota_events(sorted(self._limits)))

    def over(self, digest: str) -> SearchDeferred:
        """Return the record after which the search starts from the beginning; `digest` is what is wanted."""
        return SearchDeferred(
            pod_group=self._group.key,
            queue=self._group.queue,
            action=self._action,
            wanted=digest,
            nodes=self.nodes,
            requeue_on=victim_events(self._action),
        )

    def deferred(
        self,
        digest: str,
        counts: Counter[str],
        *,
        is_within: bool,
        takes_protected: bool,
        is_outdated: bool,
    ) -> SearchDeferred:
        """Return the record after which the search continues."""
        return structs.replace(
            self.over(digest),
            is_within=is_within,
            takes_protected=takes_protected,
            is_outdated=is_outdated,
            freed=tuple(
                FreedNode(node=name, pods=len(list(run))) for name, run in groupby(self.freed)
            ),
            cursors=tuple(
                SearchCursor(pod=pod.key, node=name, placed=placed)
                for pod, name, placed in self._cursors.values()
            ),
            counts=dict(sorted(counts.items())),
            requeue_on=self.requeue_on,
        )


def wanted(state: State, group: PodGroup) -> str:
    """Return a digest of the policy, of the group's order and needs, and of its pending pods with what they request.

    State that was folded from a base numbers the classes of pods otherwise, so they are named by their content.
    """
    content_of = state.cluster.inter_pod_affinity.classes.content_of
    classes = {pod.pod_class.index: pod.pod_class for pod in group.pending}
    places = {index: place for place, index in enumerate(classes)}
    parts = (
        state.policy_position,
        group.queue,
        group.priority,
        group.observed.min_available,
        sorted(group.observed.min_tasks.items()),
        (group.counts.ready, group.counts.allocated, len(group.pods)),
        [content_of(one) for one in classes.values()],
        [
            (pod.facts.uid, places[pod.pod_class.index], pod.facts.task_priority)
            for pod in group.pending
        ],
        sorted((uid, nomination.node) for uid, nomination in group.decided.nominations.items()),
    )
    return hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()[:DIGITS]
