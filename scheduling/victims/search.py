"""One preemption attempt for a pod group: its pending pods in order, each on a node that evictions free for it.

The rules are those of Volcano's preempt and reclaim: on each node victims are taken in eviction order until the
pod fits and its queue may be charged for it; a node that fails is left unchanged; and the group gets all that
completes its gang, or no pod is evicted. Differences: free room is used before any pod is evicted, victims on
a node that turn out not to be needed are restored, and the node with the least urgent and the fewest victims is taken
(`node_search.py`).

When the action has used up its share of the work, a search without success is cut short and continues in the next
cycle (`search_progress.py`): the nodes found for pods of the group are checked first, and then nodes in the order of
their names, from where it stopped. The search fails only after all nodes were searched.
"""

from collections import Counter
from collections.abc import Iterator

from events.decision import Decision
from events.decisions.search_deferred import SearchDeferred
from events.requeue import quota_names
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.preemption_triggers import is_starving, never_preempts
from scheduling.card_choice import CardChoice
from scheduling.gang_attempt import cards_to_charge, refused_demand
from scheduling.group_trial import GroupTrial
from scheduling.node_ranking import NodeRanking
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable
from scheduling.victims.node_search import NodeSearch
from scheduling.victims.pod_room import PodRoom
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.search_progress import SearchProgress, wanted
from scheduling.victims.victim_decisions import decisions, is_whole


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
        self.progress = SearchProgress(action, group, so_far)
        self._job = session.rankings.job_of(group)
        self._is_within = is_within
        self.takes_protected = takes_protected
        self._problem = ""
        self._failed: dict[int, None] = {}
        """Indexes of the classes of pods that found no node."""
        self._looked: dict[int, int] = {}
        """Class index to how many placements of the trial were checked for room that they left."""
        self._tried: dict[int, dict[int, None]] = {}
        """Class index to the slots of nodes that could not be freed for a pod of the class."""
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
    def is_cut(self) -> bool:
        """Return True if the search was cut short: unless the gang is complete it continues in the next cycle."""
        return self.progress.is_cut

    @property
    def reason(self) -> Unschedulable:
        """Return why no pod is evicted."""
        requeue_on = self.progress.requeue_on
        if self._problem:
            return Unschedulable("NotEntitled", "", self._problem, requeue_on=requeue_on)
        total = len(self.session.cluster.nodes.order)
        listed = ", ".join(f"{count} {text}" for text, count in sorted(self._counts.items()))
        message = (
            f"{self.action}: 0/{total} nodes are available: {listed or 'no node was searched'}."
        )
        return Unschedulable("NoVictims", "", message, requeue_on=requeue_on)

    @property
    def _counts(self) -> Counter[str]:
        """Return why nodes were not freed for the first pod that failed; if the search is in the group itself, what was found
        in other groups."""
        return self.progress.counts_before if self._is_within else self.progress.counts

    def decisions(self) -> Iterator[Decision]:
        """Yield the evictions and the nominations for the group."""
        return decisions(self.action, self.trial)

    def deferred(self, *, is_outdated: bool, is_over: bool = False) -> SearchDeferred:
        """Return what was found so far. If the search `is_over` it starts from the beginning."""
        digest = wanted(self.session.state, self.group)
        if is_over:
            return self.progress.over(digest)
        return self.progress.deferred(
            digest,
            self._counts,
            is_within=self._is_within,
            takes_protected=self.takes_protected,
            is_outdated=is_outdated,
        )

    def _place_all(self) -> None:
        group, plugins = self.group, self.session.cluster.plugins
        # If `allocate` does not refuse the group, it is its best-effort pods that lack a node.
        seeks_a_place = "allocate" not in group.decided.refusals
        for index, pod in enumerate(group.pending):
            own = len(self.trial.evicted_of(group.key))
            placed = self.trial.count - len(group.decided.nominations) - own
            if not is_starving(plugins, group, placed):
                return
            pod_class = pod.pod_class
            if (
                pod_class.is_best_effort != seeks_a_place
                or pod.facts.uid in group.decided.nominations
            ):
                continue
            if refused_demand(self.session.cluster, pod):
                continue
            if pod_class.index in self._failed:
                continue
            if self._use_free_room(pod) or self._free_node(pod):
                continue
            if self.progress.is_cut:
                return
            self._failed[pod_class.index] = None
            last = self.session.cluster.nodes.order[-1:]
            for node in last:
                self.progress.set_cursor(pod, node.name, self.trial.count)
            if not self._can_still_be_whole(index):
                return

    def _can_still_be_whole(self, index: int) -> bool:
        """Return True if the gang can still be complete after a pod failed."""
        group = self.group
        rest = sum(pod.pod_class.index not in self._failed for pod in group.pending[index + 1 :])
        return group.counts.ready + self.trial.count + rest >= group.observed.min_available

    def _use_free_room(self, pod: Pod) -> bool:
        """Place the pod on room that is free, or is being freed already."""
        choice = cards_to_charge(self.session, self.group, pod, self.trial.extra)
        if not isinstance(choice, CardChoice):
            limits = (choice.limit, *quota_names(choice.requeue_on))
            self.progress.add_limits([one for one in limits if one])
            return False
        self.progress.add_limits(choice.over_quota)
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
        session, progress, pod_class = self.session, self.progress, pod.pod_class
        preemptor = Preemptor(
            self.action,
            self.trial,
            pod,
            session.fair,
            session.work,
            is_within=self._is_within,
            takes_protected=self.takes_protected,
        )
        if pod_class.never_preempts or never_preempts(session.cluster, self.group):
            text = "node(s) not eligible due to preemptionPolicy=Never"
            progress.counts[text] += len(session.cluster.nodes.order)
            return False
        if self.action == "reclaim":
            problem = preemptor.reclaiming.why_denied(
                preemptor.queue, preemptor.asked, self.trial.extra
            )
            if problem:
                self._problem = self._problem or problem
                return False
        room = PodRoom(preemptor, session.rankings)
        if self._retry_planned_node(room):
            return True
        counts = Counter() if self._failed else Counter(progress.counts_before)
        had_cursor = progress.has_cursor(pod_class)
        tried = self._tried.setdefault(pod_class.index, {})
        best = NodeSearch(session, room, progress, tried, counts).cheapest()
        if best is None:
            if progress.is_cut and not progress.cursor(pod_class, self.trial.count):
                counts = Counter()  # Now in the order of names: all nodes are searched once more.
            progress.counts = progress.counts if self._failed else counts
            return False
        if progress.is_cut:
            # Only the comparison was cut short.
            progress.is_cut = False
            if not had_cursor:
                progress.drop_cursor(pod_class)
        node, gone = best
        for victim in gone:
            self.trial.evict(victim)
        self._place_on(room, node, gone)
        return True

    def _retry_planned_node(self, room: PodRoom) -> bool:
        """Free the node that an earlier cycle found for the pod. If that is no longer possible drop all that it
        found."""
        name = self.progress.next_planned()
        if name is None:
            return False
        node, before = self.session.cluster.nodes.nodes.get(name), len(self.trial.evicted)
        if node is not None and node.facts is not None:
            self.session.work.add_node_search(None, node.slot)
            short = room.quota_short(node)
            self.progress.add_limits(short)
            if room.admitting_nodes()[node.slot] and not room.free(node, short):
                self._place_on(room, node, self.trial.evicted[before:])
                return True
        self.progress.drop_plan()
        return False

    def _place_on(self, room: PodRoom, node: Node, gone: list[Pod]) -> None:
        pod = room.preemptor.pod
        is_later = bool(gone) or not node.fits(pod.pod_class.request)
        self.trial.place(pod, node, room.pick_devices(node, later=is_later), later=is_later)
        self.progress.freed.append(node.name)
