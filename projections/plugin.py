"""Plugins of the policy in force. A plugin is one class in one file; its base classes are the hooks that it takes part in.

A plugin holds its arguments and flags and nothing else: it answers from the cluster that it is given. What it would
have to count at every question it keeps in an index of its own (`Plugin.indexes`). The hooks of this module are called while records are applied, those of `scheduling/` while a cycle decides.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from projections.charging import CardCharging, Charge, Charging
from projections.policy.plugin_config import PluginConfig, PolicyPlugin
from projections.policy.policy_table import PolicyTable

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.index import Index
    from projections.pod_class import Amounts, PodClass
    from projections.pod_groups import PodGroup
    from projections.queues import Queue


HookT = TypeVar("HookT", bound="Plugin")


class Plugin(PolicyPlugin):
    """A plugin of the policy in force."""

    def indexes(self) -> Iterable[Index]:
        """Return the indexes that the plugin brings, empty.

        A cluster keeps one of each class as long as its policy names the plugin, and computes it from facts when it
        gets the policy and when it is restored from a snapshot. `cluster.indexes.of` returns it.
        """
        return ()


class JobOrder(Plugin):
    """Hook: the order of pod groups in a queue."""

    FLAG = "enableJobOrder"
    depends_on_totals: ClassVar[bool] = False
    """Whether the value depends on the allocatable resources of the cluster, as of the start of the cycle."""
    follows_shape: ClassVar[bool] = False
    """Whether the value depends on nothing but what pod groups of one shape have in common (`projections/group_shapes.py`), and,
    for groups that hold resources, on what is allocatable in the cluster."""
    by_priority: ClassVar[bool] = False
    """Whether groups are ordered by their priority, so that of several possible victims the least urgent are evicted,
    and a reservation yields to a higher priority."""

    @abstractmethod
    def job_order(self, cluster: Cluster, group: PodGroup) -> object:
        """Return the value by which a group is sorted; smaller is earlier. Values must be comparable."""


class JobStarving(Plugin):
    """Hook: whether pods may be evicted for a pod group. In the first tier with such plugins all must agree."""

    FLAG = "enableJobStarving"
    counts_min_member: ClassVar[bool] = False
    """Whether only groups below minMember starve."""

    @abstractmethod
    def is_starving(self, group: PodGroup, have: int) -> bool:
        """Return whether a group that has so many pods has too few."""


class GroupState(Plugin):
    """Hook: keeps sums or deadlines of pod groups in State."""

    def group_changed(self, cluster: Cluster, group: PodGroup) -> None:
        """Update what follows from a group that changed."""

    def group_deleted(self, cluster: Cluster, key: str) -> None:
        """Remove all that is kept of a deleted group."""

    def deadlines(self, cluster: Cluster) -> Iterable[int]:
        """Return the times at which a cycle is due."""
        return ()

    def expire(self, cluster: Cluster, at_ns: int) -> None:
        """Apply the deadlines that are over."""

    def equivalence_key(
        self, cluster: Cluster, group: PodGroup, *, enqueues: bool
    ) -> tuple[object, ...]:
        """Return what distinguishes groups that this plugin does not treat alike."""
        return ()


class Quota(Plugin):
    """Hook: what queues are charged, what they deserve, and their limits. A policy names at most one such plugin.

    This class is the rule without one: queues are charged, and nothing is limited.
    """

    keeps_quotas = True
    name = ""
    NONE: ClassVar[PluginConfig] = PluginConfig(name="")
    charging: Charging = CardCharging()
    """By which names queues are charged."""
    keeps_tree: bool = False
    """Whether the limits of a queue also apply to the queues below it."""
    counts_reclaimable: ClassVar[bool] = False
    """Whether a pod group is admitted beyond what is free if evictions in other queues could release the rest."""
    checks_guarantees: ClassVar[bool] = False
    """Whether a guarantee counts only as far as the cluster and the queues above can keep it."""
    lists_shortages: ClassVar[bool] = True
    """Whether the refusal of an admission names all resources that are short, or only the first one."""
    event_reporter: ClassVar[str] = ""
    """The component that Kubernetes Events about quotas name: that which users of Volcano know; empty for muster."""

    @property
    def is_named(self) -> bool:
        """Return whether the policy names a quota plugin."""
        return bool(self.name)

    def deserved(self, cluster: Cluster, queue: Queue) -> Amounts:
        """Return what a queue deserves, by charge name; nothing of names that are missing."""
        return {}

    def deserved_version(self, cluster: Cluster) -> object:
        """Return an object that is another one after what queues deserve was computed again at the start of a cycle."""
        return None

    def limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the limit of a queue for what is used of a resource or card; None without a limit.

        It follows from objects, from the policy and from what `cycle_opened` computed, not from what queues are charged:
        an action asks once (`scheduling/quota/queue_room.py`). The same holds for `admission_limit`.
        """
        return None

    def admission_limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the limit of a queue for use and reservations together; None without a limit."""
        return self.limit(cluster, queue, name)

    def unstated_limit(self, name: str) -> int | None:
        """Return the limit of a resource or card that the object of a queue does not state; None without a limit."""
        return None

    def stated_limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the limit of a charge name in the object of a queue, for a choice of cards the sum of theirs; None without a limit.
        It is shown, not decided by."""
        facts = queue.facts
        if facts is None:
            return None
        if name in facts.capability:
            return facts.capability[name]
        quota = self.charging.card_quota(facts.quota)
        if name in quota:
            return quota[name]
        cards = self.charging.cards_of(cluster.cards, name)
        if cards != (name,):
            return sum(quota.get(one, 0) for one in cards)
        return self.unstated_limit(name)

    def limits_card(self, name: str) -> bool:
        """Return whether a charge name is that of cards with quotas: each is compared alone, and a pod is charged one of which
        there is enough."""
        return False

    def without_cards(self, charge: Charge) -> Charge:
        """Return a charge without the cards that have quotas."""
        return charge

    def card_quotas(self, queue: Queue) -> Mapping[str, int] | None:
        """Return the quotas of cards of a queue; None if cards have none."""
        return None

    def named_cards(self, cluster: Cluster, pod_class: PodClass) -> tuple[str, ...] | None:
        """Return the known cards that a pod names, whatever quota its queue has; None if it may use any."""
        return None

    def has_named_card(self, there: Iterable[str], named: tuple[str, ...]) -> bool:
        """Return whether a node with these cards may serve a pod that names cards."""
        return True

    def nodes_changed(self, cluster: Cluster) -> None:
        """Wake the queues whose limits may have changed: nodes were added, changed or removed."""

    def queue_changed(self, cluster: Cluster, queue: Queue) -> None:
        """Determine errors of a queue that depend on other objects: its object was added, changed or removed."""

    def cycle_opened(self, cluster: Cluster) -> None:
        """Compute at the start of a cycle what is not updated with every record."""


