"""Apply outcomes of decisions to State: bindings and evictions that were done, rejected or lost."""

from typing import TYPE_CHECKING, Final

from msgspec import structs

from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    ShadowDecisionEnded,
    StatusUpdated,
    StatusUpdateFailed,
)
from events.record import Record
from events.union import Outcome
from projections import eviction_pauses
from projections.budget_refusals import BUDGET_CODES, record_refusal
from projections.commitments import Commitment
from projections.eviction_pauses import EVICTION_SHARE
from projections.fixed_requests import FIXED
from projections.pod_class import class_key_of
from projections.pods import (
    FAILED_BINDINGS_MAX,
    DecidedPod,
    FailedBinding,
    ObservedPod,
    Pod,
    pod_of,
)
from projections.state_facts import StateFacts
from projections.written_config_map import WrittenConfigMap

if TYPE_CHECKING:
    from projections.cluster import Cluster

EVICTION_BACKOFF_NS: Final = 30_000_000_000
"""Time for which a pod is not evicted again after its eviction failed."""

RETRIED_CODES: Final = ("Unknown", "Unavailable", "TooManyRequests")
"""Codes of a failed status update that is retried; any other code would be returned again."""

POD_SCHEDULED: Final = "PodScheduled"
"""Value of `what` for an update of this condition of a pod; any other of a pod is a mark."""

COUNTS: Final = "counts"
"""Value of `what` for an update of the counts in PodGroup.status, rather than of conditions."""


BIND: Final = "bind"
EVICT: Final = "evict"
"""Values of `what` for the decisions of a shadow."""


def apply_outcome(state: StateFacts, record: Record, event: Outcome) -> None:
    """Apply an outcome to State."""
    match event:
        case PodBound() | BindFailed() | BindOutcomeUnknown():
            _bind_outcome(state, record, event)
        case PodAnnotated() | PodAnnotationFailed() | PodAnnotationUnknown():
            _annotation_outcome(state, record, event)
        case PodEvicted() | EvictionFailed() | EvictionOutcomeUnknown():
            _eviction_outcome(state, record, event)
        case PodGroupUpdated() | PodGroupUpdateFailed():
            _phase_outcome(state, record, event)
        case StatusUpdated() | StatusUpdateFailed():
            _status_outcome(state, record, event)
        case ShadowDecisionEnded():
            _shadow_decision_ended(state, record, event)


def _bind_outcome(
    state: StateFacts, record: Record, event: PodBound | BindFailed | BindOutcomeUnknown
) -> None:
    """Apply the outcome of a binding: done, rejected or unknown."""
    match event:
        case PodBound():
            commitment = state.commitments.get(event.uid)
            if commitment is not None and commitment.decision == record.cause:
                del state.commitments[event.uid]
                state.assignments.bound(event.node, event.uid, state.now_ns)
            pod = state.cluster.pods.get(event.uid)
            state.cluster.bind_backoffs.succeeded("" if pod is None else pod.group_key)
        case BindFailed():
            _bind_failed(state, event)
        case BindOutcomeUnknown():
            _unknown(state.commitments, event.uid)


def _annotation_outcome(
    state: StateFacts,
    record: Record,
    event: PodAnnotated | PodAnnotationFailed | PodAnnotationUnknown,
) -> None:
    """Apply the outcome of writing the annotations of a pod: done, rejected or unknown."""
    match event:
        case PodAnnotated():
            one = state.commitments.get(event.uid)
            if one is not None and one.decision == record.cause:
                state.commitments[event.uid] = structs.replace(one, is_annotated=True)
        case PodAnnotationFailed():
            _bind_failed(state, event)
        case PodAnnotationUnknown():
            pass  # They are written again: the same ones, with the same precondition.


