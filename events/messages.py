"""Messages between the core and the Kubernetes adapter: watch messages, requests and answers.

They are not stored: `engine/engine.py` makes records of watch messages and answers. What a watch reports about itself
is an event already (`events/watch.py`) and is recorded as it comes.
"""

from typing import TypeAlias

from msgspec import Struct

from events.watch import ServerDiscovered, WatchClosed, WatchOpened, WatchProgressed


class ObjectSeen(Struct, frozen=True, gc=False):
    """An object was added or modified. `raw` is its JSON, with kind and apiVersion."""

    raw: bytes


class DeletionSeen(Struct, frozen=True, gc=False):
    """An object was deleted. `raw` is its last known JSON."""

    raw: bytes
    synthesized: bool = False


class ListCompleted(Struct, frozen=True):
    """The list of one Kubernetes kind is complete: all of its objects have been sent."""

    resource: str
    resource_version: str
    count: int
    served: bool = True


class ListStarted(Struct, frozen=True):
    """A list of one kind begins: all of its objects follow, up to its `ListCompleted`."""

    resource: str


class FullListStarted(Struct, frozen=True):
    """A full list of a kind follows in pages, to be compared with State. Its revision is the one up to which the watch
    has sent everything; events sent while the list is read are newer than the list."""

    resource: str
    resource_version: str


class FullListPage(Struct, frozen=True):
    """One page of that list."""

    resource: str
    raws: tuple[bytes, ...]


class FullListEnded(Struct, frozen=True):
    """The end of that list; not `is_whole` if the rest of it could not be read."""

    resource: str
    resource_version: str
    is_whole: bool = True


WatchMessage: TypeAlias = (
    ObjectSeen
    | DeletionSeen
    | ListStarted
    | ListCompleted
    | WatchOpened
    | WatchClosed
    | WatchProgressed
    | ServerDiscovered
    | FullListStarted
    | FullListPage
    | FullListEnded
)


class ObjectRevision(Struct, frozen=True):
    """An object at the last revision that the log has of it."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    """Empty for any."""
    is_gone: bool = False


class ResumePoint(Struct, frozen=True):
    """Where the watch of a kind can resume."""

    resource_version: str
    """The log holds everything up to this revision."""
    newest: tuple[ObjectRevision, ...] = ()
    """Objects that changed last, used to check that the server still has this history."""


class AnnotateRequest(Struct, frozen=True):
    """Write annotations on a pod that is to be bound: which devices of the node it gets."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str]


class BindRequest(Struct, frozen=True):
    """Bind a pod to a node. `decision` is the position of the decision."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str] = {}
    """Annotations by which a bound pod shows that this request bound it."""
    devices: dict[str, str] = {}
    """Annotations that name its devices. They are on the pod already, unless those of an earlier decision, whose answer
    was lost, arrived after them."""
    is_in_doubt: bool = False
    """Whether the same request may have been carried out already: its answer was lost, or the daemon ended."""


class PodGroupPhaseRequest(Struct, frozen=True):
    """Update `status.phase` and the running, succeeded and failed counts of a PodGroup."""

    decision: int
    namespace: str
    name: str
    uid: str
    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    ends_refusal: bool = False
    """Whether the condition `Unschedulable` ends with the update: the group was admitted and not refused since."""


class PodGroupCountsRequest(Struct, frozen=True):
    """Update the running, succeeded and failed counts of a PodGroup; its phase is already correct."""

    decision: int
    namespace: str
    name: str
    uid: str
    running: int
    succeeded: int
    failed: int


class EvictRequest(Struct, frozen=True):
    """Evict a pod, if the disruption budgets allow it."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    grace_seconds: int | None = None
    """None for the pod's own grace period."""
    is_in_doubt: bool = False
    """Whether the same request may have been carried out already."""
    workload: str = ""
    """UID of the pod's owner: evictions of one owner's pods are counted together. Empty where there is none."""
    is_forced: bool = False
    """Whether the pod is deleted at once, without its grace period and disruption budgets."""
    tenant: str = ""
    """The tenant of the pod group for which the pod is evicted (`projections/tenants.py`); of its own one, if for none."""
    queue: str = ""
    """The queue of that group."""
    has_other_tenants: bool = False
    """Whether other tenants have pod groups."""
    has_other_queues: bool = False
    """Whether its tenant has pod groups in other queues."""
    is_without_budgets: bool = False
    """Whether the pod is deleted with its grace period, and without its disruption budgets."""
    is_limited: bool = True
    """Whether it counts among the evictions of a minute. Restarts of jobs after faults have a limit of their own."""


class PodMarkRequest(Struct, frozen=True):
    """Write annotations and labels on a pod that runs, for a controller outside: which fault it has, or that it is asked
    to release its resources."""

    decision: int
    namespace: str
    name: str
    uid: str
    what: str
    """What is marked: `pod-status` or `release`."""
    annotations: dict[str, str]
    labels: dict[str, str] = {}


class PodConditionRequest(Struct, frozen=True):
    """Update the condition PodScheduled of a pod: why it is not placed."""

    decision: int
    namespace: str
    name: str
    uid: str
    reason: str
    """`Unschedulable` if another node would let the pod run, else `NotReadyForScheduling`."""
    message: str
    nominated_node: str = ""
    """The node on which pods are being evicted for it: `status.nominatedNodeName`."""
    clears_nomination: bool = False
    """Whether its status has a node that it was nominated for, which it no longer is: cluster autoscalers take a nominated
    pod as placed."""


class PodGroupConditionRequest(Struct, frozen=True):
    """Update a condition in `status.conditions` of a PodGroup: whether it can be scheduled."""

    decision: int
    namespace: str
    name: str
    uid: str
    type: str
    """`Unschedulable` or `Scheduled`"""
    reason: str
    message: str


class QueueStatusRequest(Struct, frozen=True):
    """Update `status.allocated` of a Queue."""

    decision: int
    name: str
    uid: str
    allocated: dict[str, str]
    """Resource to Kubernetes quantity."""


class ConfigMapRequest(Struct, frozen=True):
    """Write keys of a ConfigMap that people and other programs read."""

    decision: int
    namespace: str
    name: str
    data: dict[str, str]
    what: str
    """A word or two about what it says, for its outcome."""

    @property
    def uid(self) -> str:
        """Return what tells it from others: it has no UID before it exists."""
        return self.name


Request: TypeAlias = (
    AnnotateRequest
    | BindRequest
    | PodGroupPhaseRequest
    | EvictRequest
    | PodMarkRequest
    | PodConditionRequest
    | PodGroupCountsRequest
    | PodGroupConditionRequest
    | QueueStatusRequest
    | ConfigMapRequest
)


class Accepted(Struct, frozen=True):
    """The API server carried out the request, now or before."""


class Rejected(Struct, frozen=True):
    """The API server rejected the request. `code` is a reason in CamelCase."""

    code: str
    message: str


class OutcomeUnknown(Struct, frozen=True):
    """No answer came, or one that does not show whether the request was carried out."""

    message: str


Reply: TypeAlias = Accepted | Rejected | OutcomeUnknown


class Answer(Struct, frozen=True):
    """The result of a request, after `attempts` tries that took `latency_ns` in all."""

    request: Request
    reply: Reply
    attempts: int = 1
    latency_ns: int = 0
