"""Closed lists for labels whose values come from outside, so that no server can make series at will."""

from collections.abc import Mapping
from typing import Final

from daemon.cluster.acting.error_classification import REFUSALS
from daemon.cluster.client.calls import CALLS
from events.watch import WENT_BACK
from features.table import KINDS
from projections.queues import DEFAULT, Queue

OTHER: Final = "other"
CHOICE: Final = "choice"
"""Cards of which it is not decided yet which of several models they are: pods may combine models as they like."""
OTHER_CODE: Final = "Other"
NO_ANSWER: Final = "<error>"
"""As in client-go's metrics."""

QUEUES_MAX: Final = 1000
"""Queues with series of their own."""

_VERBS: Final = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
"""The verb of a role to that of `apiserver_request_total`."""

ApiCall = tuple[str, str, str]
"""The labels `verb`, `resource` and `subresource`."""

_CALLS: Final[dict[str, ApiCall]] = {
    **{f"get /{path}": ("GET", path, "") for path in ("version", "api", "apis")},
    **{call.what: (_VERBS[call.verb], call.resource.qualified, call.subresource) for call in CALLS},
}

_CAUSES: Final = frozenset(
    {"ended", "cut", "stalled", "expired", "failed", "unauthorized", "forbidden", WENT_BACK}
)

_RESOURCES: Final = frozenset(KINDS)

_CODES: Final = frozenset(REFUSALS)


class QueueLabels:
    """Which queues have series of their own. Pods may name queues that do not exist, and as many as they like."""

    def __init__(self, queues_max: int = QUEUES_MAX) -> None:
        self._queues_max = queues_max
        self._own: dict[str, None] = {}

    def update(self, queues: Mapping[str, Queue]) -> list[str]:
        """Adapt to the queues that there are now, and return those that have no series of their own any more."""
        gone = [name for name in self._own if not _is_there(queues, name)]
        for name in gone:
            del self._own[name]
        for name in queues:
            self.add(queues, name)
        return gone

    def add(self, queues: Mapping[str, Queue] | None, name: str) -> None:
        """Give a queue series of its own, if there are not too many and it exists, as far as that is known."""
        if len(self._own) < self._queues_max and (queues is None or _is_there(queues, name)):
            self._own[name] = None

    def of(self, name: str) -> str:
        """Return the label of a queue."""
        return name if name in self._own else OTHER


def _is_there(queues: Mapping[str, Queue], name: str) -> bool:
    """Whether a queue has an object, or is the one of pods that name none."""
    queue = queues.get(name)
    return queue is not None and (queue.facts is not None or name == DEFAULT)


def call_of(what: str) -> ApiCall:
    """The labels of a call: one of the table of calls."""
    return _CALLS.get(what, (OTHER, OTHER, ""))


def status_of(status: int) -> str:
    """The label of an HTTP status; 0 stands for no answer."""
    return str(status) if 100 <= status <= 599 else NO_ANSWER


def cause_of(cause: str) -> str:
    """The label of why a watch ended."""
    return cause if cause in _CAUSES else OTHER


def resource_of(resource: str) -> str:
    """The label of a watched kind."""
    return resource if resource in _RESOURCES else OTHER


def code_of(code: str) -> str:
    """The label of why something failed; empty for no reason."""
    return code if code in _CODES or not code else OTHER_CODE
