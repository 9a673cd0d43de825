"""What the scheduler decided, and why. `Decided` in a name marks what is still to be carried out."""

from msgspec import Struct, field

from events.record import Fact


class Placement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One pod of a decision, with its node and the cards it is charged there."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str
    cards: dict[str, int] = {}
    """Card name to whole cards charged."""
    devices: tuple[str, ...] = ()
    """Names of chips, if the product has chips of its own."""


class EnqueueDecided(Fact, frozen=True, kw_only=True):
    """A pod group is admitted to its queue: its `minMember` pods are reserved there."""

    kind = "enqueue_decided.v1"

    pod_group: str
    queue: str


class GangBindDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group are bound to nodes, all of them or none."""

    kind = "gang_bind_decided.v1"

    pod_group: str
    queue: str
    placements: tuple[Placement, ...]


class PipelineDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group are nominated to nodes that are still being freed (Volcano: pipelined)."""

    kind = "pipeline_decided.v1"

    pod_group: str
    queue: str
    placements: tuple[Placement, ...]


class PipelineWithdrawn(Fact, frozen=True, kw_only=True):
    """The nomination of a pod group is withdrawn."""

    kind = "pipeline_withdrawn.v1"

    pod_group: str
    queue: str
    code: str


class Eviction(Struct, frozen=True, forbid_unknown_fields=True):
    """One pod that a decision evicts."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str


class EvictionDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group are evicted. Their resources are free only when the pods are deleted."""

    kind = "eviction_decided.v1"

    pod_group: str
    queue: str
    evictions: tuple[Eviction, ...]
    action: str
    """The action that decided, such as `preempt` or `reclaim`."""
    in_favour_of: str = ""
    """The pod group for which they are evicted, if any."""
    code: str = ""
    message: str = ""


class PodGroupUnschedulable(Fact, frozen=True, kw_only=True):
    """A pod group, or the rest of it, cannot be placed now. It stands until the group changes or an event of
    `requeue_on` happens."""

    kind = "pod_group_unschedulable.v1"

    pod_group: str
    queue: str
    action: str
    """The action that found it: `enqueue`, `allocate` or `backfill`. One record of each may stand."""
    code: str
    message: str
    limit: str = ""
    """What limits it: a resource or a card name."""
    pod: str = ""
    """The pod at which the reason was found, `namespace/name`."""
    requeue_on: tuple[str, ...] = ()
    """The events that could change the answer (`events/requeue.py`)."""
    never_fits: bool = False
    """Whether the nodes could not hold the minimum of the gang even if they were empty, or too many of them have been
    closed for long. Nothing is reserved for the group."""
    fits_only_closed_nodes: bool = False
    """Whether the nodes that are open to the pods (by cordons and taints) could not hold the minimum of the gang even
    if they were empty."""


class ActionFailed(Fact, frozen=True, kw_only=True):
    """An action of the policy raised an exception outside the evaluation of a pod group: a bug of muster."""

    kind = "action_failed.v1"

    action: str
    message: str
    """The type of the exception, and the function that raised it."""
    is_abandoned: bool
    """Whether the action ended there and all pod groups are evaluated again later; else it went on, with queues served
    in turn instead of in their order."""


class ConfigInvalid(Fact, frozen=True, kw_only=True):
    """A field of an object cannot be used; the message says what follows."""

    kind = "config_invalid.v1"

    subject: str
    """`Kind/namespace/name`, as in the record."""
    code: str
    message: str


class FreedNode(Struct, frozen=True, kw_only=True):
    """A node that a search had found for pods of the group, with how many it can be freed for."""

    node: str
    pods: int


class SearchCursor(Struct, frozen=True, kw_only=True):
    """How far a search has gone over the nodes, in the order of their names, for one equivalence class of pods."""

    pod: str
    """One of these pods, `namespace/name`."""
    node: str
    """The last node that was examined without success; empty if the search begins at the first."""
    placed: int
    """How many pods of the group had a node at that time."""


class SearchDeferred(Fact, frozen=True, kw_only=True):
    """The search for pods to evict for a group was cut short: it goes on in the next cycle, which is due at once.

    Until all nodes are examined, the action neither evicts for the group nor finds it unschedulable.
    """

    kind = "search_deferred.v2"

    pod_group: str
    queue: str
    action: str
    wanted: str
    """Digest of the request of the group: when it changes, the search begins from the start."""
    nodes: int
    """How many nodes this cycle examined without success."""
    is_within: bool = False
    """Whether the search is for pods of the group itself."""
    is_outdated: bool = False
    """Whether something has changed since nodes were examined: they are examined once more at the end."""
    freed: tuple[FreedNode, ...] = ()
    """Nodes found for pods of the group so far, in the order in which they were found."""
    cursors: tuple[SearchCursor, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Reason to the number of nodes that could not be freed for the first pod without a node."""
    requeue_on: tuple[str, ...] = ()
    """The events that could change what was found so far (`events/requeue.py`)."""


class DeferredAction(Struct, frozen=True, kw_only=True):
    """An action that a cycle cut short."""

    action: str
    queue: str
    pod_group: str
    """The pod group that would have been next; `queue` is its queue."""
    lines: int
    """How many equivalence groups of pod groups were not examined."""
    looked: tuple[str, ...]
    """The first pod group of each equivalence group that was examined."""


class WorkDeferred(Fact, frozen=True, kw_only=True):
    """A cycle used up its work budget and ended early: the next one, which is due at once, begins with the rest.

    The last record of such a cycle.
    """

    kind = "work_deferred.v1"

    work: int
    """Units of work that the cycle took."""
    budget: int
    """The work budget in units."""
    actions: tuple[DeferredAction, ...]
