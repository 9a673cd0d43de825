"""What the actions of one State share: the State, the caches, and the count of work."""

from collections.abc import Iterable, Iterator

from events.decision import INTERNAL_ERROR, Decision
from events.decisions.action_failed import ActionFailed
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.work_deferred import DeferredAction, WorkDeferred
from projections.audit import audit_trials
from projections.cluster import Cluster
from projections.deferred_work import DeferredSearch
from projections.internal_error import OnError, ignore, report
from projections.pod_groups import PodGroup
from projections.policy.policy import EVICTING, Policy
from projections.policy.pools import DEFAULT_POOL
from projections.scheduling_queue import EquivalenceGroup
from projections.state import State
from projections.wakeup_events import WakeupEvents
from scheduling.explanation import EveryNode, PlacedPod, Subject
from scheduling.failed_preemption_cache import FailedPreemptionCache
from scheduling.node_ranking import NodeRankings
from scheduling.preemptible_capacity import PreemptibleCapacity, VictimIndex
from scheduling.quota.enqueue_check import EnqueueCheck
from scheduling.quota.fair_tree import FairTree
from scheduling.quota.queue_order import QueueOrderIndex
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.requeue import RequeueCheck
from scheduling.requeue_index import RequeueIndex
from scheduling.topology.network import Network
from scheduling.work_budget import Work


