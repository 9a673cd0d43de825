"""What the API server answered, as an outcome."""

from typing import TypedDict

from msgspec import structs

from events.limits import storable
from events.messages import (
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
    Reply,
    Unknown,
)
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
from events.union import Outcome
from projections.apply_outcome import COUNTS


def outcome_of(answer: Answer) -> tuple[Outcome, str]:
    """The outcome of a request, and the object that it is about."""
    request = answer.request
    answer = structs.replace(answer, reply=_storable(answer.reply))
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
    asked, effort = _asked(request), _effort(answer)
    match answer.reply:
        case Done():
            return PodBound(**asked, **effort)
        case Refused(code=code, message=message):
            return BindFailed(**asked, code=code, message=message, **effort)
        case Unknown(message=message):
            return BindOutcomeUnknown(**asked, message=message, **effort)


def _evicted(answer: Answer, request: EvictRequest) -> Outcome:
    asked, effort = _asked(request), _effort(answer)
    match answer.reply:
        case Done():
            return PodEvicted(**asked, **effort)
        case Refused(code=code, message=message):
            return EvictionFailed(**asked, code=code, message=message, **effort)
        case Unknown(message=message):
            return EvictionOutcomeUnknown(**asked, message=message, **effort)


def _phase(answer: Answer, request: PhaseRequest) -> Outcome:
    key, phase = f"{request.namespace}/{request.name}", request.phase
    code, message = _failure(answer)
    effort = _effort(answer)
    if not code:
        return PodGroupUpdated(pod_group=key, phase=phase, **effort)
    return PodGroupUpdateFailed(pod_group=key, phase=phase, code=code, message=message, **effort)


def _told(answer: Answer, uid: str, what: str) -> Outcome:
    code, message = _failure(answer)
    effort = _effort(answer)
    if not code:
        return StatusTold(uid=uid, what=what, **effort)
    return StatusNotTold(uid=uid, what=what, code=code, message=message, **effort)


def _storable(reply: Reply) -> Reply:
    """A reply whose texts, which come from the API server and its webhooks, can stand in any log."""
    match reply:
        case Done():
            return reply
        case Refused(code=code, message=message):
            return Refused(code=storable(code), message=storable(message))
        case Unknown(message=message):
            return Unknown(message=storable(message))


class _Asked(TypedDict):
    pod: str
    uid: str
    node: str


class _Effort(TypedDict):
    attempts: int
    latency_ns: int


def _asked(request: BindRequest | EvictRequest) -> _Asked:
    pod = f"{request.namespace}/{request.name}"
    return {"pod": pod, "uid": request.uid, "node": request.node}


def _effort(answer: Answer) -> _Effort:
    return {"attempts": answer.attempts, "latency_ns": answer.latency_ns}


def _failure(answer: Answer) -> tuple[str, str]:
    """Code and message of what was not done; empty where it was."""
    match answer.reply:
        case Done():
            return "", ""
        case Refused(code=code, message=message):
            return code, message
        case Unknown(message=message):
            return "Unknown", message