def _eviction_outcome(
    state: StateFacts, record: Record, event: PodEvicted | EvictionFailed | EvictionOutcomeUnknown
) -> None:
    """Apply the outcome of an eviction: done, rejected or unknown. An evicted pod is removed when its deletion is
    observed."""
    one = state.evictions.get(event.uid)
    if one is not None and one.is_forced and record.cause != one.decision:
        return  # The outcome of an earlier eviction: the pod is still to be deleted by force.
    match event:
        case PodEvicted():
            state.evictions.pop(event.uid, None)
        case EvictionFailed():
            if event.code in BUDGET_CODES and event.uid in state.evictions:
                namespace = event.pod.partition("/")[0]
                record_refusal(state.cluster, event.uid, namespace, state.now_ns)
            in_favour_of = "" if one is None else one.in_favour_of
            is_of_share = event.code == EVICTION_SHARE
            if is_of_share and eviction_pauses.start(state.cluster, in_favour_of):
                _eviction_undone(state, event.uid)
            else:
                _eviction_failed(state, event.uid, state.now_ns)
        case EvictionOutcomeUnknown():
            _unknown(state.evictions, event.uid)


def _eviction_failed(state: StateFacts, uid: str, at_ns: int) -> None:
    """Leave a pod alone for a while."""
    old = state.cluster.pods.get(uid)
    if old is not None and old.evicted:
        state.cluster.eviction_backoff[uid] = at_ns + EVICTION_BACKOFF_NS
    _eviction_undone(state, uid)


def _eviction_undone(state: StateFacts, uid: str) -> None:
    """Forget that a pod was to be evicted."""
    state.evictions.pop(uid, None)
    old = state.cluster.pods.get(uid)
    if old is not None and old.evicted:
        pod = old.decided_as(evicted=0, is_stuck=False)
        state.cluster.replace_pod(old, pod)
        state.cluster.mark_node_freed(pod.node)


def _shadow_decision_ended(state: StateFacts, record: Record, event: ShadowDecisionEnded) -> None:
    """Stop assuming what a shadow decided. A pod that its scheduler placed is where it was observed; another one waits
    again, after the back-off of a failed binding or eviction."""
    open_decisions = state.evictions if event.what == EVICT else state.commitments
    one = open_decisions.get(event.uid)
    if one is None or one.decision != record.cause:
        return
    at_ns = max(event.at_ns, state.now_ns)
    if event.what == EVICT:
        _eviction_failed(state, event.uid, at_ns)
        return
    del state.commitments[event.uid]
    state.assignments.remove(event.node, event.uid)
    old = state.cluster.pods.get(event.uid)
    if old is not None and not old.facts.node:
        state.cluster.bind_backoffs.begin(old.group_key, at_ns)
        cancel_placement(state.cluster, old)
    elif old is not None:
        state.cluster.bind_backoffs.succeeded(old.group_key)


def forget_open_decisions(state: StateFacts) -> None:
    """Forget the placements and evictions that a shadow assumes, in the State of facts: what follows is applied without decisions."""
    for uid, one in list(state.commitments.items()):
        del state.commitments[uid]
        state.assignments.remove(one.node, uid)
        old = state.cluster.pods.get(uid)
        if old is not None and not old.facts.node:
            cancel_placement(state.cluster, old)
    for uid in list(state.evictions):
        del state.evictions[uid]
        old = state.cluster.pods.get(uid)
        if old is not None:
            state.cluster.replace_pod(old, old.decided_as(evicted=0))


def _phase_outcome(
    state: StateFacts, record: Record, event: PodGroupUpdated | PodGroupUpdateFailed
) -> None:
    """Record that the phase of a PodGroup was reported, or rejected for good."""
    if isinstance(event, PodGroupUpdateFailed) and event.code in RETRIED_CODES:
        return
    _set_reported(state, event.pod_group, record.cause or 0)


def _set_reported(state: StateFacts, key: str, position: int) -> None:
    group = state.cluster.pod_groups.find(state.cluster, key)
    if group is None or group.observed.facts is None:
        return  # Its object is gone; another one of its name has no status yet.
    reported = group.decided.reported_status
    if reported.reported_at < position:
        reported = structs.replace(reported, reported_at=position)
        group.decided = structs.replace(group.decided, reported_status=reported)
        state.cluster.pending_status.update(group)


