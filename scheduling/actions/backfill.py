"""Backfill: bind best-effort pods, which request no resources, to any node that admits them."""

from collections.abc import Iterator

from events.decision import Decision
from events.decisions.gang_bind import GangBindDecided
from projections.device_family import NO_JOB
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.scheduling_queue import EquivalenceGroup
from scheduling.card_choice import CardChoice
from scheduling.device_request import invalid_device_request, naming_each
from scheduling.gang_attempt import missing_pods, precheck, too_many_classes
from scheduling.gang_placement import placement_problem
from scheduling.group_trial import GroupTrial
from scheduling.hyper_node_placement import best_effort_pods, best_effort_scopes
from scheduling.queue_iteration import iterate_queues, refuse_equivalence_group
from scheduling.session import Session
from scheduling.topology.node_scope import NodeScope
from scheduling.trial import Placed, placements
from scheduling.unschedulable import Unschedulable, no_feasible_node, pipeline_withdrawal

ACTION = "backfill"


def backfill(session: Session) -> Iterator[Decision]:
    """Decide for every admitted pod group with pending best-effort pods."""
    return Backfill(session).decide()


def _is_free(pod: Pod) -> bool:
    return pod.pod_class.is_best_effort


def _may_go(group: PodGroup, found: list[Placed]) -> bool:
    """Return True if these best-effort pods may be bound: the gang is complete with them, or has started already."""
    if not group.is_ready:
        return False
    return group.counts.allocated > 0 or group.is_ready_without_waiting(one.pod for one in found)


class Backfill:
    """The action `backfill`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def decide(self) -> Iterator[Decision]:
        """Decide for every admitted pod group with pending best-effort pods."""
        return iterate_queues(self._session, ACTION, lambda _, one: self._for_head(one))

    def _for_head(self, equivalence_group: EquivalenceGroup) -> Iterator[Decision]:
        session = self._session
        group = equivalence_group.head
        session.groups_examined += 1
        reason = precheck(session, group) or missing_pods(group)
        reason = reason or too_many_classes(session, group)
        reason = (
            reason or invalid_device_request(session, group) or placement_problem(session, group)
        )
        found: list[Placed] = []
        if reason is None:
            found, reason = self._find(equivalence_group)
        if found and _may_go(group, found):
            yield GangBindDecided(
                pod_group=group.key,
                queue=group.queue,
                placements=placements(session.cluster, found),
            )
        elif reason is not None:
            if any(
                pod.facts.uid in group.decided.nominations for pod in group.pending if _is_free(pod)
            ):
                yield from pipeline_withdrawal(group, reason)
            if equivalence_group.is_head(group):
                naming = naming_each(session, group, reason)
                yield from refuse_equivalence_group(equivalence_group, reason, naming)

    def _find(
        self, equivalence_group: EquivalenceGroup
    ) -> tuple[list[Placed], Unschedulable | None]:
        reason: Unschedulable | None = None
        with GroupTrial(self._session.cluster, equivalence_group.head) as trial:
            for part, pods in best_effort_pods(equivalence_group.head):
                tried: list[tuple[int, NodeScope, Unschedulable | None]] = []
                before = trial.mark()
                for where in best_effort_scopes(self._session, equivalence_group.head, pods, part):
                    found = self._find_in(trial, where, pods)
                    tried.append((trial.count - before.placed, where, found))
                    if found is None:
                        break
                    trial.restore(before)
                _, where, found = max(tried, key=lambda one: one[0])
                if found is not None:
                    self._find_in(trial, where, pods)
                    reason = found
        return ([] if trial.later else trial.now), reason

    def _find_in(
        self, trial: GroupTrial, where: NodeScope, pods: list[Pod]
    ) -> Unschedulable | None:
        """Place as many of these pods as possible in a scope; return why the rest cannot be placed, or None."""
        session = self._session
        reason: Unschedulable | None = None
        for pod in pods:
            nomination = trial.lift_nomination(pod)
            session.work.add_pod(pod.pod_class)
            ranking = session.rankings.of(pod.pod_class, None, NO_JOB)
            node = where.best(ranking, pod.pod_class)
            kept = None if nomination is None else session.cluster.nodes.nodes.get(nomination.node)
            if node is None and kept is not None and ranking.will_have_room(kept):
                trial.place(pod, kept, later=True)
            elif node is None:
                reason = no_feasible_node(
                    session.rankings, pod, CardChoice(None), NO_JOB, 1, where.candidate_nodes
                )
            else:
                trial.place(pod, node)
        return reason
