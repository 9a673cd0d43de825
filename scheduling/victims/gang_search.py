"""One preemption attempt for a whole gang: evict victim bundles, domain by domain, until the gang fits
(`domain_search.py`). A domain is the whole cluster, or one of those that its network topology allows, the closest first.
(Volcano's gangpreempt and gangreclaim.)

The work of a search is bounded. If there are too many possible victims for one cycle, or if a search of the whole
cluster uses up the action's share of the work without success, the cluster is searched part by part: nodes in the
order of their names, each part larger than the gang needs. A search that is cut short after a part continues with
the next part in the next cycle (`search_deferred`). A gang that fits only on nodes of several parts is not placed
then.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from events.decision import Decision
from events.decisions.search_deferred import SearchDeferred
from projections.blocked import constraint_reason
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.preemption_triggers import is_starving, never_preempts
from projections.queues import add
from scheduling.gang_attempt import refused_demand
from scheduling.group_trial import GroupTrial
from scheduling.session import Session
from scheduling.topology.domains import TOP, Domain
from scheduling.topology.node_scope import ANY_NODE, DomainScope, NodeScope
from scheduling.trial import Mark
from scheduling.unschedulable import Unschedulable
from scheduling.victims.domain_search import DomainSearch
from scheduling.victims.gang_victims import GangVictims
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.search_progress import SearchProgress, wanted
from scheduling.victims.victim_decisions import decisions
from scheduling.work_budget import BUNDLE

MARGIN: Final = 2
"""A part of the cluster has at least this many times what the gang needs, all possible victims included."""

NO_ROOM: Final = "would not have enough room after evicting all allowed victims"


class GangSearch:
    """The result of a preemption attempt for a gang."""

    def __init__(
        self,
        session: Session,
        action: str,
        group: PodGroup,
        so_far: SearchDeferred | None = None,
        *,
        takes_protected: bool = False,
    ) -> None:
        self.session = session
        self.action = action
        self.group = group
        self.trial = GroupTrial(session.cluster, group)
        self.progress = SearchProgress(action, group, so_far)
        self.takes_protected = takes_protected
        self._counts = Counter(self.progress.counts_before)
        """Why domains could not be freed, with the number of domains."""
        self._last: str | None = None
        """The last node, or domain, that was searched without success; None if the search is not in parts."""
        if so_far is not None and so_far.cursors:
            self._last = so_far.cursors[0].node
        self._begun_at = session.work.done
        self._problem = ""
        self._wanted = self._missing_pods()
        self._need: Amounts = {}
        for pod in self._wanted:
            add(self._need, pod.pod_class.request, 1)
        session.groups_examined += 1
        self.is_whole = False
        with self.trial:
            self.trial.place_nominated()
            if self._wanted:
                self.is_whole = self._search(self._preemptor(), self.trial.mark())
        session.fair.discard_assumptions()

    @property
    def is_cut(self) -> bool:
        """Return True if the search was cut short: it continues in the next cycle."""
        return self.progress.is_cut

    @property
    def reason(self) -> Unschedulable:
        """Return why no pod is evicted."""
        events = self.progress.requeue_on
        if self._problem:
            return Unschedulable("NotEntitled", "", self._problem, requeue_on=events)
        listed = ", ".join(f"{count} {text}" for text, count in sorted(self._counts.items()))
        message = f"{self.action}: no domain can be freed: {listed or 'no domain was searched'}."
        return Unschedulable("NoVictims", "", message, requeue_on=events)

    def deferred(self, *, is_outdated: bool, is_over: bool = False) -> SearchDeferred:
        """Return what was found so far. If the search `is_over` it starts from the beginning."""
        digest = wanted(self.session.state, self.group)
        if is_over or self._last is None:
            return self.progress.over(digest)
        return self.progress.deferred(
            digest,
            self._counts,
            is_within=False,
            takes_protected=self.takes_protected,
            is_outdated=is_outdated,
        )

    def decisions(self) -> Iterator[Decision]:
        """Yield the evictions and the nominations for the gang."""
        return decisions(self.action, self.trial)

    def _missing_pods(self) -> list[Pod]:
        """Return the pods that the gang lacks; none if one of them cannot be placed or may not preempt."""
        group, plugins = self.group, self.session.cluster.plugins
        wanted: list[Pod] = []
        never = never_preempts(self.session.cluster, group)
        for pod in group.pending:
            if not is_starving(plugins, group, len(wanted)):
                break
            pod_class = pod.pod_class
            if pod_class.is_best_effort or pod.facts.uid in group.decided.nominations:
                continue
            is_refused = refused_demand(self.session.cluster, pod) is not None
            if is_refused or pod_class.never_preempts or never:
                self._counts["pod(s) of the gang not eligible to preempt"] += 1
                return []
            wanted.append(pod)
        return wanted

    def _preemptor(self) -> Preemptor:
        return Preemptor(
            self.action,
            self.trial,
            self._wanted[0],
            self.session.fair,
            self.session.work,
            takes_protected=self.takes_protected,
            wanted=tuple(self._wanted),
        )

    def _search(self, preemptor: Preemptor, start: Mark) -> bool:
        """Return True if the gang can be placed; if so, the trial holds the placement. `start` is the trial before any eviction."""
        if preemptor.is_reclaiming:
            self._problem = preemptor.reclaiming.why_denied(preemptor.queue, preemptor.asked, {})
            if self._problem:
                return False
        victims = GangVictims(preemptor, self.session.donors)
        closeness = self.group.topology_constraint
        if closeness is not None and closeness.is_hard:
            return self._search_in(victims, self._domains(), "domain(s)", start)
        if self._last is not None or not self._is_small(victims):
            return self._search_in(victims, self._parts(), "part(s) of the cluster", start)
        nodes, groups = self.session.cluster.nodes.order, list(victims.groups())
        search = self._domain_search(victims, ANY_NODE)
        is_freed = search.free(nodes, groups, len(self.session.cluster.groups), self._is_used_up)
        if is_freed:
            return True
        self.trial.restore(start)
        if is_freed is None:
            self._record_last("", start)
            self.progress.is_cut = True
        else:
            self._counts[f"domain(s) {NO_ROOM}"] += 1
        return False

    def _search_in(
        self,
        victims: GangVictims,
        domains: Iterator[tuple[str, DomainScope]],
        what: str,
        start: Mark,
    ) -> bool:
        """Search domain by domain, each with its name, until one is freed or the work of the cycle is used up."""
        order, is_first = self.session.cluster.nodes.order, True
        for name, where in domains:
            if not is_first and self._is_used_up():
                self.progress.is_cut = True
                return False
            nodes = [order[slot] for slot in where.domain.slots.tolist()]
            groups = list(victims.groups_on(nodes))
            if self._domain_search(victims, where).free(nodes, groups, len(groups)):
                return True
            self.trial.restore(start)
            self._counts[f"{what} {NO_ROOM}"] += 1
            self.progress.nodes += len(nodes)
            self._record_last(name, start)
            is_first = False
        return False

    def _domain_search(self, victims: GangVictims, where: NodeScope) -> DomainSearch:
        return DomainSearch(self.session, victims, self.trial, where, self._wanted, self._need)

    def _record_last(self, name: str, start: Mark) -> None:
        """Record up to which node, or domain, everything was searched without success."""
        self._last = name
        self.progress.set_cursor(self._wanted[0], name, start.placed)

    def _is_used_up(self) -> bool:
        """Return True if the action's share of the work is used up, and the search has used at least its minimum."""
        work = self.session.work
        return work.is_used_up and work.done - self._begun_at >= work.least_search

    def _is_small(self, victims: GangVictims) -> bool:
        """Return True if all possible victims can be examined in one cycle."""
        pods = sum(group.counts.allocated for group in victims.groups())
        return BUNDLE * pods <= self.session.work.budget

    def _domains(self) -> Iterator[tuple[str, DomainScope]]:
        """Yield the domains in which the whole gang may be placed, the closest first, from where the search
        continues."""
        cluster, closeness = self.session.cluster, self.group.topology_constraint
        if closeness is None or constraint_reason(cluster.nodes.hyper_tree, closeness) is not None:
            return
        network = self.session.network
        domains, slots = network.domains, network.slots_of(self.group)
        used = domains.holding(slots) if slots else None
        ordered = [
            domain
            for step in domains.steps(network.limit_of(closeness), used, None)
            for domain in sorted([domains.all[one] for one in step], key=lambda one: one.name)
        ]
        ordered = ordered[: cluster.policy.action_arguments.of_gangs(self.action).domains]
        names = [one.name for one in ordered]
        first = names.index(self._last) + 1 if self._last in names else 0
        for domain in ordered[first:]:
            yield domain.name, DomainScope(cluster.nodes, domain, None, lambda _: 0)

    def _parts(self) -> Iterator[tuple[str, DomainScope]]:
        """Yield the cluster part by part, from where the search continues."""
        session, table, group = self.session, self.session.cluster.nodes, self.group
        scope = session.donors.scope(
            self.action,
            group.queue,
            group.priority,
            takes_protected=self.takes_protected,
        )
        pods = np.cumsum([len(node.pods) for node in table.order])
        rooms = {
            name: np.cumsum(np.maximum(session.preemptible.most(scope, name), 0))
            for name in self._need
        }
        first = bisect_right(table.order, self._last or "", key=lambda one: one.name)
        while first < len(table.order):
            end = self._end_of_part(first, pods, rooms)
            domain = Domain(TOP, 0, np.arange(first, end))
            yield table.order[end - 1].name, DomainScope(table, domain, None, lambda _: 0)
            first = end

    def _end_of_part(
        self, first: int, pods: npt.NDArray[np.int64], rooms: dict[str, npt.NDArray[np.int64]]
    ) -> int:
        """Return the end of the part that begins at a slot: its cost fits the action's allowance, and it, as well as
        what comes after it, has all that the gang needs."""
        most = self.session.work.allowance // (2 * BUNDLE)
        end = 1 + int(np.searchsorted(pods, (pods[first - 1] if first else 0) + most))
        for name, amount in self._need.items():
            room = rooms[name]
            before = room[first - 1] if first else 0
            end = max(end, 1 + int(np.searchsorted(room, before + MARGIN * amount)))
        end = min(end, len(pods))
        is_last = any(
            rooms[name][-1] - rooms[name][end - 1] < MARGIN * most
            for name, most in self._need.items()
        )
        return len(pods) if is_last else end
