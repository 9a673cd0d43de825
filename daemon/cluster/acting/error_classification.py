"""Classify errors of requests: refused for good, to be repeated, or perhaps executed.

The classification uses status, reason and causes (K12.1). Its codes are those of the recorded outcomes.
"""

from typing import Final

from daemon.cluster.client.errors import (
    AlreadyExistsError,
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RecoveringError,
    ServerError,
    ThrottledError,
    UnansweredError,
    UnauthorizedError,
)
from events.errors import ClusterError
from events.messages import Rejected

REFUSALS: Final = {
    "NotFound": "There is no such object any more.",
    "Conflict": "The object is another one or has changed: bound elsewhere, being deleted, gated, created again.",
    "Forbidden": "muster's role does not allow the request, or an admission rule forbids it.",
    "NamespaceTerminating": "The namespace is being deleted.",
    "Invalid": "The server finds the request malformed: a bug, or a rule of the site.",
    "DisruptionBudget": "A PodDisruptionBudget does not allow the eviction now.",
    "TooManyBudgets": "More than one PodDisruptionBudget covers the pod: none can allow it.",
    "EvictionBudget": "muster's own limit of evictions a minute of one workload is reached.",
    "EvictionShare": "The evictions of a minute are used up: the share of the tenant or of its queue, or all of the cluster.",
}
"""Every code of a refusal by the API server, with its meaning."""

OVERLOADED: Final = 503


def refusal_of(error: ClusterError) -> Rejected | None:
    """Return the refusal for an error; None if a repetition may help."""
    match error:
        case NotFoundError() if is_gone(error):
            code = "NotFound"
        case ConflictError() | AlreadyExistsError():
            code = "Conflict"
        case ForbiddenError():
            is_ending = error.has_cause("NamespaceTerminating")
            code = "NamespaceTerminating" if is_ending else "Forbidden"
        case InvalidError() if _is_another_object(error):
            code = "Conflict"
        case UnauthorizedError() | NotFoundError() | RecoveringError():
            return None
        case ThrottledError() | BudgetError() | ServerError():
            return None
        case ApiError():
            code = "Invalid"
        case _:
            return None
    return Rejected(code=code, message=error.message or str(error))


def is_gone(error: ClusterError) -> bool:
    """Return True if the server says that there is no such object: a 404 without a Status comes from elsewhere."""
    return isinstance(error, NotFoundError) and error.reason == "NotFound"


def may_be_done(error: ClusterError) -> bool:
    """Return True if the request may have been executed although it failed."""
    return isinstance(error, UnansweredError | ServerError)


def is_overload(error: ClusterError) -> bool:
    """Return True if the server is overloaded."""
    if isinstance(error, ServerError):
        return error.status == OVERLOADED
    return isinstance(error, ThrottledError)


def _is_another_object(error: ApiError) -> bool:
    """422 for a patch with another uid than the object's: the object was created again (K13.1)."""
    return any(cause.field == "metadata.uid" for cause in error.causes)
