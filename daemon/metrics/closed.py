"""Closed lists for labels whose values come from outside, so that no server can make series at will."""

from typing import Final

from daemon.cluster.acting.error_classification import REFUSALS
from daemon.cluster.client.calls import CALLS
from events.watch import WENT_BACK
from projections.kind_table import KINDS

OTHER: Final = "other"
OTHER_CODE: Final = "Other"
NO_ANSWER: Final = "none"

_CALLS: Final = frozenset(call.what for call in CALLS) | {"get /version", "get /api", "get /apis"}

_CAUSES: Final = frozenset(
    {"ended", "cut", "stalled", "expired", "failed", "unauthorized", "forbidden", WENT_BACK}
)

_RESOURCES: Final = frozenset(KINDS)

_CODES: Final = frozenset(REFUSALS)


def call_of(what: str) -> str:
    """The label of a call: one of the table of calls."""
    return what if what in _CALLS else OTHER


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
