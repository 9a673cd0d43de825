"""What a shore hands to the loop, before it is a record: objects as they came, and answers.

These are not stored. `engine/engine.py` turns them into observations and outcomes.
"""

from typing import TypeAlias

from msgspec import Struct


class Seen(Struct, frozen=True):
    """An object was added or modified. `raw` is its JSON, with kind and apiVersion."""

    raw: bytes


class Gone(Struct, frozen=True):
    """An object was deleted. `raw` is its last known JSON."""

    raw: bytes
    synthesized: bool = False


class Listed(Struct, frozen=True):
    """All objects of one Kubernetes kind have been handed over."""

    resource: str
    resource_version: str
    count: int
    served: bool = True


class Listing(Struct, frozen=True):
    """All objects of one kind are about to be handed over once more, up to its `Listed`."""

    resource: str


class Opened(Struct, frozen=True):
    """A watch was opened. `is_resumed`: from a revision up to which the log already had everything,
    and the server still knew it; the kind need not be listed."""

    resource: str
    resource_version: str
    is_resumed: bool = False


class Closed(Struct, frozen=True):
    """A watch ended. With `has_gap` the server no longer knows its revision: a list must follow."""

    resource: str
    resource_version: str
    """The last revision that was handed over."""
    cause: str
    """`ended`, `cut`, `stalled`, `expired`, `failed`, `unauthorized`, `forbidden` or `revision_went_back`."""
    message: str = ""
    count: int = 0
    """Events it showed."""
    duration_ns: int = 0
    has_gap: bool = False


class Progressed(Struct, frozen=True):
    """A bookmark: everything of a kind up to a revision has been handed over."""

    resource: str
    resource_version: str


class Discovered(Struct, frozen=True):
    """What the API server says of itself: its version, and the resources it serves."""

    version: str
    served: tuple[str, ...]
    """`group/version/plural`, sorted."""


class FullListBegan(Struct, frozen=True):
    """A list of all of a kind, as it was at the revision up to which everything has been handed over, follows in
    pages, to be compared with what is known. What is handed over meanwhile is newer than the list."""

    resource: str
    resource_version: str


class FullListPage(Struct, frozen=True):
    """Some of that list."""

    resource: str
    raws: tuple[bytes, ...]


class FullListEnded(Struct, frozen=True):
    """The end of that list; not `is_whole` where the rest of it could not be had."""

    resource: str
    resource_version: str
    is_whole: bool = True


Sighting: TypeAlias = (
    Seen
    | Gone
    | Listing
    | Listed
    | Opened
    | Closed
    | Progressed
    | Discovered
    | FullListBegan
    | FullListPage
    | FullListEnded
)


class Known(Struct, frozen=True):
    """An object as it was seen last."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    """Empty for any."""
    is_gone: bool = False


class Progress(Struct, frozen=True):
    """How far a kind has been seen."""

    resource_version: str
    """Everything up to here."""
    newest: tuple[Known, ...] = ()
    """Objects that changed last, by which to tell whether the server still has this history."""


class BindRequest(Struct, frozen=True):
    """A pod is to be bound to a node. `decision` is the position that says so."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str] = {}
    is_in_doubt: bool = False
    """Whether the same may have been done already: an answer was lost, or the daemon that asked has ended."""


class PhaseRequest(Struct, frozen=True):
    """A PodGroup object is to be told its phase, and how many of its pods run or have ended."""

    decision: int
    namespace: str
    name: str
    uid: str
    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class GroupCountsRequest(Struct, frozen=True):
    """A PodGroup object that says its phase is to be told how many of its pods run or have ended."""

    decision: int
    namespace: str
    name: str
    uid: str
    running: int
    succeeded: int
    failed: int


class EvictRequest(Struct, frozen=True):
    """A pod is to leave its node, if the disruption budgets allow it."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    grace_seconds: int | None = None
    """Seconds; None for the pod's own."""
    is_in_doubt: bool = False
    """Whether the same may have been done already."""
    workload: str = ""
    """UID of the pod's owner: evictions of one owner's pods are counted together. Empty where there is none."""


class ConditionRequest(Struct, frozen=True):
    """A pod is to be told, in its condition PodScheduled, why it is not placed (rule K7.7)."""

    decision: int
    namespace: str
    name: str
    uid: str
    reason: str
    """`Unschedulable`; `SchedulerError`"""
    message: str
    nominated_node: str = ""
    """The node on which room is being made for it (K7.3)."""


class GroupConditionRequest(Struct, frozen=True):
    """A PodGroup object is to be told whether it can be scheduled, as `status.conditions` has it."""

    decision: int
    namespace: str
    name: str
    uid: str
    type: str
    """`Unschedulable` or `Scheduled`"""
    reason: str
    message: str


class QueueStatusRequest(Struct, frozen=True):
    """A Queue object is to be told what is allocated in it."""

    decision: int
    name: str
    uid: str
    allocated: dict[str, str]
    """Resource to quantity, as Kubernetes writes it."""


Request: TypeAlias = (
    BindRequest
    | PhaseRequest
    | EvictRequest
    | ConditionRequest
    | GroupCountsRequest
    | GroupConditionRequest
    | QueueStatusRequest
)


class Done(Struct, frozen=True):
    """The API server did what was asked, or had done so before."""


class Refused(Struct, frozen=True):
    """The API server refused. `code` is a reason in CamelCase."""

    code: str
    message: str


class Unknown(Struct, frozen=True):
    """No answer that tells whether it was done."""

    message: str


Reply: TypeAlias = Done | Refused | Unknown


class Answer(Struct, frozen=True):
    """What came of a request, after `attempts` tries that took `latency_ns` in all."""

    request: Request
    reply: Reply
    attempts: int = 1
    latency_ns: int = 0
