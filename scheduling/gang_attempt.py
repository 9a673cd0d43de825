"""One attempt to place a pod group: its pending pods in order, each on its best node; the gang as a whole or not at
all.

The rules are those of Volcano's allocate action: stop as soon as the gang is ready; skip the remaining pods of a
role after one of them finds no node; continue only while the gang can still become ready.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TypeAlias

from msgspec import structs

from events.requeue import CLASS_BUDGET, ROOM, quota_events
from projections.cluster import Cluster
from projections.nodes import Node
from projections.pod_groups import WAITING, PodGroup
from projections.pod_terms import Labels
from projections.pods import Pod
from projections.previous_nodes import NONE, previous_nodes
from projections.refusals import CARD_CODES, CLAIM_CODES, QUEUE_CODES
from scheduling.card_choice import CardChoice
from scheduling.group_trial import GroupTrial
from scheduling.node_ranking import NodeRanking
from scheduling.quota import quota_check
from scheduling.quota.queue_room import QueueRoom
from scheduling.quota.quota_rules import quota_of
from scheduling.session import Session
from scheduling.shared_claims import keep_together
from scheduling.shortage import Shortage
from scheduling.topology.node_scope import ANY_NODE, NodeScope
from scheduling.topology.sub_groups import place_sub_groups
from scheduling.unschedulable import (
    Unschedulable,
    gang_unschedulable,
    min_pods_of_class,
    no_feasible_node,
    quota_unschedulable,
    with_fit_when_empty,
)
from scheduling.volumes.claim_check import ClaimCheck
from scheduling.work_budget import POD, THOUSAND, class_work, has_too_many_classes

Role: TypeAlias = str | int


class GangAttempt:
    """The result of trying to place a pod group."""

    def __init__(self, session: Session, group: PodGroup, where: NodeScope = ANY_NODE) -> None:
        self.session = session
        self.group = group
        self.where = where
        self.trial = GroupTrial(session.cluster, group)
        self.network: dict[str, Labels] = {}
        """UID of a placed pod to the annotations that say where in the network it is, if the gang is placed by that."""
        self.job = session.rankings.job_of(group)
        self.reason: Unschedulable | None = None
        """The first reason why a pod has no node."""
        self._requeue_on: dict[str, None] = {}
        """The events that could help further pods of the group that were refused."""
        self._failed: dict[Role, None] = {}
        self._previous = NONE if where.is_planned else previous_nodes(session.cluster, group)
        session.groups_examined += 1
        with self.trial:
            keep_together(session, self.trial, where.candidate_nodes.inside)
            if group.sub_groups is None:
                self._place_all()
            else:
                place_sub_groups(self, session.network, group.sub_groups)

    @property
    def is_ready(self) -> bool:
        """Return True if the gang is complete with the pods that have room now."""
        return self.trial.is_ready

    @property
    def is_pipelined(self) -> bool:
        """Return True if the gang is complete once terminating pods are gone."""
        if not self.trial.later:
            return False
        placed = self.trial.placed
        roles = Counter(one.pod.facts.role for one in placed)
        return self.group.is_ready_with(len(placed), roles, self.trial.parts)

    @property
    def has_room(self) -> bool:
        """Return True if at least one pod has a node that may be reserved for it, even if the gang is not complete."""
        return not self.where.is_planned and bool(self.trial.count)

    @property
    def refusal(self) -> Unschedulable:
        """Return why the group cannot be placed."""
        reason = self.reason
        assert reason is not None, f"{self.group.key} was refused for no reason"
        events = dict.fromkeys((*reason.requeue_on, *self._requeue_on))
        reason = structs.replace(reason, requeue_on=tuple(events))
        if reason.code != "NotEnoughResources":
            return reason
        if not self._has_quota():
            reason = structs.replace(reason, node_helps=False)
        return gang_unschedulable(self.group, reason, could=self.trial.count)

    def _has_quota(self) -> bool:
        """Return whether the queue has quota for all pods that the gang lacks: without it no node helps them."""
        group = self.group
        lacking = group.observed.min_available - group.counts.ready
        if lacking <= 1:
            return True  # The quota of the pod was checked.
        counted = [pod for pod in group.pending if not pod.pod_class.is_best_effort]
        cluster, charges = self.session.cluster, dict[str, int]()
        for pod in counted[:lacking]:
            if pod.facts.uid not in group.decided.nominations:
                for name, amount in cluster.ledgers.requested[pod.facts.uid]:
                    charges[name] = charges.get(name, 0) + amount
        return quota_check.has_quota_for(cluster, cluster.queues[group.queue], charges)

    def _place_all(self) -> None:
        remembers_roles = self.session.cluster.policy.action_arguments.caches_failed_roles
        placed = 0
        # The list of pending pods does not change here: only decisions change State.
        for index, pod in enumerate(self.group.pending):
            if index < placed or pod.pod_class.is_best_effort:
                continue
            role: Role = pod.facts.role or pod.pod_class.index
            if role in self._failed and remembers_roles:
                continue
            if self.group.decided.nominations:
                self.trial.lift_nomination(pod)
            choice = cards_to_charge(self.session, self.group, pod, self.trial.extra)
            if isinstance(choice, Unschedulable):
                self._record_refusal(pod, choice)
                continue
            if self._place(pod, choice):
                if not self._is_complete:
                    placed = index + 1 + self._place_equal(index, choice)
                if self._is_complete:
                    return
                continue
            self._failed[role] = None
            if not self._can_still_become_ready(index):
                return

    @property
    def _is_complete(self) -> bool:
        """Return whether no further pod is to be placed: those that have room now make the gang."""
        return not self.where.is_planned and self.trial.is_ready

    def _place_equal(self, index: int, choice: CardChoice) -> int:
        """Place the pods that follow the one at this place and are equal to it, as far as its queue certainly has quota for
        them, nodes have room now, and the gang needs them. Return how many. Each gets the node that it would get alone."""
        session, group, trial = self.session, self.group, self.trial
        pending, cluster = group.pending, session.cluster
        pod = pending[index]
        pod_class, role = pod.pod_class, pod.facts.role
        if not self._is_plain(pod):
            return 0
        queue = cluster.queues[group.queue]
        rules = quota_of(cluster)
        found = rules.acceptable_cards(cluster, queue, pod_class) or ()
        assert not isinstance(found, Shortage), "the pod before has cards"
        cards = tuple([one for one in found if choice.cards is not None and one[0] in choice.cards])
        charge = rules.without_cards(cluster.ledgers.requested.get(pod.facts.uid, ()))
        times = QueueRoom(cluster, queue).times(charge, cards, trial.extra)
        lacking = group.observed.min_available - group.counts.ready - len(trial.now)
        most = lacking if times is None else min(times, lacking)
        ranking = session.rankings.of(pod_class, choice.cards, self.job)
        placed = 0
        for one in islice(pending, index + 1, index + 1 + most):
            if one.pod_class.index != pod_class.index or one.facts.role != role:
                break
            if one.facts.nominated_node or (node := self.where.best(ranking, pod_class)) is None:
                break
            placed += 1
            devices = ranking.devices.pick(node)
            trial.place(one, node, devices, is_last=placed == lacking)
            self.where.record(node, trial)
        session.work.add(POD * placed)
        session.work.add_pod(pod_class, placed)
        return placed

    def _is_plain(self, pod: Pod) -> bool:
        """Return whether the node of a pod, which has just been placed, follows from its class and the quota of its queue."""
        group, now = self.group, self.trial.now
        if not now or now[-1].pod is not pod:
            return False  # It waits for room.
        if group.decided.nominations or group.observed.min_tasks or group.sub_groups is not None:
            return False
        return not (pod.pod_class.claims or self.where.is_planned or self._previous is not NONE)

    def try_pod(self, pod: Pod) -> bool:
        """Place one pod. Return True if a node was found."""
        self.trial.lift_nomination(pod)
        choice = cards_to_charge(self.session, self.group, pod, self.trial.extra)
        if isinstance(choice, Unschedulable):
            self._record_refusal(pod, choice)
            return False
        return self._place(pod, choice)

    def _place(self, pod: Pod, choice: CardChoice) -> bool:
        rankings = self.session.rankings
        self.session.work.add_pod(pod.pod_class)
        ranking = rankings.of(pod.pod_class, choice.cards, self.job)
        nominated = self._nominated_node(pod)
        if nominated is not None and ranking.has_room(nominated):
            node: Node | None = nominated
        else:
            node = None
            if nominated is None or not self._waits_for(pod, ranking, nominated):
                node = self._best(ranking, pod)
        if node is not None:
            # Without counted roles or sub-groups, one more pod may complete the gang.
            group, count = self.group, len(self.trial.now) + 1
            is_counted = bool(group.observed.min_tasks) or group.sub_groups is not None
            is_last = not (is_counted or self.where.is_planned) and group.is_ready_with(count, {})
            devices = ranking.devices.pick(node)
            self.trial.place(pod, node, devices, is_last=is_last)
            self.where.record(node, self.trial)
            return True
        if nominated is not None and ranking.will_have_room(nominated):
            node = nominated
        else:
            node = self.where.best_later(ranking)
        if node is not None:
            devices = ranking.devices.pick(node, later=True)
            self.trial.place(pod, node, devices, later=True)
            self.where.record(node, self.trial)
            return True
        self._requeue_on.update(dict.fromkeys(quota_events(choice.over_quota)))
        if self.reason is not None:
            self._requeue_on.update(dict.fromkeys(ROOM))
            events = ClaimCheck(self.session.cluster, pod.pod_class).events()
            self._requeue_on.update(dict.fromkeys(events))
            return False
        needed = min_pods_of_class(self.group, pod.pod_class)
        self.reason = no_feasible_node(
            rankings, pod, choice, self.job, needed, self.where.candidate_nodes
        )
        return False

    def _waits_for(self, pod: Pod, ranking: NodeRanking, node: Node) -> bool:
        """Return True if a pod that replaces another one waits until the node of that one is free: its resources are
        reserved there for a while."""
        is_its_own = self._previous.of.get(pod.facts.uid) == node.name
        return is_its_own and ranking.will_have_room(node)

    def _best(self, ranking: NodeRanking, pod: Pod) -> Node | None:
        """Return the best node that has room now: after a fault, if possible, one that the group avoids not."""
        avoided = self._previous.avoided
        if not avoided:
            return self.where.best(ranking, pod.pod_class)
        nodes, own = self.session.cluster.nodes, self._previous.of.get(pod.facts.uid)
        scores = self.where.scores(ranking, pod.pod_class).copy()
        for name in avoided:
            node = nodes.nodes.get(name)
            if node is not None and node.facts is not None and name != own:
                scores[node.slot] = -1
        if len(scores) and scores[best := int(scores.argmax())] >= 0:
            return nodes.order[best]
        return self.where.best(ranking, pod.pod_class)

    def _record_refusal(self, pod: Pod, reason: Unschedulable) -> None:
        """Record that a pod was refused by quota: the first reason is reported; what could change any later one is
        added to it."""
        if self.reason is None:
            self.reason = self._with_fit_when_empty(pod, reason)
        elif reason.code in QUEUE_CODES or reason.code in CLAIM_CODES:
            self._requeue_on.update(dict.fromkeys(reason.requeue_on))
        elif reason.code in CARD_CODES:
            self._requeue_on.update(dict.fromkeys(ROOM))

    def _with_fit_when_empty(self, pod: Pod, reason: Unschedulable) -> Unschedulable:
        """Return a refusal by the queue; if the group was refused as never fitting before, check whether that still
        holds."""
        standing = self.group.decided.refusals.get("allocate")
        if standing is None or not standing.never_fits:
            return reason
        needed = min_pods_of_class(self.group, pod.pod_class)
        candidate_nodes = self.where.candidate_nodes
        return with_fit_when_empty(
            self.session.rankings, pod, reason, self.job, needed, candidate_nodes
        )

    def _nominated_node(self, pod: Pod) -> Node | None:
        """Return the node that the pod is nominated for, here or in its status.

        The pod keeps this node unless another node has room sooner.
        """
        held = self.group.decided.nominations.get(pod.facts.uid)
        name = pod.facts.nominated_node if held is None else held.node
        name = self._previous.of.get(pod.facts.uid, name)
        node = self.session.cluster.nodes.nodes.get(name)
        if node is None or node.facts is None or not self.where.admits(node):
            return None
        return node

    def _can_still_become_ready(self, index: int) -> bool:
        """Return True if the gang can still become ready after a pod failed."""
        group = self.group
        if group.observed.min_available >= len(group.pods):
            return False
        remembers_roles = self.session.cluster.policy.action_arguments.caches_failed_roles
        enforced = group.enforced_roles
        if enforced:
            have = group.ready_by_role
            # Pods without a role fail by class; minMember may be set for all of them together.
            failed = [role if isinstance(role, str) else "" for role in self._failed]
            return all(
                have.get(role, 0) + self.trial.roles.get(role, 0) >= enforced[role]
                for role in failed
                if role in enforced
            )
        rest = sum(
            1
            for pod in group.pending[index + 1 :]
            if not remembers_roles or (pod.facts.role or pod.pod_class.index) not in self._failed
        )
        return group.counts.ready + self.trial.count + rest >= group.observed.min_available


def cards_to_charge(
    session: Session, group: PodGroup, pod: Pod, extra: Mapping[str, int]
) -> CardChoice | Unschedulable:
    """Return the cards that the pod may be charged, or why its queue refuses it."""
    session.work.add(POD)
    cluster, pod_class = session.cluster, pod.pod_class
    if pod_class.unsupported or pod_class.claims:
        refused = refused_demand(cluster, pod, group)
        if refused is not None:
            return refused
    queue = cluster.queues[group.queue]
    plain = cluster.ledgers.requested.get(pod.facts.uid, ())
    rules = quota_of(cluster)
    plain = rules.without_cards(plain)
    short = quota_check.may_allocate(cluster, queue, plain, extra)
    if short is not None:
        return quota_unschedulable(short, pod)
    choice = rules.choose_cards(cluster, queue, pod_class, extra)
    return quota_unschedulable(choice, pod) if isinstance(choice, Shortage) else choice


def refused_demand(
    cluster: Cluster, pod: Pod, group: PodGroup | None = None
) -> Unschedulable | None:
    """Return the refusal of a pod that no node could take: a demand that muster does not support, or a claim that cannot be
    used; None if there is none."""
    pod_class = pod.pod_class
    if pod_class.unsupported:
        return Unschedulable(
            "UnsupportedDemand", "", pod_class.unsupported, pod.key, never_fits=True
        )
    found = ClaimCheck(cluster, pod_class).refusal(group)
    if found is None:
        return None
    return Unschedulable(
        found.code, found.limit, found.message, pod.key, found.requeue_on, never_fits=True
    )


def precheck(
    session: Session, group: PodGroup, room: QueueRoom | None = None
) -> Unschedulable | None:
    """Return why the group is not tried at all: invalid configuration, or a queue that is closed; None if it is
    tried. `room` is that of its queue, if it is kept."""
    if group.problem is not None:
        return Unschedulable(group.problem[0], "", group.problem[1])
    cluster = session.cluster
    allocates = group.decided.phase != WAITING or "enqueue" not in cluster.policy.actions
    if room is None:
        queue = cluster.queues[group.queue]
        short = quota_check.why_queue_closed(cluster, queue, allocates=allocates)
    else:
        short = room.why_closed(allocates=allocates)
    restarts = cluster.policy.reschedules and group.key in cluster.reschedulings.restarts
    if short is not None and not (restarts and short.code == "QueueNotOpen"):
        # A closed queue lets its jobs run to their end, also one that is restarted after a fault.
        return quota_unschedulable(short)
    return None


def missing_pods(group: PodGroup) -> Unschedulable | None:
    """Return which pods are missing to reach minMember, as a refusal, or None."""
    if not group.has_enough_pods:
        have, least = group.counts.valid, group.observed.min_available
        return Unschedulable(
            "NotEnoughPods", "", f"pod group has {have} of the {least} pods it needs"
        )
    enforced = group.enforced_roles
    if not enforced:
        return None
    by_role = group.valid_by_role
    for role in sorted(enforced):
        if by_role[role] < enforced[role]:
            text = f"{task_text(role)} has {by_role[role]} of the {enforced[role]} pods it needs"
            return Unschedulable("NotEnoughPodsOfTask", role, text)
    return None


def too_many_classes(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return a refusal if the pods of the group are of too many equivalence classes, or None."""
    if not has_too_many_classes(session.cluster, group):
        return None
    work = class_work(session.cluster, group) // THOUSAND
    budget = session.cluster.policy.action_arguments.class_budget
    text = (
        f"its pods are of {len(group.classes)} classes, each with its own requests or constraints: placing them takes"
        f" {work} thousand units of work, more than classBudget of {budget} thousand"
    )
    return Unschedulable("TooManyUnlikePods", "", text, requeue_on=(CLASS_BUDGET,))


def task_text(role: str) -> str:
    """Return how messages name a role."""
    return f"task {role}" if role else "the task without a name"
