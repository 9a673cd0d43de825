"""One preemption attempt for a whole gang: evict victim bundles, domain by domain, until the gang fits.

In each domain (the whole cluster, or those that its network topology allows, the closest first) bundles are
evicted until the sums of what is free, releasing and freed by them cover the gang. Then the placement is tried:
the pods of the gang look for nodes with the bundles gone. If that fails one more bundle is added. In the end
every bundle is restored that the gang does not need. (Volcano's gangpreempt and gangreclaim.)

The work of a search is bounded. If there are too many possible victims for one cycle, or if a search of the whole
cluster uses up the action's share of the work without success, the cluster is searched part by part: nodes in the
order of their names, each part larger than the gang needs. A search that is cut short after a part continues with
the next part in the next cycle (`search_deferred`). A gang that fits only on nodes of several parts is not placed
then.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import structs

from events.decision import Decision
from events.decisions.search_deferred import SearchCursor, SearchDeferred
from projections.blocked import constraint_reason
from projections.nodes import Node
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.preemption_triggers import is_starving, never_preempts
from projections.queues import add
from scheduling.gang_attempt import cards_to_charge, refused_demand
from scheduling.group_trial import GroupTrial
from scheduling.preemptible_capacity import victim_scope
from scheduling.quota.card_selection import CardChoice
from scheduling.quota.reclaiming import why_reclaim_denied
from scheduling.session import Session
from scheduling.topology.domains import TOP, Domain
from scheduling.topology.network import limit_of, slots_of
from scheduling.topology.node_scope import ANY_NODE, DomainScope, NodeScope
from scheduling.unschedulable import Unschedulable
from scheduling.victims.gang_victims import (
    GangVictims,
    VictimBundle,
)
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.search_digest import wanted
from scheduling.victims.victim_decisions import decisions, is_whole, victim_events
from scheduling.work_budget import BUNDLE

TRIES_MAX: Final = 32
"""Maximum number of bundles that are tried one by one for being restored."""

MARGIN: Final = 2
"""A part of the cluster has at least this many times what the gang needs, all possible victims included."""

GROWTH: Final = 4
"""After a failed placement one in this many of the chosen bundles is added before the next try."""


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
        self.takes_protected = takes_protected
        self.is_whole = False
        self.counts: Counter[str] = Counter()
        """Why domains could not be freed, with the number of domains."""
        self.is_cut = False
        """True if the search was cut short: it continues in the next cycle."""
        self._last: str | None = None
        """The last node, or domain, that was searched without success; None if the search is not in parts."""
        self._nodes_looked = 0
        self._begun_at = session.work.done
        self._has_tried = False
        """True if the gang found no nodes although the sums covered it."""
        self._has_given_up = False
        """True if the search stopped before everything was searched."""
        if so_far is not None:
            self.counts = Counter(so_far.counts)
            self._last = so_far.cursors[0].node if so_far.cursors else None
            self._nodes_looked = so_far.nodes
        self._problem = ""
        self._wanted = self._missing_pods()
        self._need: Amounts = {}
        for pod in self._wanted:
            add(self._need, pod.pod_class.request, 1)
        session.groups_examined += 1
        with self.trial:
            self.trial.place_nominated()
            self._start = self.trial.mark()
            if self._wanted and not self._is_not_entitled():
                self._search()
        session.fair.discard_assumptions()

    @property
    def reason(self) -> Unschedulable:
        """Return why no pod is evicted."""
        events = victim_events(self.action)
        if self._problem:
            return Unschedulable("NotEntitled", "", self._problem, requeue_on=events)
        listed = ", ".join(f"{count} {text}" for text, count in sorted(self.counts.items()))
        message = f"{self.action}: no domain can be freed: {listed or 'no domain was searched'}."
        return Unschedulable("NoVictims", "", message, requeue_on=events)

    def deferred(self, *, is_outdated: bool, is_over: bool = False) -> SearchDeferred:
        """Return what was found so far. If the search `is_over` it starts from the beginning."""
        group = self.group
        start = SearchDeferred(
            pod_group=group.key,
            queue=group.queue,
            action=self.action,
            wanted=wanted(self.session.state, group),
            nodes=self._nodes_looked,
            requeue_on=victim_events(self.action),
        )
        if is_over or self._last is None:
            return start
        cursor = SearchCursor(pod=self._wanted[0].key, node=self._last, placed=self._start.placed)
        return structs.replace(
            start,
            is_outdated=is_outdated,
            takes_protected=self.takes_protected,
            cursors=(cursor,),
            counts=dict(sorted(self.counts.items())),
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
            if pod_class.is_best_effort or pod.facts.uid in group.nominations:
                continue
            is_refused = refused_demand(self.session.cluster, pod) is not None
            if is_refused or pod_class.never_preempts or never:
                self.counts["pod(s) of the gang not eligible to preempt"] += 1
                return []
            wanted.append(pod)
        return wanted

    @cached_property
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

    @cached_property
    def _victims(self) -> GangVictims:
        return GangVictims(self._preemptor, self.session.donors)

    def _is_not_entitled(self) -> bool:
        """Return True if its queue may not reclaim."""
        preemptor = self._preemptor
        if preemptor.is_reclaiming:
            self._problem = why_reclaim_denied(
                preemptor.cluster, preemptor.queue, preemptor.asked, {}
            )
        return bool(self._problem)

    def _search(self) -> None:
        closeness = self.group.topology_constraint
        if closeness is not None and closeness.is_hard:
            self._search_in(self._domains(), "domain(s)")
            return
        if self._last is None and self._is_small and self._free_domain(ANY_NODE, None):
            self.is_whole = True
            return
        if self._last is None and self._is_small:
            self.trial.restore(self._start)
            if not self._has_given_up:
                self.counts[
                    "domain(s) would not have enough room after evicting all allowed victims"
                ] += 1
                return
            self._last, self.is_cut = "", True
            return
        self._search_in(self._parts(), "part(s) of the cluster")

    def _search_in(self, domains: Iterator[tuple[str, DomainScope]], what: str) -> None:
        """Search domain by domain, each with its name, until one is freed or the work of the cycle is used up."""
        is_first = True
        for name, where in domains:
            work = self.session.work
            if not is_first and work.is_used_up and self._is_long:
                self.is_cut = True
                return
            if self._free_domain(where, where.domain.slots.tolist()):
                self.is_whole = True
                return
            self.trial.restore(self._start)
            self.counts[
                f"{what} would not have enough room after evicting all allowed victims"
            ] += 1
            self._nodes_looked += len(where.domain.slots)
            self._last, is_first = name, False

    @property
    def _is_long(self) -> bool:
        """Return True if the search has used at least the minimum work of a search."""
        work = self.session.work
        return work.done - self._begun_at >= work.least_search

    @property
    def _is_exhausted(self) -> bool:
        """Return True if the search must stop although the gang has no nodes."""
        return self._has_tried and self.session.work.is_used_up and self._is_long

    @property
    def _is_small(self) -> bool:
        """Return True if all possible victims can be examined in one cycle."""
        pods = sum(group.counts.allocated for group in self._victims.groups())
        return BUNDLE * pods <= self.session.work.budget

    def _domains(self) -> Iterator[tuple[str, DomainScope]]:
        """Yield the domains in which the whole gang may be placed, the closest first, from where the search
        continues."""
        cluster, closeness = self.session.cluster, self.group.topology_constraint
        if closeness is None or constraint_reason(cluster.nodes.hyper_tree, closeness) is not None:
            return
        domains = self.session.network.domains
        slots = slots_of(cluster, self.group)
        used = domains.holding(slots) if slots else None
        ordered = [
            domain
            for step in domains.steps(limit_of(cluster, closeness), used, None)
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
        scope = victim_scope(
            session.cluster,
            session.donors,
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

    def _free_domain(self, where: NodeScope, slots: list[int] | None) -> bool:
        """Return True if the gang can be placed in a domain of these slots; if so, the trial holds the placement."""
        order = self.session.cluster.nodes.order
        nodes = order if slots is None else [order[slot] for slot in slots]
        room = self._idle_resources(where, nodes)
        chosen: list[VictimBundle] = []
        enough = 0
        groups = list(self._victims.groups() if slots is None else self._victims.groups_on(nodes))
        found = self._victims.bundles(where, self._need, groups)
        total = len(self.session.cluster.groups) if slots is None else len(groups)
        self.session.work.add_bundles(total, len(found))
        self._has_tried = False
        for bundle in (None, *found, None):
            if slots is None and self._is_exhausted:
                self._has_given_up = True
                return False
            if bundle is not None:
                if not self._evict_bundle(bundle, chosen):
                    continue
                given = self._victims.freed(chosen[-1].pods, where)
                for name in room:
                    room[name] += given.get(name, 0)
            would_do = all(room[name] >= most for name, most in self._need.items())
            if not would_do or (bundle is not None and len(chosen) < enough):
                continue
            if self._try_placement(where):
                self._restore_unneeded(where, chosen, room)
                return is_whole(self.trial)
            self._has_tried = True
            # Skip some tries: surplus bundles are restored in the end.
            enough = len(chosen) + 1 + len(chosen) // GROWTH
        return False

    def _evict_bundle(self, bundle: VictimBundle, chosen: list[VictimBundle]) -> bool:
        """Evict the pods of a bundle that are still there, if all of them may be evicted."""
        self.session.work.add(BUNDLE)
        gone = self.trial.evicted_of(bundle.group.key)
        left = VictimBundle(
            bundle.group, tuple([pod for pod in bundle.pods if pod not in gone]), bundle.is_safe
        )
        if not self._victims.may_evict_all(left):
            return False
        for pod in left.pods:
            self.trial.evict(pod)
        chosen.append(left)
        return True

    def _idle_resources(self, where: NodeScope, nodes: list[Node]) -> Amounts:
        """Return what is free on the nodes of a domain, or will be."""
        total: Amounts = dict.fromkeys(self._need, 0)
        self.session.work.add(len(nodes))
        for node in nodes:
            if where.admits(node):
                for name in total:
                    total[name] += max(0, node.free.get(name, 0), node.future(name))
        return total

    def _try_placement(self, where: NodeScope) -> bool:
        """Return True if the gang finds its nodes after these evictions. If not, undo the placements."""
        self._evicted = self.trial.mark()
        if all(self._place(where, pod) for pod in self._wanted) and is_whole(self.trial):
            return True
        self.trial.restore(self._evicted)
        return False

    def _place(self, where: NodeScope, pod: Pod) -> bool:
        choice = cards_to_charge(self.session, self.group, pod, self.trial.extra)
        if not isinstance(choice, CardChoice):
            return False
        self.session.work.add_pod(pod.pod_class)
        job = self.session.rankings.job_of(self.group)
        ranking = self.session.rankings.of(pod.pod_class, choice.cards, job)
        node = where.best(ranking, pod.pod_class)
        # If any pod is evicted, if only to release quota, the gang waits for that.
        is_later = node is None or bool(self.trial.evicted)
        if node is None:
            node = where.best_later(ranking)
        if node is not None:
            devices = ranking.devices.pick(node, later=is_later)
            self.trial.place(pod, node, devices, later=is_later)
        return node is not None

    def _restore_unneeded(
        self, where: NodeScope, chosen: list[VictimBundle], room: Amounts
    ) -> None:
        """Restore the bundles that the gang does not need: those far from it together, then one by one, the most
        expensive first. Bundles of a group whose whole gang is evicted are restored or evicted together."""
        used = {one.node.name for one in self.trial.placed}
        broken = {one.group.key for one in chosen if not one.is_safe}
        far = [
            one
            for one in chosen
            if not any(pod.node in used for pod in one.pods)
            and not (one.is_safe and one.group.key in broken)
        ]
        self._restore_bundles(where, chosen, far, room)
        for bundle in reversed(chosen[-TRIES_MAX:]):
            if not (bundle.is_safe and bundle.group.key in broken):
                self._restore_bundles(where, chosen, [bundle], room)

    def _restore_bundles(
        self, where: NodeScope, chosen: list[VictimBundle], some: list[VictimBundle], room: Amounts
    ) -> None:
        """Restore these bundles if the gang can be placed without them. `room` is what is free with them evicted."""
        given = self._victims.freed(_pods(some), where)
        if not some or any(room[name] - given.get(name, 0) < self._need[name] for name in room):
            return
        before = self._evicted
        self.trial.restore(before)
        for pod in _pods(some):
            self.trial.spare(pod)
        if self._try_placement(where):
            for one in some:
                chosen.remove(one)
            for name in room:
                room[name] -= given.get(name, 0)
            return
        self.trial.restore(before)
        self._try_placement(where)


def _pods(chosen: list[VictimBundle]) -> list[Pod]:
    return [pod for one in chosen for pod in one.pods]
