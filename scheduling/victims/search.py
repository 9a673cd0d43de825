"""One preemption attempt for a pod group: its pending pods in order, each on a node that evictions free for it.

The rules are those of Volcano's preempt and reclaim: on each node victims are taken in eviction order until the
pod fits and its queue may be charged for it; a node that fails is left unchanged; and the group gets all that
completes its gang, or no pod is evicted. Differences: free room is used before any pod is evicted, victims on
a node that turn out not to be needed are restored, and of several nodes that evictions could free the one is taken whose
most urgent victim has the lowest priority, then the one with the fewest victims, then the first in Volcano's order: by
score for preempt, by name for reclaim.

Nodes are searched priority by priority: first those that victims of the lowest priority could free, by the sums of
their requests (`PreemptibleCapacity`). Once a node is found, at most COMPARED_MAX others are examined for fewer victims.

When the action has used up its share of the work, a search without success is cut short and continues in the next
cycle (`search_deferred`): the nodes found for pods of the group are checked first, and then nodes in the order of
their names, from where it stopped. The search fails only after all nodes were searched.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from events.decision import Decision
from events.decisions.search_deferred import FreedNode, SearchCursor, SearchDeferred
from events.requeue import quota_events, quota_names
from projections.nodes import Node
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.preemption_triggers import is_starving, never_preempts
from projections.wakeup_events import LOWEST_PRIORITY
from scheduling.failed_preemption_cache import FailedNodes
from scheduling.gang_attempt import cards_to_charge, refused_demand
from scheduling.group_trial import GroupTrial
from scheduling.node_ranking import NodeRanking
from scheduling.preemptible_capacity import VictimScope, victim_scope
from scheduling.quota.card_selection import CardChoice
from scheduling.quota.reclaiming import why_reclaim_denied
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable
from scheduling.victims.pod_room import PodRoom
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.search_digest import wanted
from scheduling.victims.victim_decisions import decisions, is_whole, victim_events
from scheduling.victims.victim_ranking import eviction_cost

LEVELS_MAX: Final = 8
"""Number of priorities that are searched one after the other; with more, neighbours are searched together."""

COMPARED_MAX: Final = 32
"""Number of nodes that are examined for fewer victims once a node is found."""

BEST_ONE_BY_ONE: Final = 8
"""Number of best nodes that are found one by one before all are sorted."""


class PreemptionSearch:
    """The result of a preemption attempt for a pod group."""

    def __init__(
        self,
        session: Session,
        action: str,
        group: PodGroup,
        so_far: SearchDeferred | None = None,
        *,
        is_within: bool = False,
        takes_protected: bool = False,
    ) -> None:
        self.session = session
        self.action = action
        self.group = group
        self.trial = GroupTrial(session.cluster, group)
        self._job = session.rankings.job_of(group)
        self.is_cut = False
        """True if the search was cut short: unless the gang is complete it continues in the next cycle."""
        self.counts: Counter[str] = Counter()
        """Why nodes were not freed for the first pod that failed, with the number of nodes."""
        self._has_freeable_node = False
        """True if a node was found that can be freed for the pod."""
        self._has_levels = False
        """True if nodes are searched priority by priority."""
        self._failed_units = self._nodes_before = 0
        """Units spent on nodes that failed, and the number of nodes searched in earlier cycles."""
        self._nodes_looked = 0
        """Number of nodes that failed."""
        self._freed: list[str] = []
        """The nodes freed for pods, in order."""
        self._planned_nodes: list[str] = []
        """The nodes that earlier cycles found, the next one last."""
        self._cursors: dict[int, tuple[Pod, str, int]] = {}
        """Class index to a pod of the class, the node up to which all failed (in the order of names), and how many
        pods of the group had a node then."""
        self._counts_before: Counter[str] = Counter()
        self._is_within = is_within
        self.takes_protected = takes_protected
        self._problem = ""
        self._limits: dict[str, None] = {}
        """Quota limits that refused pods of the group."""
        self._failed: dict[int, None] = {}
        self._looked: dict[int, int] = {}
        """Class index to how many placements of the trial were checked for room that they left."""
        self._tried: dict[int, dict[int, None]] = {}
        """Class index to the slots of nodes that could not be freed for a pod of the class."""
        if so_far is not None:
            self._resume(so_far)
        session.groups_examined += 1
        with self.trial:
            self.trial.place_nominated()
            self._place_all()
        session.fair.discard_assumptions()

    @property
    def is_whole(self) -> bool:
        """Return True if the gang is complete once all victims have terminated."""
        return is_whole(self.trial)

    @property
    def reason(self) -> Unschedulable:
        """Return why no pod is evicted."""
        if self._problem:
            return Unschedulable("NotEntitled", "", self._problem, requeue_on=self._requeue_on)
        total = len(self.session.cluster.nodes.order)
        counts = self._counts_before if self._is_within else self.counts
        listed = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
        message = (
            f"{self.action}: 0/{total} nodes are available: {listed or 'no node was searched'}."
        )
        return Unschedulable("NoVictims", "", message, requeue_on=self._requeue_on)

    @property
    def _requeue_on(self) -> tuple[str, ...]:
        """Return the events that could change the result."""
        return (*victim_events(self.action), *quota_events(sorted(self._limits)))

    def decisions(self) -> Iterator[Decision]:
        """Yield the evictions and the nominations for the group."""
        return decisions(self.action, self.trial)

    def deferred(self, *, is_outdated: bool, is_over: bool = False) -> SearchDeferred:
        """Return what was found so far. If the search `is_over` it starts from the beginning."""
        group = self.group
        nodes = self._nodes_before + self._nodes_looked
        start = SearchDeferred(
            pod_group=group.key,
            queue=group.queue,
            action=self.action,
            wanted=wanted(self.session.state, group),
            nodes=nodes,
            requeue_on=victim_events(self.action),
        )
        if is_over:
            return start
        return structs.replace(
            start,
            is_within=self._is_within,
            takes_protected=self.takes_protected,
            is_outdated=is_outdated,
            freed=tuple(
                FreedNode(node=name, pods=len(list(run))) for name, run in groupby(self._freed)
            ),
            cursors=tuple(
                SearchCursor(pod=pod.key, node=name, placed=placed)
                for pod, name, placed in self._cursors.values()
            ),
            counts=dict(sorted((self._counts_before if self._is_within else self.counts).items())),
            requeue_on=self._requeue_on,
        )

    def include_counts_of(self, other: "PreemptionSearch") -> None:
        """Report the counts of the failed search among other groups if the search in the group itself fails too."""
        self._counts_before = other.counts
        self._limits.update(other._limits)  # noqa: SLF001  # of the same class

    def _resume(self, so_far: SearchDeferred) -> None:
        self._nodes_before = so_far.nodes
        self._counts_before = Counter(so_far.counts)
        self._limits = dict.fromkeys(quota_names(so_far.requeue_on))
        self._planned_nodes = [one.node for one in reversed(so_far.freed) for _ in range(one.pods)]
        by_key = {pod.key: pod for pod in self.group.pending}
        for one in so_far.cursors:
            pod = by_key[one.pod]
            self._cursors[pod.pod_class.index] = (pod, one.node, one.placed)

    def _cursor_of(self, pod_class: PodClass) -> str | None:
        """Return the node after which the search for pods of a class continues; None if it is not in the order of
        names."""
        found = self._cursors.get(pod_class.index)
        if found is None or (pod_class.depends_on_other_pods and found[2] != self.trial.count):
            return None
        return found[1]

    @property
    def _is_used_up(self) -> bool:
        """Return True if enough nodes were searched without success."""
        work = self.session.work
        return work.is_used_up and self._failed_units >= work.least_search

    def _place_all(self) -> None:
        group, plugins = self.group, self.session.cluster.plugins
        # If `allocate` does not refuse the group, it is its best-effort pods that lack a node.
        seeks_a_place = "allocate" not in group.refusals
        for index, pod in enumerate(group.pending):
            own = len(self.trial.evicted_of(group.key))
            placed = self.trial.count - len(group.nominations) - own
            if not is_starving(plugins, group, placed):
                return
            pod_class = pod.pod_class
            if pod_class.is_best_effort != seeks_a_place or pod.facts.uid in group.nominations:
                continue
            if refused_demand(self.session.cluster, pod):
                continue
            if pod_class.index in self._failed:
                continue
            if self._use_free_room(pod) or self._free_node(pod):
                continue
            if self.is_cut:
                return
            self._failed[pod_class.index] = None
            last = self.session.cluster.nodes.order[-1:]
            for node in last:
                self._cursors[pod_class.index] = (pod, node.name, self.trial.count)
            if not self._can_still_be_whole(index):
                return

    def _can_still_be_whole(self, index: int) -> bool:
        """Return True if the gang can still be complete after a pod failed."""
        group = self.group
        rest = sum(pod.pod_class.index not in self._failed for pod in group.pending[index + 1 :])
        return group.counts.ready + self.trial.count + rest >= group.min_available

    def _use_free_room(self, pod: Pod) -> bool:
        """Place the pod on room that is free, or is being freed already."""
        choice = cards_to_charge(self.session, self.group, pod, self.trial.extra)
        if not isinstance(choice, CardChoice):
            limits = (choice.limit, *quota_names(choice.requeue_on))
            self._limits.update(dict.fromkeys([one for one in limits if one]))
            return False
        self._limits.update(dict.fromkeys(choice.over_quota))
        self.session.work.add_pod(pod.pod_class)
        ranking = self.session.rankings.of(pod.pod_class, choice.cards, self._job)
        node = ranking.best()
        if node is not None:
            self.trial.place(pod, node, ranking.devices.pick(node))
            return True
        node = self._being_freed(ranking, pod)
        if node is not None:
            devices = ranking.devices.pick(node, later=True)
            self.trial.place(pod, node, devices, later=True)
        return node is not None

    def _being_freed(self, ranking: NodeRanking, pod: Pod) -> Node | None:
        """Return a node that will have room. Once there was none for a class, check only nodes where the trial
        evicted pods since then."""
        key, later = pod.pod_class.index, self.trial.later
        if key not in self._looked or pod.pod_class.depends_on_other_pods:
            self._looked[key] = len(later)
            node = ranking.best_later()
            if node is not None:
                del self._looked[key]
            return node
        for one in later[self._looked[key] :]:
            if ranking.will_have_room(one.node):
                return one.node
            self._looked[key] += 1
        return None

    def _free_node(self, pod: Pod) -> bool:
        """Free a node for a pod: that with the least urgent victims, then with the fewest."""
        pod_class = pod.pod_class
        preemptor = Preemptor(
            self.action,
            self.trial,
            pod,
            self.session.fair,
            self.session.work,
            is_within=self._is_within,
            takes_protected=self.takes_protected,
        )
        if pod_class.never_preempts or never_preempts(preemptor.cluster, preemptor.group):
            self.counts["node(s) not eligible due to preemptionPolicy=Never"] += len(
                self.session.cluster.nodes.order
            )
            return False
        if self.action == "reclaim":
            problem = why_reclaim_denied(
                preemptor.cluster, preemptor.queue, preemptor.asked, self.trial.extra
            )
            if problem:
                self._problem = self._problem or problem
                return False
        room = PodRoom(preemptor, self.session.rankings)
        if self._retry_planned_node(room):
            return True
        counts = Counter() if self._failed else Counter(self._counts_before)
        cursor = self._cursors.get(pod_class.index)
        best = self._cheapest_node(room, counts)
        if best is None:
            if self.is_cut and not self._cursors[pod_class.index][1]:
                counts = Counter()  # Now in the order of names: all nodes are searched once more.
            self.counts = self.counts if self._failed else counts
            return False
        if self.is_cut:
            # Only the comparison was cut short.
            self.is_cut = False
            if cursor is None:
                self._cursors.pop(pod_class.index, None)
        node, gone = best
        for victim in gone:
            self.trial.evict(victim)
        self._place_on(room, node, gone)
        return True

    def _retry_planned_node(self, room: PodRoom) -> bool:
        """Free the node that an earlier cycle found for the pod. If that is no longer possible drop all that it
        found."""
        if not self._planned_nodes:
            return False
        table, before = self.session.cluster.nodes, len(self.trial.evicted)
        node = table.nodes.get(self._planned_nodes.pop())
        if node is not None and node.facts is not None:
            self.session.work.add_node_search(None, node.slot)
            short = room.quota_short(node)
            self._limits.update(dict.fromkeys(short))
            if room.admitting_nodes()[node.slot] and not self._choose_victims(room, node, short):
                self._place_on(room, node, self.trial.evicted[before:])
                return True
        self._planned_nodes = []
        self._cursors.clear()
        return False

    def _place_on(self, room: PodRoom, node: Node, gone: list[Pod]) -> None:
        pod = room.preemptor.pod
        is_later = bool(gone) or not node.fits(pod.pod_class.request)
        self.trial.place(pod, node, room.pick_devices(node, later=is_later), later=is_later)
        self._freed.append(node.name)

    def _cheapest_node(self, room: PodRoom, counts: Counter[str]) -> tuple[Node, list[Pod]] | None:
        """Return the node to free for a pod, with its victims; None if none can be freed."""
        cluster = self.session.cluster
        best: tuple[Node, list[Pod]] | None = None
        if self._compares_candidates:
            arguments = cluster.policy.action_arguments.preempting
            most = arguments.candidates(len(cluster.nodes.order))
            ways = islice(self._freeable_nodes(room, counts, _Compared()), most)
            return min(ways, key=lambda way: eviction_cost(cluster, way[1]), default=None)
        compared = _Compared()
        for node, gone in self._freeable_nodes(room, counts, compared):
            priority = self._priority_of(gone)
            if best is None or (priority, len(gone)) < (compared.priority, compared.victims):
                best = node, gone
                compared.priority, compared.victims = priority, len(gone)
            if compared.victims <= 1 and compared.priority <= compared.level:
                break
        return best

    def _priority_of(self, gone: list[Pod]) -> int:
        """Return the priority of the most urgent of these pods, as far as priorities count."""
        groups = self.session.cluster.groups
        if not gone or not self.session.cluster.plugins.orders_by_priority:
            return LOWEST_PRIORITY
        return max(groups[pod.group_key].priority for pod in gone)

    def _freeable_nodes(
        self, room: PodRoom, counts: Counter[str], compared: "_Compared"
    ) -> Iterator[tuple[Node, list[Pod]]]:
        """Yield nodes that can be freed with the victims of each, as long as one could be better than what was `compared`; the
        victims are not evicted yet."""
        preemptor = room.preemptor
        pod_class, preemptor_class_key = preemptor.pod.pod_class, room.equivalence_class
        known = (
            None
            if preemptor_class_key is None
            else self.session.failed_preemptions.of(preemptor_class_key)
        )
        self.session.work.add_pod(pod_class)
        self._has_freeable_node = False
        for node, level in self._nodes(room, counts, known, preemptor_class_key):
            compared.level = level
            if compared.victims:
                if level > compared.priority or compared.nodes >= COMPARED_MAX:
                    return
                is_as_urgent = compared.priority <= level
                if is_as_urgent and room.least_victims(node) >= compared.victims:
                    continue
                compared.nodes += 1
            before = self.trial.mark()
            short = room.quota_short(node)
            self._limits.update(dict.fromkeys(short))
            found = self._choose_victims(room, node, short)
            if not found:
                gone = self.trial.evicted[before.evictions :]
                self.trial.restore(before)
                self._has_freeable_node = True
                yield node, gone
                continue
            if known is not None and not short:
                # Quota did not decide, so the result may be cached without it.
                known.add(node.slot, found)
            self._record_failed_node(preemptor, node, counts, found)

    def _record_failed_node(
        self, preemptor: Preemptor, node: Node, counts: Counter[str], why: str
    ) -> None:
        """Record that a node cannot be freed for a pod."""
        pod_class = preemptor.pod.pod_class
        counts[why] += 1
        self._nodes_looked += 1
        # The trial only grows: the next pod of the class would find no more room there.
        if not pod_class.depends_on_other_pods:
            self._tried.setdefault(pod_class.index, {})[node.slot] = None
        if self._cursor_of(pod_class) is not None and not self._has_freeable_node:
            self._cursors[pod_class.index] = (preemptor.pod, node.name, self.trial.count)

    @property
    def _compares_candidates(self) -> bool:
        """Return True if the node is chosen among candidates by the cost of its victims (Volcano's topology-aware
        preemption)."""
        arguments = self.session.cluster.policy.action_arguments.preempting
        return self.action == "preempt" and not self._is_within and arguments.is_simulated

    def _scopes(self, preemptor: Preemptor, scope: VictimScope) -> list[tuple[int, VictimScope]]:
        """Return the scopes of victims priority by priority, the whole scope last, each with the lowest priority that it adds."""
        cluster = preemptor.cluster
        is_one = (
            self._is_within or self._compares_candidates or not cluster.plugins.orders_by_priority
        )
        if is_one or self._cursor_of(preemptor.pod.pod_class) is not None:
            return [(LOWEST_PRIORITY, scope)]
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
            return [(LOWEST_PRIORITY, scope)]
        self._has_levels = True
        found = [(level[0], structs.replace(scope, bound=level[-1] + 1)) for level in levels[:-1]]
        return [*found, (levels[-1][0], scope)]

    def _nodes(
        self,
        room: PodRoom,
        counts: Counter[str],
        known: FailedNodes | None,
        preemptor_class_key: tuple[object, ...] | None,
    ) -> Iterator[tuple[Node, int]]:
        """Yield nodes that evictions could free, without those known to fail: priority by priority, and at each the better ones
        first. With each comes the lowest priority that its most urgent victim can have."""
        session, preemptor, work = self.session, room.preemptor, self.session.work
        table, pod_class = session.cluster.nodes, preemptor.pod.pod_class
        room.ranking.scores()
        is_open = room.admitting_nodes()
        scope = victim_scope(
            session.cluster,
            session.donors,
            self.action,
            self.group.queue,
            self.group.priority,
            takes_protected=self.takes_protected,
        )
        if self._is_within:
            can = np.zeros(len(table.order), dtype=np.bool_)
            for pod in self.group.pods.values():
                node = table.nodes.get(pod.node) if pod.node else None
                if node is not None and node.facts is not None:
                    can[node.slot] = True
        else:
            can = session.preemptible.within(scope, pod_class.request)
        if not counts:
            _count(counts, "Preemption is not helpful for scheduling", int((~is_open).sum()))
            _count(
                counts,
                "node(s) would not have enough room after evicting all possible victims",
                int((is_open & ~can).sum()),
            )
        can[list(self._tried.get(pod_class.index, ()))] = False
        can &= is_open
        last = self._cursor_of(pod_class)
        if last is not None:
            first = bisect_right(table.order, last, key=lambda one: one.name)
            can[:first] = False
        if not can.any():
            return
        skipped = work.passed_over(preemptor_class_key) if known is not None else {}
        for slot in skipped:
            if known is not None and known.slots[slot] and can[slot]:
                can[slot] = False
                counts[known.message_of(slot)] += 1
                self._tried.setdefault(pod_class.index, {})[slot] = None
        for level, within in self._scopes(preemptor, scope):
            if not can.any():
                return
            at_level = can
            if within is not scope:
                at_level = can & session.preemptible.within(within, pod_class.request)
                can = can & ~at_level
            if self.action == "reclaim" or last is not None:
                slots: Iterator[int] = iter(np.flatnonzero(at_level).tolist())
            else:
                slots = _by_score(room.ranking.scores_of(at_level))
            for slot in slots:
                if self._is_used_up:
                    self._cut_short(preemptor)
                    return
                node, before = table.order[slot], work.done
                if known is not None and known.slots[slot]:
                    work.add_passed_over(preemptor_class_key, (slot,))
                    self._record_failed_node(preemptor, node, counts, known.message_of(slot))
                else:
                    work.add_node_search(preemptor_class_key, slot)
                    yield node, level
                self._failed_units += work.done - before

    def _cut_short(self, preemptor: Preemptor) -> None:
        """Cut the search short: it continues where it is, or in the order of names from the first node on."""
        self.is_cut = True
        pod_class, index = preemptor.pod.pod_class, preemptor.pod.pod_class.index
        if self._cursor_of(pod_class) is not None:
            return
        name = ""
        if self.action == "reclaim" and index in self._tried and not self._has_levels:
            name = self.session.cluster.nodes.order[max(self._tried[index])].name
        self._cursors[index] = (preemptor.pod, name, self.trial.count)

    def _choose_victims(self, room: PodRoom, node: Node, short: tuple[str, ...]) -> str:
        """Choose the victims on a node; `short` are the quota limits that are exceeded there. Return why it fails,
        or an empty text if the pod has room now."""
        if not room.can_release(short):
            return "node(s) have no victims that release the exceeded quota of the queue"
        before = self.trial.mark()
        for pod in room.victims_on(node, short):
            if room.fits(node):
                break
            self.trial.evict(pod)
        if not room.fits(node):
            self.trial.restore(before)
            return "node(s) would not have enough room after evicting all allowed victims"
        # Without the last one there was no room.
        self._spare_unneeded(room, node, self.trial.evicted[before.evictions : -1])
        return ""

    def _spare_unneeded(self, room: PodRoom, node: Node, gone: list[Pod]) -> None:
        """Spare the victims on a node that are not needed, the most expensive first."""
        for pod in reversed(gone):
            before = self.trial.mark()
            self.trial.spare(pod)
            if not room.fits(node):
                self.trial.restore(before)


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


def _count(counts: Counter[str], text: str, number: int) -> None:
    if number:
        counts[text] += number
