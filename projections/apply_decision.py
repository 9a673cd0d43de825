"""Apply decisions to State: resources are taken, nominated or released when the decision is recorded.

Logs of older releases may contain decisions about groups and queues whose names are no longer accepted
(`events/limits.py`). Such a decision changes only the pods that it names.
"""

from collections.abc import Callable
from typing import Final, Never

from msgspec import structs

from events.decision import INTERNAL_ERROR, Decision
from events.decisions.action_failed import ActionFailed
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.enqueue import EnqueueDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.release import ReleaseDecided
from events.decisions.reschedule import RescheduleDecided, RestartEnded
from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import WorkDeferred
from events.record import Record
from projections import quota_charging, restarts
from projections.commitments import DELETE, Commitment
from projections.config_errors import REQUEST_DIFFERS
from projections.device_uses import writing_families
from projections.group_rows import Nomination, Refusal
from projections.network_annotations import NetworkAnnotations
from projections.pod_groups import INQUEUE, WAITING, PodGroup
from projections.pod_ranks import pod_ranks
from projections.pods import Pod
from projections.previous_nodes import ranks_before, record_replaced
from projections.queue_objects import update_reported_errors
from projections.refusals import PODS_NOT_CREATED
from projections.rescheduling import drop_restart
from projections.reservation_timeouts import start_reservation_timeout
from projections.state_facts import StateFacts
from projections.suspensions import ACTION_RETRY_NS, FailedAction
from projections.victim_waits import end_wait, start_wait


def apply_decision(state: StateFacts, record: Record, event: Decision) -> None:
    """Apply a decision to State."""
    kind = type(event)
    apply = _APPLY.get(kind)
    if apply is None:
        # A kind is applied like the one that it is derived from, unless it has an entry of its own.
        apply = next(_APPLY[base] for base in kind.__mro__ if base in _APPLY)
    apply(state, record, event)  # type: ignore[arg-type]  # the table maps a type to what takes it
    for table in state.cluster.tables.of_decisions:
        table.decided(state.cluster, record.position, event)


def _config_invalid(state: StateFacts, _record: Record, event: ConfigInvalid) -> None:
    """Mark an error as named in the log. A queue keeps its own; those of reading it are with those of other objects."""
    kind, _, name = event.subject.partition("/")
    queue = state.cluster.queues.get(name.strip("/")) if kind == "Queue" else None
    error = (event.code, event.message)
    if queue is not None and error in queue.unreported_errors:
        update_reported_errors(state.cluster, queue, (error,))
    else:
        state.cluster.config_errors.mark_reported(event.subject, error)


def _enqueued(state: StateFacts, record: Record, event: EnqueueDecided) -> None:
    group = state.cluster.pod_groups.find(state.cluster, event.pod_group)
    if group is None:
        return
    group.decided = structs.replace(
        group.decided, phase=INQUEUE, listed_phase="", cause=record.position
    )
    state.cluster.pod_groups.mark(group.key, record.position)


def _bind_decided(state: StateFacts, record: Record, event: GangBindDecided) -> None:
    cluster = state.cluster
    group = cluster.pod_groups.find(cluster, event.pod_group)
    before: dict[str, int] = {}
    if group is not None:
        if cluster.policy.reschedules and group.key in cluster.reschedulings.restarts:
            before = ranks_before(cluster, group)
            record_replaced(cluster, group, [one.uid for one in event.placements])
        if group.decided.nominations:
            cluster.pod_groups.remove_nominations(cluster, group, is_bound=True)
        cluster.victim_waits.pop(group.key, None)
        is_first = group.observed.facts is not None and not group.counts.allocated
        if is_first and (text := quota_charging.request_differs(cluster, group)):
            cluster.config_errors.add(f"PodGroup/{group.key}", (REQUEST_DIFFERS, text))
    ranks, pods = state.assignments.ranks, cluster.pods
    asking = [one.uid for one in event.placements if pods[one.uid].pod_class.asked_devices]
    if asking:
        ranks.update(pod_ranks(cluster, ranks, asking, before))
    network = [
        pair
        for one in cluster.features.of(NetworkAnnotations)
        for pair in one.at_binding(cluster, event.pod_group)
    ]
    bound: list[tuple[Pod, Pod]] = []
    for placement in event.placements:
        old = cluster.pods[placement.uid]
        assert not old.node, f"{old.key} is already on {old.node}"
        pod = old.decided_as(
            assumed=placement.node,
            decision=record.position,
            bound_at=record.position,
            devices=placement.devices,
            network=(*placement.network, *network),
        )
        bound.append((old, pod))
    cluster.replace_pods(bound)
    for placement, (_, pod) in zip(event.placements, bound, strict=True):
        state.commitments[placement.uid] = Commitment(
            decision=record.position,
            pod=placement.pod,
            uid=placement.uid,
            node=placement.node,
            assigned_ns=_assigned_ns(state, pod),
        )
    if group is not None:
        decided = group.decided
        if decided.refusals or decided.listed_phase:
            group.decided = structs.replace(decided.without_refusals(), listed_phase="")
        if cluster.internal_errors.groups:
            cluster.internal_errors.clear(group.key)
        cluster.pod_groups.settle_decided(cluster, group.key)


