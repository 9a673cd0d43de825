"""What the API server answered, as an outcome."""

from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    PodBound,
    PodGroupUpdated,
    PodGroupUpdateFailed,
)
from events.sighting import Answer, BindRequest, Done, PhaseRequest, Refused, Unknown
from events.union import Outcome


def outcome_of(answer: Answer) -> tuple[Outcome, str]:
    """The outcome of a request, and whom it is about."""
    key = f"{answer.request.namespace}/{answer.request.name}"
    match answer.request:
        case BindRequest():
            return _bound(answer, answer.request, key), f"Pod/{key}"
        case PhaseRequest():
            return _told(answer, answer.request, key), f"PodGroup/{key}"


def _bound(answer: Answer, request: BindRequest, key: str) -> Outcome:
    match answer.reply:
        case Done():
            return PodBound(
                pod=key,
                uid=request.uid,
                node=request.node,
                attempts=answer.attempts,
                latency_ns=answer.latency_ns,
            )
        case Refused(code=code, message=message):
            return BindFailed(
                pod=key,
                uid=request.uid,
                node=request.node,
                code=code,
                message=message,
                attempts=answer.attempts,
                latency_ns=answer.latency_ns,
            )
        case Unknown(message=message):
            return BindOutcomeUnknown(
                pod=key,
                uid=request.uid,
                node=request.node,
                message=message,
                attempts=answer.attempts,
                latency_ns=answer.latency_ns,
            )


def _told(answer: Answer, request: PhaseRequest, key: str) -> Outcome:
    match answer.reply:
        case Done():
            return PodGroupUpdated(
                pod_group=key,
                phase=request.phase,
                attempts=answer.attempts,
                latency_ns=answer.latency_ns,
            )
        case Refused(code=code, message=message):
            return _not_told(answer, request, key, code=code, message=message)
        case Unknown(message=message):
            return _not_told(answer, request, key, code="Unknown", message=message)


def _not_told(
    answer: Answer, request: PhaseRequest, key: str, *, code: str, message: str
) -> PodGroupUpdateFailed:
    return PodGroupUpdateFailed(
        pod_group=key,
        phase=request.phase,
        code=code,
        message=message,
        attempts=answer.attempts,
        latency_ns=answer.latency_ns,
    )
