"""Make an outcome of each answer of the API server."""

from typing import TypedDict

from msgspec import structs

from events.limits import storable
from events.messages import (
    Accepted,
    AnnotateRequest,
    Answer,
    BindRequest,
    ConfigMapRequest,
    EvictRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    PodMarkRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
)
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
    StatusUpdated,
    StatusUpdateFailed,
)
from events.union import Outcome
from projections.apply_outcome import COUNTS, POD_SCHEDULED


def outcome_of(answer: Answer) -> tuple[Outcome, str]:
    """Return the outcome of a request, and its subject."""
    request = answer.request
    answer = structs.replace(answer, reply=_storable(answer.reply))
    match request:
        case BindRequest():
            return _bound(answer, request), f"Pod/{request.namespace}/{request.name}"
        case AnnotateRequest():
            return _annotated(answer, request), f"Pod/{request.namespace}/{request.name}"
        case EvictRequest():
            return _evicted(answer, request), f"Pod/{request.namespace}/{request.name}"
        case PodMarkRequest():
            subject = f"Pod/{request.namespace}/{request.name}"
            return _status_updated(answer, request.uid, request.what), subject
        case PodGroupPhaseRequest():
            return _phase(answer, request), f"PodGroup/{request.namespace}/{request.name}"
        case PodConditionRequest():
            subject = f"Pod/{request.namespace}/{request.name}"
            return _status_updated(answer, request.uid, POD_SCHEDULED), subject
        case PodGroupCountsRequest():
            subject = f"PodGroup/{request.namespace}/{request.name}"
            return _status_updated(answer, request.uid, COUNTS), subject
        case PodGroupConditionRequest():
            subject = f"PodGroup/{request.namespace}/{request.name}"
            return _status_updated(answer, request.uid, "conditions"), subject
        case QueueStatusRequest():
            return _status_updated(answer, request.uid, "allocated"), f"Queue//{request.name}"
        case ConfigMapRequest():
            subject = f"ConfigMap/{request.namespace}/{request.name}"
            return _status_updated(answer, "", request.what), subject


def _bound(answer: Answer, request: BindRequest) -> Outcome:
    asked, effort = _asked(request), _effort(answer)
    match answer.reply:
        case Accepted():
            return PodBound(**asked, **effort)
        case Rejected(code=code, message=message):
            return BindFailed(**asked, code=code, message=message, **effort)
        case OutcomeUnknown(message=message):
            return BindOutcomeUnknown(**asked, message=message, **effort)


def _annotated(answer: Answer, request: AnnotateRequest) -> Outcome:
    asked, effort = _asked(request), _effort(answer)
    match answer.reply:
        case Accepted():
            return PodAnnotated(**asked, **effort)
        case Rejected(code=code, message=message):
            return PodAnnotationFailed(**asked, code=code, message=message, **effort)
        case OutcomeUnknown(message=message):
            return PodAnnotationUnknown(**asked, message=message, **effort)


def _evicted(answer: Answer, request: EvictRequest) -> Outcome:
    asked, effort = _asked(request), _effort(answer)
    match answer.reply:
        case Accepted():
            return PodEvicted(**asked, **effort)
        case Rejected(code=code, message=message):
            return EvictionFailed(**asked, code=code, message=message, **effort)
        case OutcomeUnknown(message=message):
            return EvictionOutcomeUnknown(**asked, message=message, **effort)


def _phase(answer: Answer, request: PodGroupPhaseRequest) -> Outcome:
    key, phase = f"{request.namespace}/{request.name}", request.phase
    code, message = _failure(answer)
    effort = _effort(answer)
    if not code:
        return PodGroupUpdated(pod_group=key, phase=phase, **effort)
    return PodGroupUpdateFailed(pod_group=key, phase=phase, code=code, message=message, **effort)


def _status_updated(answer: Answer, uid: str, what: str) -> Outcome:
    code, message = _failure(answer)
    effort = _effort(answer)
    if not code:
        return StatusUpdated(uid=uid, what=what, **effort)
    return StatusUpdateFailed(uid=uid, what=what, code=code, message=message, **effort)


def _storable(reply: Reply) -> Reply:
    """Return a reply whose texts, which come from the API server and its webhooks, can be stored in any log."""
    match reply:
        case Accepted():
            return reply
        case Rejected(code=code, message=message):
            return Rejected(code=storable(code), message=storable(message))
        case OutcomeUnknown(message=message):
            return OutcomeUnknown(message=storable(message))


class _Asked(TypedDict):
    pod: str
    uid: str
    node: str


class _Effort(TypedDict):
    attempts: int
    latency_ns: int


def _asked(request: AnnotateRequest | BindRequest | EvictRequest) -> _Asked:
    pod = f"{request.namespace}/{request.name}"
    return {"pod": pod, "uid": request.uid, "node": request.node}


def _effort(answer: Answer) -> _Effort:
    return {"attempts": answer.attempts, "latency_ns": answer.latency_ns}


def _failure(answer: Answer) -> tuple[str, str]:
    """Return code and message of a failure; empty strings for success."""
    match answer.reply:
        case Accepted():
            return "", ""
        case Rejected(code=code, message=message):
            return code, message
        case OutcomeUnknown(message=message):
            return "Unknown", message
