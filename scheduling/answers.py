"""What the API server answered, as an outcome."""

from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    StatusNotTold,
    StatusTold,
)
from events.sighting import (
    Answer,
    BindRequest,
    ConditionRequest,
    Done,
    EvictRequest,
    GroupConditionRequest,
    GroupCountsRequest,
    PhaseRequest,
    QueueStatusRequest,
    Refused,
    Unknown,
)
from events.union import Outcome
from projections.outcomes import COUNTS


def outcome_of(answer: Answer) -> tuple[Outcome, str]:
    """The outcome of a request, and whom it is about."""
    request = answer.request
    match request:
        case BindRequest():
            return _bound(answer, request), f"Pod/{request.namespace}/{request.name}"
        case EvictRequest():
            return _evicted(answer, request), f"Pod/{request.namespace}/{request.name}"
        case PhaseRequest():
            return _phase(answer, request), f"PodGroup/{request.namespace}/{request.name}"
        case ConditionRequest():
            subject = f"Pod/{request.namespace}/{request.name}"
            return _told(answer, request.uid, "PodScheduled"), subject
        case GroupCountsRequest():
            subject = f"PodGroup/{request.namespace}/{request.name}"
            return _told(answer, request.uid, COUNTS), subject
        case GroupConditionRequest():
            subject = f"PodGroup/{request.namespace}/{request.name}"
            return _told(answer, request.uid, "conditions"), subject
        case QueueStatusRequest():
            return _told(answer, request.uid, "allocated"), f"Queue//{request.name}"


def _bound(answer: Answer, request: BindRequest) -> Outcome:
    pod, uid, node = f"{request.namespace}/{request.name}", request.uid, request.node
    attempts, latency_ns = answer.attempts, answer.latency_ns
    match answer.reply:
        case Done():
            return PodBound(pod=pod, uid=uid, node=node, attempts=attempts, latency_ns=latency_ns)
        case Refused(code=code, message=message):
            return BindFailed(
                pod=pod,
                uid=uid,
                node=node,
                code=code,
                message=message,
                attempts=attempts,
                latency_ns=latency_ns,
            )
        case Unknown(message=message):
            return BindOutcomeUnknown(
                pod=pod,
                uid=uid,
                node=node,
                message=message,
                attempts=attempts,
                latency_ns=latency_ns,
            )


def _evicted(answer: Answer, request: EvictRequest) -> Outcome:
    pod, uid, node = f"{request.namespace}/{request.name}", request.uid, request.node
    attempts, latency_ns = answer.attempts, answer.latency_ns
    match answer.reply:
        case Done():
            return PodEvicted(pod=pod, uid=uid, node=node, attempts=attempts, latency_ns=latency_ns)
        case Refused(code=code, message=message):
            return EvictionFailed(
                pod=pod,
                uid=uid,
                node=node,
                code=code,
                message=message,
                attempts=attempts,
                latency_ns=latency_ns,
            )
        case Unknown(message=message):
            return EvictionOutcomeUnknown(
                pod=pod,
                uid=uid,
                node=node,
                message=message,
                attempts=attempts,
                latency_ns=latency_ns,
            )


def _phase(answer: Answer, request: PhaseRequest) -> Outcome:
    key, phase = f"{request.namespace}/{request.name}", request.phase
    code, message = _failure(answer)
    if not code:
        return PodGroupUpdated(
            pod_group=key, phase=phase, attempts=answer.attempts, latency_ns=answer.latency_ns
        )
    return PodGroupUpdateFailed(
        pod_group=key,
        phase=phase,
        code=code,
        message=message,
        attempts=answer.attempts,
        latency_ns=answer.latency_ns,
    )


def _told(answer: Answer, uid: str, what: str) -> Outcome:
    code, message = _failure(answer)
    if not code:
        return StatusTold(
            uid=uid, what=what, attempts=answer.attempts, latency_ns=answer.latency_ns
        )
    return StatusNotTold(
        uid=uid,
        what=what,
        code=code,
        message=message,
        attempts=answer.attempts,
        latency_ns=answer.latency_ns,
    )


def _failure(answer: Answer) -> tuple[str, str]:
    """Code and message of what was not done; empty where it was."""
    match answer.reply:
        case Done():
            return "", ""
        case Refused(code=code, message=message):
            return code, message
        case Unknown(message=message):
            return "Unknown", message
