"""What stands of work that is not done: what was woken and not looked at, and what a cycle left for the next."""

from msgspec import Struct

from events.decisions.search_deferred import FreedNode, SearchCursor
from events.standing.standing import Amounts, Names, Standing, Texts


class LabelRequirement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A requirement of a label selector, with an operator of Kubernetes; one of `matchLabels` is `In` with one value."""

    key: str
    operator: str
    values: Names = ()


class AntiAffinityStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A term of the required anti-affinity of a pod, with `matchLabelKeys` resolved."""

    topology_key: str
    selector: tuple[LabelRequirement, ...] | None = None
    """Selects no pods if it is none, and all if it is empty; so does `namespace_selector` namespaces."""
    namespaces: Names = ()
    namespace_selector: tuple[LabelRequirement, ...] | None = None


class ChangedPodsStand(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Pods that were added to nodes or removed from them: what other pods select them by, and which pods they exclude."""

    namespace: str
    labels: Texts = ()
    anti_affinity: tuple[AntiAffinityStands, ...] = ()


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
    changed_pods: tuple[ChangedPodsStand, ...] = ()
    """Pods that pods with terms about other pods wait for."""
    all_pods_changed: bool = False
    """Whether all pods count as changed, instead of `changed_pods`."""
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
