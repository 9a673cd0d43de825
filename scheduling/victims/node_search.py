"""The search for a node that evictions free for one pod.

Nodes are searched priority by priority: first those that victims of the lowest priority could free, by the sums of
their requests (`PreemptibleCapacity`). Once a node is found, at most COMPARED_MAX others are examined for fewer victims.
Of several nodes that evictions could free the one is taken whose most urgent victim has the lowest priority, then the one with
the fewest victims, then the first in Volcano's order: by score for preempt, by name for reclaim.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from projections.nodes import Node
from projections.pods import Pod
from projections.wakeup_events import LOWEST_PRIORITY
from scheduling.failed_preemption_cache import FailedNodes
from scheduling.preemptible_capacity import VictimScope
from scheduling.session import Session
from scheduling.victims.pod_room import PodRoom
from scheduling.victims.search_progress import SearchProgress
from scheduling.victims.victim_ranking import eviction_cost

LEVELS_MAX: Final = 8
"""Number of priorities that are searched one after the other; with more, neighbours are searched together."""

COMPARED_MAX: Final = 32
"""Number of nodes that are examined for fewer victims once a node is found."""

BEST_ONE_BY_ONE: Final = 8
"""Number of best nodes that are found one by one before all are sorted."""


class NodeSearch:
    """The search for a node for one pod. Nodes that fail are added to `tried`, and counted by why they fail in `counts`."""

    def __init__(
        self,
        session: Session,
        room: PodRoom,
        progress: SearchProgress,
        tried: dict[int, None],
        counts: Counter[str],
    ) -> None:
        self._session = session
        self._cluster = session.cluster
        self._work = session.work
        self._room = room
        self._preemptor = room.preemptor
        self._pod = room.preemptor.pod
        self._trial = room.preemptor.trial
        self._progress = progress
        self._tried = tried
        """Slots of nodes that could not be freed for a pod of the class."""
        self._counts = counts

    def cheapest(self) -> tuple[Node, list[Pod]] | None:
        """Return the node to free for the pod, with its victims; None if none can be freed."""
        best: tuple[Node, list[Pod]] | None = None
        if self._compares_candidates:
            arguments = self._cluster.policy.action_arguments.preempting
            most = arguments.candidates(len(self._cluster.nodes.order))
            ways = islice(self._freeable_nodes(_Compared()), most)
            return min(ways, key=lambda way: eviction_cost(self._cluster, way[1]), default=None)
        compared = _Compared()
        for node, gone in self._freeable_nodes(compared):
            priority = self._priority_of(gone)
            if best is None or (priority, len(gone)) < (compared.priority, compared.victims):
                best = node, gone
                compared.priority, compared.victims = priority, len(gone)
            if compared.victims <= 1 and compared.priority <= compared.level:
                break
        return best

    @property
    def _compares_candidates(self) -> bool:
        """Return True if the node is chosen among candidates by the cost of its victims (Volcano's topology-aware
        preemption)."""
        preemptor = self._preemptor
        arguments = self._cluster.policy.action_arguments.preempting
        return preemptor.action == "preempt" and not preemptor.is_within and arguments.is_simulated

    def _priority_of(self, gone: list[Pod]) -> int:
        """Return the priority of the most urgent of these pods, as far as priorities count."""
        if not gone or not self._cluster.plugins.orders_by_priority:
            return LOWEST_PRIORITY
        groups = self._cluster.groups
        return max(groups[pod.group_key].priority for pod in gone)

    def _freeable_nodes(self, compared: "_Compared") -> Iterator[tuple[Node, list[Pod]]]:
        """Yield nodes that can be freed with the victims of each, as long as one could be better than what was `compared`; the
        victims are not evicted yet."""
        room, trial, key = self._room, self._trial, self._room.equivalence_class
        known = None if key is None else self._session.failed_preemptions.of(key)
        self._work.add_pod(self._pod.pod_class)
        has_freeable_node = False
        for node, level, why in self._nodes(key, known):
            if why:
                self._record_failed_node(node, why, moves_cursor=not has_freeable_node)
                continue
            compared.level = level
            if compared.victims:
                if level > compared.priority or compared.nodes >= COMPARED_MAX:
                    return
                is_as_urgent = compared.priority <= level
                if is_as_urgent and room.least_victims(node) >= compared.victims:
                    continue
                compared.nodes += 1
            before = trial.mark()
            short = room.quota_short(node)
            self._progress.add_limits(short)
            found = room.free(node, short)
            if not found:
                gone = trial.evicted[before.evictions :]
                trial.restore(before)
                has_freeable_node = True
                yield node, gone
                continue
            if known is not None and not short:
                # Quota did not decide, so the result may be cached without it.
                known.add(node.slot, found)
            self._record_failed_node(node, found, moves_cursor=not has_freeable_node)

    def _record_failed_node(self, node: Node, why: str, *, moves_cursor: bool) -> None:
        """Record that a node cannot be freed for the pod."""
        pod_class, placed = self._pod.pod_class, self._trial.count
        self._counts[why] += 1
        self._progress.nodes += 1
        # The trial only grows: the next pod of the class would find no more room there.
        if not pod_class.depends_on_other_pods:
            self._tried[node.slot] = None
        if moves_cursor and self._progress.cursor(pod_class, placed) is not None:
            self._progress.set_cursor(self._pod, node.name, placed)

    def _nodes(
        self, key: tuple[object, ...] | None, known: FailedNodes | None
    ) -> Iterator[tuple[Node, int, str]]:
        """Yield nodes that evictions could free, priority by priority, and at each the better ones first. With each come the
        lowest priority that its most urgent victim can have, and why it fails, if that is known."""
        work, progress, table = self._work, self._progress, self._cluster.nodes
        pod_class = self._pod.pod_class
        self._room.ranking.scores()
        scope = self._scope()
        can = self._could_be_freed(scope)
        last = progress.cursor(pod_class, self._trial.count)
        if last is not None:
            first = bisect_right(table.order, last, key=lambda one: one.name)
            can[:first] = False
        if not can.any():
            return
        skipped = work.passed_over(key) if known is not None else {}
        for slot in skipped:
            if known is not None and known.slots[slot] and can[slot]:
                can[slot] = False
                self._counts[known.message_of(slot)] += 1
                self._tried[slot] = None
        levels = self._levels(scope, is_by_name=last is not None)
        for level, within in levels:
            if not can.any():
                return
            at_level = can
            if within is not scope:
                at_level = can & self._session.preemptible.within(within, pod_class.request)
                can = can & ~at_level
            if self._preemptor.action == "reclaim" or last is not None:
                slots: Iterator[int] = iter(np.flatnonzero(at_level).tolist())
            else:
                slots = _by_score(self._room.ranking.scores_of(at_level))
            for slot in slots:
                if work.is_used_up and progress.failed_units >= work.least_search:
                    self._cut_short(is_in_order=len(levels) == 1)
                    return
                before = work.done
                if known is not None and known.slots[slot]:
                    work.add_passed_over(key, (slot,))
                    yield table.order[slot], level, known.message_of(slot)
                else:
                    work.add_node_search(key, slot)
                    yield table.order[slot], level, ""
                progress.failed_units += work.done - before

    def _scope(self) -> VictimScope:
        preemptor = self._preemptor
        return self._session.donors.scope(
            preemptor.action,
            preemptor.group.queue,
            preemptor.group.priority,
            takes_protected=preemptor.takes_protected,
        )

    def _could_be_freed(self, scope: VictimScope) -> npt.NDArray[np.bool_]:
        """Return the nodes, slot by slot, that victims of a scope could free and that did not fail before."""
        table, preemptor = self._cluster.nodes, self._preemptor
        is_open = self._room.admitting_nodes()
        if preemptor.is_within:
            can = np.zeros(len(table.order), dtype=np.bool_)
            for pod in preemptor.group.pods.values():
                node = table.nodes.get(pod.node) if pod.node else None
                if node is not None and node.facts is not None:
                    can[node.slot] = True
        else:
            can = self._session.preemptible.within(scope, self._pod.pod_class.request)
        if not self._counts:
            self._count("Preemption is not helpful for scheduling", int((~is_open).sum()))
            self._count(
                "node(s) would not have enough room after evicting all possible victims",
                int((is_open & ~can).sum()),
            )
        can[list(self._tried)] = False
        can &= is_open
        return can

    def _count(self, text: str, number: int) -> None:
        if number:
            self._counts[text] += number

    def _levels(self, scope: VictimScope, *, is_by_name: bool) -> list[tuple[int, VictimScope]]:
        """Return the scopes of victims priority by priority, the whole scope last, each with the lowest priority that it adds."""
        cluster, whole = self._cluster, [(LOWEST_PRIORITY, scope)]
        if is_by_name or self._preemptor.is_within or self._compares_candidates:
            return whole
        if not cluster.plugins.orders_by_priority:
            return whole
        offered = {
            priority
            for name in scope.queues
            if name != scope.without and name in cluster.queues
            for priority in cluster.queues[name].evictable
        }
        priorities = sorted(one for one in offered if scope.bound is None or one < scope.bound)
        step = -(-len(priorities) // LEVELS_MAX) or 1
        levels = [priorities[at : at + step] for at in range(0, len(priorities), step)]
        if len(levels) < 2:
            return whole
        found = [(level[0], structs.replace(scope, bound=level[-1] + 1)) for level in levels[:-1]]
        return [*found, (levels[-1][0], scope)]

    def _cut_short(self, *, is_in_order: bool) -> None:
        """Cut the search short: it continues where it is, or in the order of names from the first node on."""
        progress, placed = self._progress, self._trial.count
        progress.is_cut = True
        if progress.cursor(self._pod.pod_class, placed) is not None:
            return
        name = ""
        if self._preemptor.action == "reclaim" and self._tried and is_in_order:
            name = self._cluster.nodes.order[max(self._tried)].name
        progress.set_cursor(self._pod, name, placed)


class _Compared(Struct):
    """The best node found so far, and how many others were examined since."""

    priority: int = LOWEST_PRIORITY
    """Of its most urgent victim."""
    victims: int = 0
    """Number of its victims; 0 before a node is found."""
    nodes: int = 0
    level: int = LOWEST_PRIORITY
    """The lowest priority that the most urgent victim on the node examined last can have."""


def _by_score(scores: npt.NDArray[np.int64]) -> Iterator[int]:
    """Yield the slots of feasible nodes, the better ones first, then by name."""
    for _ in range(BEST_ONE_BY_ONE):
        best = int(scores.argmax())
        if scores[best] < 0:
            return
        yield best
        scores[best] = -1
    order: list[int] = np.argsort(-scores, kind="stable")[: int((scores >= 0).sum())].tolist()
    yield from order