def _assigned_ns(state: StateFacts, pod: Pod) -> int:
    """Return the time of the assignment of devices to a pod; 0 if nothing is written on the pod."""
    if not pod.devices:
        return 0
    families = writing_families(state.cluster.device_families, pod.pod_class)
    if not families:
        return 0
    nodes = state.cluster.nodes.nodes
    node = nodes[pod.node].facts
    one_by_one = not pod.facts.is_confirmed and any(
        node is not None and one.waits_for_confirmation(pod.pod_class, node) for one in families
    )
    return state.assignments.assign(
        pod.node, pod.facts.uid, state.now_ns, nodes, one_by_one=one_by_one
    )


def _refused(state: StateFacts, record: Record, event: PodGroupUnschedulable) -> None:
    group = state.cluster.pod_groups.find(state.cluster, event.pod_group)
    if group is None:
        return
    before = group.decided.refusals.get(event.action)
    refusal = Refusal(
        code=event.code,
        limit=event.limit,
        message=event.message,
        pod=event.pod,
        position=record.position,
        requeue_on=event.requeue_on,
        never_fits=event.never_fits,
        fits_only_closed_nodes=event.fits_only_closed_nodes,
        is_timed_out=before is not None and before.is_timed_out and event.fits_only_closed_nodes,
        node_helps=event.node_helps,
    )
    decided = group.decided.with_refusal(event.action, refusal)
    takes_back = event.action == "enqueue" and decided.phase == INQUEUE
    # The admission is taken back: the reservation goes to another group.
    phase = WAITING if takes_back else decided.phase
    group.decided = structs.replace(decided, listed_phase="", phase=phase)
    if event.code == INTERNAL_ERROR:
        state.cluster.internal_errors.suspend(group.key, event.action, state.now_ns)
    else:
        state.cluster.internal_errors.clear(group.key, event.action)
    start_reservation_timeout(state.cluster, group, refusal, state.now_ns)
    if takes_back and event.code == PODS_NOT_CREATED:
        span = state.cluster.policy.action_arguments.pod_creation_ns
        state.cluster.pod_waits.begin_backoff(group.key, span, state.cluster.now_ns)
    cluster = state.cluster
    cluster.pod_groups.settle_decided(cluster, group.key)
    if _waits_for_earlier_action(state, group, event.action):
        cluster.wakeup_events.groups[group.key] = None


def _waits_for_earlier_action(state: StateFacts, group: PodGroup, action: str) -> bool:
    """Return whether after this refusal the group waits for an action that this cycle has already run (`preempt`
    before `allocate`), so that another cycle is due. An action whose search continues is due anyway."""
    cluster = state.cluster
    actions = cluster.policy.actions
    earlier = actions[: actions.index(action)] if action in actions else ()
    return any(
        equivalence_group.action in earlier
        and equivalence_group.action not in group.decided.refusals
        and state.deferred_work.search_of(equivalence_group.action, group.key) is None
        for equivalence_group in cluster.scheduling_queue.of(group)
    )