NO_QUOTA: Final = Quota(Quota.NONE)


class PluginSet:
    """The plugins of one policy, tier by tier."""

    def __init__(self, tiers: Iterable[Iterable[Plugin]] = ()) -> None:
        self.tiers = tuple([tuple(tier) for tier in tiers])
        self.all = tuple([one for tier in self.tiers for one in tier])
        self.quota = next((one for one in self.all if isinstance(one, Quota)), NO_QUOTA)
        self.pod_labels = tuple(
            dict.fromkeys(label for one in self.all for label in one.pod_labels)
        )
        """Labels of pods that any plugin reads."""
        self.ignores_cluster_reports = any(one.ignores_cluster_reports for one in self.all)
        self._by_hook: dict[type[Plugin], tuple[Plugin, ...]] = {}
        self._tiers_by_hook: dict[type[Plugin], tuple[tuple[Plugin, ...], ...]] = {}
        self.job_order, self.group_state = self.of(JobOrder), self.of(GroupState)
        """The plugins that are called with every change of a pod group."""
        self.orders_by_priority = any(one.by_priority for one in self.job_order)
        """Whether the policy orders pod groups by priority, so that of several victims the least urgent is evicted."""
        self.orders_by_shape = all(one.follows_shape for one in self.job_order)
        """Whether pod groups of one shape differ in their order by age and name alone."""
        self.orders_later_by_priority = any(one.by_priority for one in self.job_order[1:])
        """Whether priority decides on the order of groups that another plugin puts beside each other."""

    def of(self, hook: type[HookT]) -> tuple[HookT, ...]:
        """Return the plugins that take part in a hook, in their order in the policy."""
        found = self._by_hook.get(hook)
        if found is None:
            found = self._by_hook[hook] = tuple([one for one in self.all if _takes_part(one, hook)])
        return found  # type: ignore[return-value]  # each is an instance of the hook

    def tiers_of(self, hook: type[HookT]) -> tuple[tuple[HookT, ...], ...]:
        """Return the same tier by tier, without tiers that have none."""
        found = self._tiers_by_hook.get(hook)
        if found is None:
            tiers = [tuple([one for one in tier if _takes_part(one, hook)]) for tier in self.tiers]
            found = self._tiers_by_hook[hook] = tuple([tier for tier in tiers if tier])
        return found  # type: ignore[return-value]  # each is an instance of the hook

    @property
    def versions(self) -> dict[str, str]:
        """Return name to version of the plugins that are not part of muster."""
        return {one.name: one.version for one in self.all if one.version}


def _takes_part(plugin: Plugin, hook: type[Plugin]) -> bool:
    return isinstance(plugin, hook) and (not hook.FLAG or plugin.takes_part(hook.FLAG))


def build_plugins(tiers: Iterable[Iterable[PluginConfig]], table: PolicyTable) -> PluginSet:
    """Return the plugins of a policy."""
    return PluginSet([_built(one, table) for one in tier] for tier in tiers)


def _built(config: PluginConfig, table: PolicyTable) -> Plugin:
    plugin = table.plugins[config.name](config)
    assert isinstance(plugin, Plugin), config.name
    return plugin
