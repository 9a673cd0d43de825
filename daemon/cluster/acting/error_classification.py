"""What an error says about an effect: refused for good, to be asked again, or perhaps done all the same.

Judged by status, reason and causes (K12.1). The codes of refusals are the ones that outcomes bear.
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
from events.messages import Refused

REFUSALS: Final = {
    "NotFound": "There is no such object any more.",
    "Conflict": "The object is another one or has changed: bound elsewhere, being deleted, gated, created again.",
    "Forbidden": "muster's role does not allow the request, or an admission rule forbids it.",
    "NamespaceTerminating": "The namespace is being deleted.",
    "Invalid": "The server finds the request malformed: a bug, or a rule of the site.",
    "DisruptionBudget": "A PodDisruptionBudget does not allow the eviction now.",
    "TooManyBudgets": "More than one PodDisruptionBudget covers the pod: none can allow it.",
    "EvictionBudget": "muster's own limit of evictions a minute is reached.",
}
"""Every code of a refusal by this shore, and what it means."""

OVERLOADED: Final = 503


def refusal_of(error: ClusterError) -> Refused | None:
    """The refusal that an error is; None where asking again may help."""
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
    return Refused(code=code, message=error.message or str(error))


def is_gone(error: ClusterError) -> bool:
    """Whether the server says that there is no such object: a 404 without its Status is another's word."""
    return isinstance(error, NotFoundError) and error.reason == "NotFound"


def may_be_done(error: ClusterError) -> bool:
    """Whether the request may have had its effect although it failed."""
    return isinstance(error, UnansweredError | ServerError)


def is_overload(error: ClusterError) -> bool:
    """Whether the server says that it has too much to do."""
    if isinstance(error, ServerError):
        return error.status == OVERLOADED
    return isinstance(error, ThrottledError)


def _is_another_object(error: ApiError) -> bool:
    """422 for a patch whose uid is not the object's: it was made anew (K13.1)."""
    return any(cause.field == "metadata.uid" for cause in error.causes)