def _pipelined(state: StateFacts, record: Record, event: PipelineDecided) -> None:
    cluster = state.cluster
    group = cluster.pod_groups.find(cluster, event.pod_group)
    if group is None:
        return
    record_replaced(cluster, group, [one.uid for one in event.placements])
    cluster.pod_groups.remove_nominations(cluster, group, is_bound=True)
    held: dict[str, Nomination] = {}
    for one in event.placements:
        pod_class = cluster.pods[one.uid].pod_class
        charge = quota_charging.charge_on(cluster, pod_class, one.node)
        held[one.uid] = Nomination(
            one.node, pod_class.request, charge, record.position, one.devices
        )
    cluster.pod_groups.set_nominations(cluster, group, held)
    start_wait(cluster, group, state.now_ns)
    group.decided = group.decided.without_refusals()
    cluster.internal_errors.clear(group.key)
    cluster.pod_groups.settle_decided(cluster, group.key)


def _evicted(state: StateFacts, record: Record, event: EvictionDecided) -> None:
    for one in event.evictions:
        old = state.cluster.pods[one.uid]
        pod = old.decided_as(evicted=record.position)
        state.cluster.replace_pod(old, pod)
        state.evictions[one.uid] = Commitment(
            decision=record.position,
            pod=one.pod,
            uid=one.uid,
            node=one.node,
            in_favour_of=event.in_favour_of,
            mode=DELETE if one.is_without_budgets else "",
        )


def _rescheduled(state: StateFacts, record: Record, event: RescheduleDecided) -> None:
    """Delete the pods, and keep where the pods of the job were until it is complete again."""
    for one in event.evictions:
        old = state.cluster.pods[one.uid]
        if not old.evicted:
            pod = old.decided_as(evicted=record.position)
            state.cluster.replace_pod(old, pod)
        state.evictions[one.uid] = Commitment(
            decision=record.position,
            pod=one.pod,
            uid=one.uid,
            node=one.node,
            mode=event.mode,
        )
    restarts.begin(state, record.position, event)


def _restart_ended(state: StateFacts, _record: Record, event: RestartEnded) -> None:
    cluster = state.cluster
    drop_restart(cluster, event.pod_group)
    cluster.mark_faulty(event.pod_group)
    cluster.pod_groups.mark(event.pod_group, cluster.position)


def _withdrawn(state: StateFacts, _record: Record, event: PipelineWithdrawn) -> None:
    cluster = state.cluster
    group = cluster.pod_groups.find(cluster, event.pod_group)
    if group is None:
        return
    cluster.pod_groups.remove_nominations(cluster, group)
    end_wait(cluster, group.key)
    cluster.pod_groups.settle_decided(cluster, group.key)


def _work_deferred(state: StateFacts, _record: Record, event: WorkDeferred) -> None:
    state.deferred_work = state.deferred_work.with_left(
        state.carried_work, event, state.cycle, state.cycle_events, state.cluster
    )


def _search_deferred(state: StateFacts, _record: Record, event: SearchDeferred) -> None:
    state.deferred_work = state.deferred_work.with_search(event, state.cycle)


def _action_failed(state: StateFacts, _record: Record, event: ActionFailed) -> None:
    state.cluster.internal_errors.actions[event.action] = FailedAction(
        state.now_ns + ACTION_RETRY_NS, event.message, event.is_abandoned
    )


def _nothing(_state: StateFacts, _record: Record, _event: Decision) -> None:
    """Apply a decision that changes nothing in State."""


_APPLY: Final[dict[type[Decision], Callable[[StateFacts, Record, Never], None]]] = {
    Decision: _nothing,
    EnqueueDecided: _enqueued,
    GangBindDecided: _bind_decided,
    PodGroupUnschedulable: _refused,
    PipelineDecided: _pipelined,
    PipelineWithdrawn: _withdrawn,
    EvictionDecided: _evicted,
    ReleaseDecided: _nothing,  # Its pods stay where they are until they have ended.
    RescheduleDecided: _rescheduled,
    RestartEnded: _restart_ended,
    ConfigInvalid: _config_invalid,
    WorkDeferred: _work_deferred,
    SearchDeferred: _search_deferred,
    ActionFailed: _action_failed,
}
"""Kind of a decision to what applies it. The tables of features (`projections/tables.py`) follow."""