class Session:
    """One State with the caches that are kept from cycle to cycle, only to save time."""

    def __init__(self, state: State, on_error: OnError = ignore, pool: str = DEFAULT_POOL) -> None:
        self.state = state
        self.pool = pool
        """The pool of nodes for which it decides."""
        self.cluster: Cluster = state.cluster
        self.groups_examined = 0
        """Number of times an action tried a pod group."""
        self.work = Work(state.cluster, lambda seen: self.rankings.selecting(seen))
        """The work of the open cycle so far."""
        self._cut: list[DeferredAction] = []
        """Actions that this cycle cut short."""
        self._changed_before: dict[int, dict[int, EquivalenceGroup]] = {}
        """For each earlier cycle with deferred work, the equivalence classes (by identity) with a group that changed
        then."""
        self._on_error = on_error
        self._changed: dict[int, EquivalenceGroup] = {}
        """Equivalence classes (by identity) with a group that changed."""
        self._requeued_at: dict[int, int] = {}
        """Equivalence class (by identity) to the position at which it was found to be requeued."""
        self._strategies: dict[str, tuple[str, ...]] = {}
        """Queue to the placement strategies that serve it under the policy `_strategies_for`."""
        self._strategies_for: Policy | None = None
        self._drop_caches()

    def _drop_caches(self) -> None:
        """Drop all caches: each can be recomputed from State."""
        self.rankings = NodeRankings(self.cluster, self.pool)
        self.preemptible = PreemptibleCapacity(self.cluster)
        self.reclaimable = ReclaimableResources(self.state)
        self.enqueue_check = EnqueueCheck(self.cluster, self.reclaimable)
        self.failed_preemptions = FailedPreemptionCache(self.cluster)
        self.network = Network(self.rankings)
        self._drop_requeue_index()
        self.fair = FairTree(self.cluster)

    def _drop_requeue_index(self) -> None:
        self.donors = VictimIndex(self.cluster)
        self.queue_order = QueueOrderIndex(self.cluster)
        self.requeue_index = RequeueIndex(self.cluster, self.donors, self.reclaimable)

    def drop_fair_tree(self) -> None:
        """Drop the tree of shares, which an error may have left half updated."""
        self.fair = FairTree(self.cluster)

    def groups_to_decide(self, action: str) -> dict[str, list[EquivalenceGroup]]:
        """Return, by queue, the equivalence classes of an action whose last answer may have changed."""
        state, cluster = self.state, self.cluster
        equivalence_groups_of = cluster.scheduling_queue.of_keys
        self._changed = equivalence_groups_of(state.cycle_events.groups)
        self._changed |= equivalence_groups_of(cluster.wakeup_events.groups)
        carried = [one for one in state.carried_work.batches if action in one.actions]
        self._changed_before = {
            batch.cycle: equivalence_groups_of(batch.events.groups) for batch in carried
        }
        found: dict[str, list[EquivalenceGroup]] = {}
        self._requeued_at = {}
        candidates, certain = self.candidates(action), self.certain(action)
        for key, one in candidates.items():
            if one.action != action or not one.jobs:
                continue
            if key not in certain:
                if not self.could_change(one):
                    continue
                self._requeued_at[key] = cluster.position
            found.setdefault(one.queue, []).append(one)
        return found

    def certain(self, action: str) -> dict[int, EquivalenceGroup]:
        """Return those of the candidates, by identity, that need not be checked before their turn."""
        try:
            return self.requeue_index.certain(self.state.cycle_events, action)
        except Exception as error:  # any bug
            report(error, "Cycle//", action, self._on_error)
            return {}

    def candidates(self, action: str) -> dict[int, EquivalenceGroup]:
        """Return at least the equivalence classes, by identity, for which `could_change` is true now."""
        carried = self.state.carried_work
        found = {**self._changed, **self.requeued(self.state.cycle_events, action)}
        found |= self.cluster.scheduling_queue.of_keys(carried.searches.get(action, ()))
        for batch in carried.batches:
            if action in batch.actions:
                found |= self._changed_before[batch.cycle]
                found |= self.requeued(batch.events, action)
        return self._own_groups(found)

    def strategies_of(self, queue: str) -> tuple[str, ...]:
        """Return the names of the placement strategies that the policy lets serve a queue, in its order."""
        policy = self.cluster.policy
        if self._strategies_for is not policy:
            self._strategies_for, self._strategies = policy, {}
        found = self._strategies.get(queue)
        if found is None:
            named = [one.strategy for one in policy.placement if one.is_for(queue)]
            found = self._strategies[queue] = tuple(named)
        return found

    def has_group(self, key: str) -> bool:
        """Return whether a pod group is decided by this session: it is in its pool, which actions decide."""
        members = self.cluster.features.pool_members
        return members is None or (
            members.groups(self.cluster).get(key) == self.pool
            and self.pool not in self.cluster.policy.pools.deciders
        )

    def is_in_pool(self, key: str) -> bool:
        """Return whether a pod group is in the pool of this session, or is gone."""
        members = self.cluster.features.pool_members
        return members is None or members.groups(self.cluster).get(key, self.pool) == self.pool

    def has_subject(self, subject: Subject) -> bool:
        """Return whether this session decides about a subject: a pod group of its pool, or a node of it."""
        match subject:
            case PodGroup():
                return self.has_group(subject.key)
            case PlacedPod() | EveryNode():
                return self.has_group(subject.group.key)
            case _:
                members = self.cluster.features.pool_members
                if members is None:
                    return True
                return members.nodes(self.cluster).get(subject.name, self.pool) == self.pool

    def _own_groups(self, found: dict[int, EquivalenceGroup]) -> dict[int, EquivalenceGroup]:
        """Return those of the classes that are in the pool."""
        if self.cluster.features.pool_members is None:
            return found
        return {key: one for key, one in found.items() if one.jobs and self.has_group(one.head.key)}

    def requeued(
        self, events: WakeupEvents, action: str | None = None
    ) -> dict[int, EquivalenceGroup]:
        """Return at least the equivalence classes, by identity, that events requeue: all if the index raises."""
        try:
            return self._own_groups(self.requeue_index.candidates(events, action))
        except Exception as error:  # any bug
            report(error, "Cycle//", action or "wake", self._on_error)
            self._drop_requeue_index()
            return self._own_groups({id(one): one for one in self.cluster.scheduling_queue.all()})

    def could_change(self, equivalence_group: EquivalenceGroup) -> bool:
        """Return True if the class could get a different answer in the current State."""
        if self._requeued_at.get(id(equivalence_group)) == self.cluster.position:
            return True
        if (
            id(equivalence_group) in self._changed
            or self.unfinished_search(equivalence_group) is not None
        ):
            return True
        if self._is_requeued(equivalence_group, self.state.cycle_events):
            return True
        carried = self.state.carried_work
        if not carried.batches:
            return False
        return self._was_skipped(
            equivalence_group,
            carried.evaluated_at(equivalence_group.action, equivalence_group.head.key),
        )

    def unfinished_search(self, equivalence_group: EquivalenceGroup) -> DeferredSearch | None:
        """Return the search for the head of a class that an earlier cycle cut short, unless this cycle continued it
        already."""
        action, key = equivalence_group.action, equivalence_group.head.key
        if self.state.deferred_work.search_of(action, key) is not None:
            return None
        return self.state.carried_work.search_of(action, key)

    def is_outdated(self, equivalence_group: EquivalenceGroup, left: DeferredSearch) -> bool:
        """Return True if State changed since nodes were searched for the head of a class."""
        if left.so_far.is_outdated:
            return True
        missed = [
            batch.events
            for batch in self.state.carried_work.batches
            if batch.cycle > left.cycle and equivalence_group.action in batch.actions
        ]
        return any(
            RequeueCheck(self.cluster, due, self.donors).is_search_outdated(
                equivalence_group, left.so_far
            )
            for due in (*missed, self.state.cycle_events)
        )

    def _was_skipped(self, equivalence_group: EquivalenceGroup, looked_at: int) -> bool:
        """Return True if the class was to be decided in a cycle that was cut short, and was not visited since."""
        for batch in self.state.carried_work.batches:
            if equivalence_group.action not in batch.actions or looked_at >= batch.cycle:
                continue
            if id(equivalence_group) in self._changed_before.get(
                batch.cycle, ()
            ) or self._is_requeued(equivalence_group, batch.events):
                return True
        return False

    def _is_requeued(self, equivalence_group: EquivalenceGroup, events: WakeupEvents) -> bool:
        check = RequeueCheck(self.cluster, events, self.donors, self.reclaimable)
        return check.is_requeued(equivalence_group, self._on_error)

    # Work

    def open_cycle(self) -> None:
        """Begin a cycle."""
        self.work.open_cycle()
        self._cut = []
        self.rankings.drop_stale()

    def record_cut_short(
        self,
        action: str,
        queue: str,
        group: PodGroup,
        left: list[EquivalenceGroup],
        looked: Iterable[str],
    ) -> None:
        """Record that an action has used its share of the work. `group` would have been visited next.

        Of the visited groups, keep those that are still pending in the action, and one for each queue and
        namespace, so that these count as visited if all their groups moved on.
        """
        groups = [found for key in looked if (found := self.cluster.groups.get(key)) is not None]
        last = {(one.queue, one.key.partition("/")[0]): one.key for one in groups}
        waits = [
            one.key
            for one in groups
            if last[one.queue, one.key.partition("/")[0]] == one.key
            or any(
                equivalence_group.action == action
                for equivalence_group in self.cluster.scheduling_queue.of(one)
            )
        ]
        self._cut.append(
            DeferredAction(
                action=action,
                queue=queue,
                pod_group=group.key,
                lines=len(left),
                looked=tuple(waits),
            )
        )

    def is_cut_short(self, action: str) -> bool:
        """Return whether an action has used its share of the work in this cycle."""
        return any(one.action == action for one in self._cut)

    def deferred(self) -> Iterator[Decision]:
        """Yield the record of what the cycle did not visit, as its last record."""
        if self._cut:
            work = self.work
            yield WorkDeferred(work=work.done, budget=work.budget, actions=tuple(self._cut))

    def mark_changed(self, equivalence_group: EquivalenceGroup) -> None:
        """Record that a group in the class has just changed."""
        self._changed[id(equivalence_group)] = equivalence_group

    # Internal errors

    def trial_position(self) -> tuple[int, int]:
        """Return the journal position of the node table, to be passed to `group_failed`."""
        nodes = self.cluster.nodes
        return nodes.layout, len(nodes.changed_slots)

    def group_failed(
        self, group: PodGroup, action: str, error: Exception, before: tuple[int, int]
    ) -> Iterator[Decision]:
        """Refuse a group whose evaluation raised. Raise AssertionError if its trial was not undone.

        Caches may be half updated, so all are dropped. Nominations of the group are released: it cannot use them
        until it is evaluated again.
        """
        message = self._report(f"PodGroup/{group.key}", action, error)
        nodes = self.cluster.nodes
        layout, moved = before
        is_known = nodes.is_laid_out and nodes.layout == layout
        slots = nodes.changed_slots[moved:] if is_known else range(len(nodes.order))
        audit_trials(self.state, [nodes.order[slot].name for slot in dict.fromkeys(slots)], group)
        if group.decided.nominations and action not in EVICTING:
            yield PipelineWithdrawn(pod_group=group.key, queue=group.queue, code=INTERNAL_ERROR)
        yield PodGroupUnschedulable(
            pod_group=group.key,
            queue=group.queue,
            action=action,
            code=INTERNAL_ERROR,
            message=message,
            never_fits=True,
        )

    def action_failed(
        self, action: str, error: Exception, *, is_abandoned: bool
    ) -> Iterator[Decision]:
        """Record that an action raised, unless the same was recorded shortly before."""
        message = self._report(f"Action//{action}", action, error)
        standing = self.cluster.internal_errors.actions.get(action)
        if standing is None or (standing.message, standing.is_abandoned) != (message, is_abandoned):
            yield ActionFailed(action=action, message=message, is_abandoned=is_abandoned)

    def _report(self, subject: str, action: str, error: Exception) -> str:
        self._drop_caches()
        return report(error, subject, action, self._on_error)