def _status_outcome(
    state: StateFacts, record: Record, event: StatusUpdated | StatusUpdateFailed
) -> None:
    """Record that a status was reported, or rejected for good."""
    is_lost = isinstance(event, StatusUpdateFailed) and event.code in RETRIED_CODES
    kind, _, name = record.subject.partition("/")
    if record.cause is not None and kind == "Pod" and event.what != POD_SCHEDULED:
        for table in state.cluster.tables.with_marks:
            table.mark_answered(event.what, event.uid, record.cause, is_lost=is_lost)
        return
    if record.cause is None or is_lost:
        return
    if kind == "Pod" and (pod := state.cluster.pods.get(event.uid)) is not None:
        state.cluster.exchange_pod(pod.decided_as(reported_at=record.cause))
    elif kind == "ConfigMap":
        _config_map_written(state, event.what, record.cause)
    elif kind == "PodGroup" and event.what == COUNTS:
        _set_reported(state, name, record.cause)
    elif kind == "PodGroup":
        group = state.cluster.pod_groups.find(state.cluster, name)
        if group is not None and group.observed.facts is not None:
            reported = group.decided.reported_status
            reported = structs.replace(reported, conditions_reported_at=record.cause)
            group.decided = structs.replace(group.decided, reported_status=reported)
    elif kind == "Queue" and (queue := state.cluster.queues.get(name.strip("/"))) is not None:
        queue.rejects_status_updates = isinstance(event, StatusUpdateFailed)


def _config_map_written(state: StateFacts, what: str, position: int) -> None:
    """Record that a ConfigMap was written; one of a feature that the policy no longer names is passed over."""
    for one in state.cluster.features.of(WrittenConfigMap):
        if one.what == what:
            one.written(state.cluster, position)


def _bind_failed(state: StateFacts, event: BindFailed | PodAnnotationFailed) -> None:
    cluster = state.cluster
    commitment = state.commitments.pop(event.uid, None)
    state.assignments.remove(event.node, event.uid)
    old = cluster.pods.get(event.uid)
    if commitment is None or old is None or old.facts.node:
        return
    failed = FailedBinding(commitment.decision, commitment.node, old.devices, old.decided.network)
    failures = (*old.decided.failed_bindings, failed)[-FAILED_BINDINGS_MAX:]
    cluster.bind_backoffs.begin(old.group_key, state.now_ns)
    cancel_placement(cluster, old, failures)


def cancel_placement(
    cluster: "Cluster", old: Pod, failures: tuple[FailedBinding, ...] | None = None
) -> None:
    """Let a pod wait again that does not get the node that was decided for it. What its object says now counts again."""
    pod = _without_node(cluster, old, old.decided.failed_bindings if failures is None else failures)
    if pod.facts is old.facts:
        cluster.replace_pod(old, pod)
        return
    cluster.config_errors.replace(f"Pod/{old.key}", FIXED, ())
    cluster.pod_groups.adopt(cluster, pod)
    if pod.group_key == old.group_key:
        cluster.replace_pod(old, pod)
    else:
        cluster.replace_pod(old, None)
        cluster.replace_pod(None, pod)


def _without_node(cluster: "Cluster", old: Pod, failures: tuple[FailedBinding, ...]) -> Pod:
    """Return the row of the pod without the node that was decided for it, with what its object says now."""
    observed, was = old.observed, old.decided
    if (stated := observed.stated) is not None:
        key = class_key_of(stated.key)
        pod_class = cluster.inter_pod_affinity.classes.parsed(key, stated.pod_class)
        group_key = cluster.group_key_of(stated.facts)
        observed = ObservedPod(stated.facts, pod_class, observed.digest, group_key)
    decided = DecidedPod(
        evicted=was.evicted,
        is_stuck=was.is_stuck,
        reported_at=was.reported_at,
        failed_bindings=failures,
    )
    return pod_of(observed, decided)


def mark_outcomes_unknown(state: StateFacts) -> None:
    """Mark all commitments as unknown after a restart: the requests may have been carried out."""
    for commitments in (state.commitments, state.evictions):
        for uid in list(commitments):
            _unknown(commitments, uid)


def _unknown(commitments: dict[str, Commitment], uid: str) -> None:
    one = commitments.get(uid)
    if one is not None:
        commitments[uid] = structs.replace(one, is_unknown=True)
