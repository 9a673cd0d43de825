"""The actions `preempt`, `reclaim`, `gangpreempt` and `gangreclaim`: search for victims for the head of an
equivalence class."""

from collections.abc import Iterator

from events.decision import Decision
from events.decisions.search_deferred import SearchDeferred
from events.duration import SECOND, format_duration
from events.requeue import NODE_FREED
from projections.pod_groups import PodGroup
from projections.policy.policy import GANG_EVICTING, RECLAIMING
from projections.quarantine import OWN_NODES_MAX
from projections.scheduling_queue import EquivalenceGroup
from projections.tenants import tenant_word
from scheduling.device_request import invalid_device_request, naming_each, never_evicts
from scheduling.gang_attempt import missing_pods, precheck
from scheduling.gang_placement import strategy_problem
from scheduling.queue_iteration import iterate_queues, refuse_equivalence_group
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable
from scheduling.victims.gang_search import GangSearch
from scheduling.victims.protection import asked_first, may_be_protected
from scheduling.victims.search import PreemptionSearch
from scheduling.victims.search_progress import wanted
from scheduling.victims.victim_decisions import evictions_of, victim_events


class EvictingAction:
    """An action that evicts pods in favour of starving pod groups."""

    def __init__(self, session: Session, action: str) -> None:
        self._session = session
        self._action = action

    def decide(self) -> Iterator[Decision]:
        """Decide for every starving pod group for which the action could evict pods."""
        return iterate_queues(self._session, self._action, lambda _, one: self._for_head(one))

    def _for_head(self, equivalence_group: EquivalenceGroup) -> Iterator[Decision]:
        session = self._session
        group = equivalence_group.head
        problem = precheck(session, group) or missing_pods(group)
        problem = problem or invalid_device_request(session, group) or never_evicts(session, group)
        problem = (
            problem
            or strategy_problem(session, group)
            or self._waited_in_vain(group)
            or self._rejected_on_nodes(group)
        )
        if problem is not None:
            naming = naming_each(session, group, problem)
            yield from refuse_equivalence_group(equivalence_group, problem, naming)
            return
        left = session.unfinished_search(equivalence_group)
        if left is not None and left.so_far.wanted != wanted(session.state, group):
            left = None
        search = self._search(group, None if left is None else left.so_far)
        is_outdated = left is not None and session.is_outdated(equivalence_group, left)
        if search.is_whole:
            asked = asked_first(search.trial) if search.takes_protected else []
            if asked:
                yield from evictions_of(self._action, search.trial, asked)
                problem = self._asks_budgets(len(asked))
                yield from refuse_equivalence_group(equivalence_group, problem)
            else:
                yield from search.decisions()
        elif search.is_cut or is_outdated:
            yield search.deferred(is_outdated=is_outdated, is_over=not search.is_cut)
        else:
            yield from refuse_equivalence_group(equivalence_group, search.reason)

    def _waited_in_vain(self, group: PodGroup) -> Unschedulable | None:
        """Return why no more pods are evicted for a group: those on several nodes did not end. None if they may be."""
        cluster = self._session.cluster
        wait = cluster.victim_waits.get(group.key)
        if wait is None or wait.may_evict:
            return None
        seconds = cluster.policy.action_arguments.victim_timeout_ns // SECOND
        text = f"{self._action}: {wait.timeouts} times terminating pods did not end within {seconds} s; no more pods are evicted for it"
        return Unschedulable("NoVictims", "", text, requeue_on=(NODE_FREED,))

    def _rejected_on_nodes(self, group: PodGroup) -> Unschedulable | None:
        """Return why no more pods are evicted for a group: kubelets of several nodes rejected such pods for a reason that
        lies in the pods. None if they may be."""
        kept = self._session.cluster.quarantines
        tenant = self._session.cluster.tenants.tenant_of(group.key.partition("/")[0])
        if tenant not in kept.of_tenant:
            return None
        for request in dict.fromkeys(group.classes[one].request for one in group.pending_classes):
            closed = kept.own_of(tenant, request)
            if len(closed) >= OWN_NODES_MAX:
                reasons = ", ".join(dict.fromkeys(one.reason for one in closed))
                text = (
                    f"{self._action}: the kubelets of {len(closed)} nodes rejected such pods of this {tenant_word(tenant)} for a reason that"
                    f" lies in the pods ({reasons}); no more pods are evicted for it until one of these nodes is open to them"
                    " again"
                )
                return Unschedulable("NoVictims", "", text, requeue_on=(NODE_FREED,))
        return None

    def _asks_budgets(self, count: int) -> Unschedulable:
        """Return why a group waits: the budgets of its victims are asked to let them go."""
        span = format_duration(self._session.cluster.policy.action_arguments.budget_timeout_ns)
        text = (
            f"{self._action}: {count} pod(s) above what their queues deserve are protected by disruption budgets, which are asked to let"
            f" them go; after {span} of refusals they are deleted"
        )
        return Unschedulable("NoVictims", "", text, requeue_on=victim_events(self._action))

    def _search(
        self, group: PodGroup, so_far: SearchDeferred | None
    ) -> PreemptionSearch | GangSearch:
        """Search for victims in other groups; then, for `preempt`, in the group itself, and for `reclaim` once more among all pods
        of other queues, the protected ones, too."""
        session, action = self._session, self._action
        takes_protected = so_far is not None and so_far.takes_protected
        searches = GangSearch if action in GANG_EVICTING else PreemptionSearch
        if action in RECLAIMING:
            found = searches(session, action, group, so_far, takes_protected=takes_protected)
            is_done = found.is_whole or found.is_cut or takes_protected
            if is_done or not may_be_protected(session, action, group):
                return found
            return searches(session, action, group, takes_protected=True)
        if action in GANG_EVICTING:
            return GangSearch(session, action, group, so_far)
        is_within = so_far is not None and so_far.is_within
        if is_within:
            return PreemptionSearch(session, action, group, so_far, is_within=True)
        search = PreemptionSearch(session, action, group, so_far)
        if action != "preempt" or search.is_whole or search.is_cut or not group.counts.allocated:
            return search
        within = PreemptionSearch(session, action, group, is_within=True)
        within.progress.include(search.progress)
        return within if within.is_whole or within.is_cut else search
