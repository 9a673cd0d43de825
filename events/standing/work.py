"""What stands of work that is not done: what was woken and not looked at, and what a cycle left for the next."""

from events.decisions.search_deferred import FreedNode, SearchCursor
from events.standing.standing import Amounts, Names, Standing


class WakeupsStand(Standing, frozen=True, kw_only=True):
    """What was woken and not looked at yet: since the last cycle, or (with `actions`) by actions that a cycle cut short."""

    kind = "wakeups_stand.v1"

    cycle: int = 0
    """Position of the cycle that was cut short; 0 for what was woken since the last cycle."""
    actions: Names = ()
    """The actions that still have to look at it."""
    groups: Names = ()
    nodes_freed: Amounts = ()
    """Nodes, each with the position of the last record that freed something there."""
    nodes_freed_at: int = 0
    nodes_updated: Names = ()
    quota_released: tuple[tuple[str, Names], ...] = ()
    """Queues, each with the resources that were released."""
    quota_released_at: Amounts = ()
    """Queues, each with the position of the last such record."""
    victims_added: Amounts = ()
    """Queues with pods that can newly be evicted, and the lowest priority of these."""
    changed_pod_kinds: Names = ()
    hyper_nodes_changed_at: int = 0
    everything: bool = False
    faulty_groups: Names = ()
    volumes_changed: Names = ()
    """Subjects of claims, volumes, classes and drivers."""


class LookedAtStands(Standing, frozen=True, kw_only=True):
    """The pod groups that an action looked at since it was cut short, each with the position of the cycle."""

    kind = "looked_at_stands.v1"

    action: str
    looked: Amounts = ()


class SearchStands(Standing, frozen=True, kw_only=True):
    """A search for pods to evict that a cycle cut short and that goes on."""

    kind = "search_stands.v1"

    cycle: int
    pod_group: str
    queue: str
    action: str
    wanted: str
    nodes: int
    is_within: bool = False
    takes_protected: bool = False
    is_outdated: bool = False
    freed: tuple[FreedNode, ...] = ()
    cursors: tuple[SearchCursor, ...] = ()
    counts: Amounts = ()
    requeue_on: Names = ()


class SelectionOutdatedStands(Standing, frozen=True, kw_only=True):
    """Namespaces (an empty name or `*` for all) in which pending pods are classified again at the next cycle."""

    kind = "selection_outdated_stands.v1"

    namespaces: Names
