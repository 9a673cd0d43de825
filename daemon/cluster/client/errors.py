"""What an API server can answer instead of what was asked, as types (rule K12.1).

Told apart by status and by the reason and causes of the `Status` object, never by its message. Three
questions matter to callers: is it the request that is wrong (`ApiError` and its kinds), was the server
not reached at all (`UnreachableError`: nothing was done), or is it not known what was done
(`UnansweredError`: a request was sent, and no whole answer came back)?
"""

from msgspec import Struct

from events.errors import ClusterError


class Cause(Struct, frozen=True):
    """One entry of `Status.details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class UnreachableError(ClusterError):
    """The server could not be reached, or its certificate not trusted: nothing was asked of it."""


class UntrustedError(UnreachableError):
    """The server's certificate is not trusted, or is for another host."""


class UnansweredError(ClusterError):
    """A request was sent and no whole answer came: what was done is not known."""


class StalledError(UnansweredError):
    """An open answer went silent for longer than it may."""


class ApiError(ClusterError):
    """The server answered with an error. `what` names the request in a few words."""

    def __init__(
        self,
        what: str,
        status: int,
        reason: str = "",
        message: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{what}: {status} {reason}: {message}".rstrip(": "))
        self.what = what
        self.status = status
        self.reason = reason
        """`Status.reason`; empty where the body was no `Status` (K3.10)."""
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds
        """From the header `Retry-After`, else from `details.retryAfterSeconds`."""

    def has_cause(self, reason: str) -> bool:
        """Whether one of the causes has this reason."""
        return any(cause.reason == reason for cause in self.causes)


class RecoveringError(ApiError):
    """401 or 403 for a call that was allowed before, from a server that has just come back.

    An API server that starts refuses everything until it has read its roles; nothing was done.
    """


class UnauthorizedError(ApiError):
    """401: the credentials are not (or no longer) good."""


class ForbiddenError(ApiError):
    """403: not allowed, or the namespace is terminating."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""


class AlreadyExistsError(ApiError):
    """409 with reason AlreadyExists: another object has this name."""


class ConflictError(ApiError):
    """409 otherwise: a precondition did not hold."""


class ExpiredError(ApiError):
    """410: the revision or the continue token is no longer kept."""


class InvalidError(ApiError):
    """422, and other 4xx that say the request itself is wrong."""


class ThrottledError(ApiError):
    """429 without a disruption budget as its cause: too many requests."""


class BudgetError(ApiError):
    """429 with cause DisruptionBudget: a disruption budget does not allow the eviction now."""


class ServerError(ApiError):
    """5xx: the fault is the server's; a write may have been done all the same."""
