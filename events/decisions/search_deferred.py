"""A search for pods to evict that a cycle cut short."""

from msgspec import Struct, field

from events.decision import PodGroupDecision


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


class SearchDeferred(PodGroupDecision, frozen=True, kw_only=True):
    """The search for pods to evict for a group was cut short: it goes on in the next cycle, which is due at once.

    Until all nodes are examined, the action neither evicts for the group nor finds it unschedulable.
    """

    kind = "search_deferred.v2"
    word = "defer"

    action: str
    wanted: str
    """Digest of the request of the group: when it changes, the search begins from the start."""
    nodes: int
    """How many nodes this cycle examined without success."""
    is_within: bool = False
    """Whether the search is for pods of the group itself."""
    takes_protected: bool = False
    """Whether it is the second search, in which protected pods may be victims."""
    is_outdated: bool = False
    """Whether something has changed since nodes were examined: they are examined once more at the end."""
    freed: tuple[FreedNode, ...] = ()
    """Nodes found for pods of the group so far, in the order in which they were found."""
    cursors: tuple[SearchCursor, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Reason to the number of nodes that could not be freed for the first pod without a node."""
    requeue_on: tuple[str, ...] = ()
    """The events that could change what was found so far (`events/requeue.py`)."""

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        return [
            f"search for {self.pod_group} in {self.queue} goes on in the next cycle: {self.action},"
            f" nodes looked at: {self.nodes}"
        ]
