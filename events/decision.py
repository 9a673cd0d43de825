"""What the scheduler decided, and why. `Decided` in a name marks what is still to be carried out."""

from msgspec import Struct, field

from events.record import Fact


class Placement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One pod of a decision, with its node and what it is charged there."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str
    cards: dict[str, int] = {}
    """Card name to whole cards charged."""
    devices: tuple[str, ...] = ()
    """Chip names, where the product names chips."""


class EnqueueDecided(Fact, frozen=True, kw_only=True):
    """A pod group is admitted to its queue: its minimum is reserved there."""

    kind = "enqueue_decided.v1"

    pod_group: str
    queue: str


class GangBindDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group get their nodes, all of them or none."""

    kind = "gang_bind_decided.v1"

    pod_group: str
    queue: str
    placements: tuple[Placement, ...]


class PipelineDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group are promised room that is still being freed."""

    kind = "pipeline_decided.v1"

    pod_group: str
    queue: str
    placements: tuple[Placement, ...]


class PipelineWithdrawn(Fact, frozen=True, kw_only=True):
    """A promise of room is taken back."""

    kind = "pipeline_withdrawn.v1"

    pod_group: str
    queue: str
    code: str


class Eviction(Struct, frozen=True, forbid_unknown_fields=True):
    """One pod of a decision to evict."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str


class EvictionDecided(Fact, frozen=True, kw_only=True):
    """Pods of one group must leave their nodes. Their room is free only when they are gone."""

    kind = "eviction_decided.v1"

    pod_group: str
    queue: str
    evictions: tuple[Eviction, ...]
    action: str
    """The action that decided: `preempt`, `reclaim` ..."""
    in_favour_of: str = ""
    """The pod group that is to have the room, where there is one."""
    code: str = ""
    message: str = ""


class PodGroupUnschedulable(Fact, frozen=True, kw_only=True):
    """A pod group, or the rest of it, cannot be placed now. It stands until an event that the hints name."""

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
    requeue_on_quota: tuple[str, ...] = ()
    """Resources and cards whose quota in the queue, when it grows or is released, may let pods of the group in."""
    requeue_on_node: bool = False
    """Whether a change of nodes, too, may let pods of the group in."""
    never_fits: bool = False
    """Whether the nodes could not hold the minimum of the gang even if they were empty, or too many of them have been
    closed for long. Nothing is reserved for the group."""
    fits_only_closed_nodes: bool = False
    """Whether the nodes that are open to the pods (by cordons and taints) could not hold the minimum of the gang even
    if they were empty."""


class ActionFailed(Fact, frozen=True, kw_only=True):
    """An action of the policy raised an exception outside of the evaluation of a pod group: a bug of muster."""

    kind = "action_failed.v1"

    action: str
    message: str
    """The type of the exception, and the function that raised it."""
    is_abandoned: bool
    """Whether the action ended there, so that all pod groups are looked at again later; else it went on, with
    queues served in turn instead of in their order."""


class ConfigInvalid(Fact, frozen=True, kw_only=True):
    """A field of an object cannot be used; the message says what follows."""

    kind = "config_invalid.v1"

    subject: str
    """`Kind/namespace/name`, as in the record."""
    code: str
    message: str


class FreedNode(Struct, frozen=True, kw_only=True):
    """A node that a search had found to be freed for pods of the group, one after the other."""

    node: str
    pods: int


class SearchCursor(Struct, frozen=True, kw_only=True):
    """How far a search has gone over the nodes, in the order of their names, for pods alike."""

    pod: str
    """One of these pods, `namespace/name`."""
    node: str
    """The last node that was looked at in vain; empty where the search begins at the first."""
    placed: int
    """How many pods of the group had a node then."""


class SearchDeferred(Fact, frozen=True, kw_only=True):
    """The search for pods to evict in favour of a group was cut short: it goes on in the next cycle, which is due at once.

    Until all nodes were looked at the action neither evicts for the group nor refuses it.
    """

    kind = "search_deferred.v1"

    pod_group: str
    queue: str
    action: str
    wanted: str
    """Digest of what the group asks for: when that changes the search begins from the start."""
    nodes: int
    """How many nodes were looked at in vain by this cycle."""
    is_within: bool = False
    """Whether pods of the group itself are looked for."""
    is_outdated: bool = False
    """Whether something has changed since nodes were looked at: they are looked at once more in the end."""
    freed: tuple[FreedNode, ...] = ()
    """What was found for pods of the group so far, in the order in which it was."""
    cursors: tuple[SearchCursor, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Why nodes were not freed for the first pod without one, and how many."""
    barred: tuple[str, ...] = ()
    """What the quota of the queue kept its pods from."""


class DeferredAction(Struct, frozen=True, kw_only=True):
    """An action that a cycle cut short."""

    action: str
    queue: str
    pod_group: str
    """The pod group, and its queue, that would have been next."""
    lines: int
    """How many lines of pod groups were not looked at."""
    looked: tuple[str, ...]
    """The pod groups that led the lines which were."""


class WorkDeferred(Fact, frozen=True, kw_only=True):
    """A cycle used up its budget of work and ended early: what it did not get to comes first in the next one.

    The last record of such a cycle. The next one is due at once.
    """

    kind = "work_deferred.v1"

    work: int
    """Units of work that the cycle took."""
    budget: int
    """Units that it was meant to take at most."""
    actions: tuple[DeferredAction, ...]
