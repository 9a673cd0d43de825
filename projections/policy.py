"""The policy: which actions run, which plugins vote, with which arguments.

It has the shape of Volcano's scheduler configuration. A plugin, action or key that muster does not know
is named in a warning and skipped; a value that is malformed is an error that names its path.
"""

from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from events.errors import PolicyError
from projections.action_arguments import ActionArguments, read_configurations
from projections.plugin_arguments import (
    BinPack,
    Capacity,
    CardQuota,
    NodeOrder,
    Overcommit,
    Predicates,
    Sla,
    Topology,
    read_arguments,
)
from projections.policy_values import JsonObject, items_at, object_at, text_at, truth_at

_T = TypeVar("_T")

ACTIONS = ("enqueue", "allocate", "backfill")
PREEMPTING = ("preempt", "gangpreempt")
RECLAIMING = ("reclaim", "gangreclaim")
EVICTING = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
"""Actions that evict pods in favour of others: of the same queue, or of other queues."""
GANG_EVICTING = EVICTING[2:]
"""Those of them that look at whole gangs."""
_ACTIONS_ELSEWHERE = ("shuffle", "reschedule")
QUOTA_PLUGINS = ("capacity", "capacity-card", "proportion")
_FLAGS = frozenset(
    {
        "enableJobOrder",
        "enableJobReady",
        "enableJobPipelined",
        "enableJobEnqueued",
        "enableTaskOrder",
        "enablePreemptable",
        "enableReclaimable",
        "enablePreemptive",
        "enableQueueOrder",
        "enablePredicate",
        "enableBestNode",
        "enableNodeOrder",
        "enableTargetJob",
        "enableReservedNodes",
        "enabledVictim",
        "enableJobStarving",
        "enabledOverused",
        "enabledAllocatable",
        "enabledHyperNodeOrder",
        "enabledSubJobReady",
        "enabledSubJobPipelined",
        "enabledSubJobOrder",
        "enabledHyperNodeGradient",
    }
)
"""Switches of a plugin that are on unless they are said to be off."""
_FLAGS_OFF = frozenset({"enableHierarchy", "enabledClusterOrder"})
"""Switches that are off unless they are said to be on."""
_NO_EFFECT: Final = {
    ("gang", "enableJobReady"): "a gang is always whole",
    ("priority", "enableTaskOrder"): "pods of a group always go by priority",
    ("capacity-card", "enabledAllocatable"): "quotas of cards always hold",
    ("proportion", "enabledOverused"): "a queue never gets more than it deserves",
}
"""Plugin and switch that mean something to Volcano and change nothing here, and why."""

BUILT_IN = b"""{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},\
{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"drf"},{"name":"predicates"},\
{"name":"capacity-card"},{"name":"nodeorder"},{"name":"binpack"}]}]}"""
"""The policy where none is given, as JSON."""


@lru_cache(maxsize=64)
def _evicting(actions: tuple[str, ...]) -> tuple[str, ...]:
    """Those that evict: asked for with every change of a pod."""
    return tuple([one for one in actions if one in EVICTING])


class Plugin(Struct, frozen=True):
    """A plugin of a tier, with the flags that switch parts of it off or on."""

    name: str
    switched: frozenset[str] = frozenset()
    """Flags that are not as they would be by default."""

    def takes_part(self, flag: str) -> bool:
        """Whether the plugin takes part in what the flag names."""
        return (flag in _FLAGS_OFF) == (flag in self.switched)


class Policy(Struct, frozen=True):
    """A policy as muster understands it."""

    actions: tuple[str, ...] = ACTIONS
    action_arguments: ActionArguments = ActionArguments()
    """What actions are told."""
    tiers: tuple[tuple[Plugin, ...], ...] = ()
    quota: str = ""
    """Which of QUOTA_PLUGINS keeps the quotas, or empty."""
    capacity: Capacity = Capacity()
    cards: CardQuota = CardQuota()
    overcommit: Overcommit | None = None
    sla: Sla | None = None
    topology: Topology | None = None
    node_order: NodeOrder | None = None
    binpack: BinPack | None = None
    predicates: Predicates | None = None
    job_order: tuple[str, ...] = ()
    """Plugins that order pod groups, first first."""
    limits_pods: bool = True
    """Whether what keeps the quotas limits what is placed, and not only who is let in."""
    queue_order: tuple[str, ...] = ()
    """Plugins that order queues, first first: the one that keeps the quotas, and hierarchical drf."""

    @property
    def evicting(self) -> tuple[str, ...]:
        """The actions that evict, of those that run."""
        return _evicting(self.actions)

    @property
    def preempts(self) -> bool:
        """Whether groups of a queue may have to make way for others of it."""
        return any(one in PREEMPTING for one in self.actions)

    @property
    def reclaims(self) -> bool:
        """Whether queues may have to make way for others."""
        return any(one in RECLAIMING for one in self.actions)

    @property
    def charges_resources(self) -> bool:
        """Whether queues are charged every resource by its name, rather than cards."""
        return self.quota in ("capacity", "proportion")

    @property
    def has_fair_tree(self) -> bool:
        """Whether queues are compared by the dominant shares of a tree."""
        return self.has("drf", "enableHierarchy") and self.has("drf")

    @property
    def has_queue_tree(self) -> bool:
        """Whether a queue's limits bind the queues below it, too."""
        return self.quota == "capacity" and self.has("capacity", "enableHierarchy")

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All plugins, tier by tier."""
        return tuple(plugin for tier in self.tiers for plugin in tier)

    def has(self, name: str, flag: str = "") -> bool:
        """Whether a plugin is on and takes part in what the flag names."""
        return any(one.name == name and one.takes_part(flag) for one in self.plugins)


class PolicyWarning(Struct, frozen=True):
    """Something in a policy that is skipped."""

    path: str
    message: str


_PLUGINS: Final = frozenset(
    {
        "binpack",
        "capacity",
        "capacity-card",
        "conformance",
        "drf",
        "gang",
        "network-topology-aware",
        "nodeorder",
        "overcommit",
        "predicates",
        "priority",
        "proportion",
        "sla",
    }
)


def parse_policy(content: bytes) -> tuple[Policy, tuple[PolicyWarning, ...]]:
    """The policy of a JSON document, and what in it was skipped. Raises PolicyError."""
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise PolicyError(f"policy: not JSON: {error}") from error
    return _Parser().policy(object_at(document, "policy"))


class _Parser:
    """Reads one document; collects what it skips."""

    def __init__(self) -> None:
        self.warned: list[PolicyWarning] = []

    def policy(self, document: JsonObject) -> tuple[Policy, tuple[PolicyWarning, ...]]:
        for key in document:
            if key not in ("actions", "tiers", "configurations", "metrics"):
                self.warn(key, "muster does not know this key")
        told = read_configurations(document.get("configurations"), self.warn)
        actions = self._actions(document.get("actions", ", ".join(ACTIONS)))
        tiers: list[tuple[Plugin, ...]] = []
        found: dict[str, object] = {}
        for index, tier in enumerate(items_at(document.get("tiers"), "tiers")):
            plugins = self._tier(object_at(tier, f"tiers[{index}]"), f"tiers[{index}]", found)
            _check_tier(plugins, f"tiers[{index}]")
            tiers.append(plugins)
        quota = [name for name in QUOTA_PLUGINS if name in found]
        if len(quota) > 1:
            raise PolicyError(
                f"tiers: {' and '.join(quota)} contradict each other: name one of them"
            )
        keeper = quota[0] if quota else ""
        policy = Policy(
            actions=actions,
            action_arguments=told,
            tiers=tuple(tiers),
            quota=keeper,
            capacity=_as(found.get("capacity"), Capacity) or Capacity(),
            overcommit=_as(found.get("overcommit"), Overcommit),
            sla=_as(found.get("sla"), Sla),
            topology=_as(found.get("network-topology-aware"), Topology),
            cards=_as(found.get("capacity-card"), CardQuota) or CardQuota(),
            node_order=_as(found.get("nodeorder"), NodeOrder),
            binpack=_as(found.get("binpack"), BinPack),
            predicates=_as(found.get("predicates"), Predicates) if _filters(tiers) else None,
            limits_pods=all(
                one.name != keeper or one.takes_part("enabledAllocatable")
                for tier in tiers
                for one in tier
            ),
            queue_order=tuple(
                one.name
                for tier in tiers
                for one in tier
                if one.takes_part("enableQueueOrder")
                and (
                    one.name == keeper or (one.name == "drf" and one.takes_part("enableHierarchy"))
                )
            ),
            job_order=tuple(
                one.name
                for tier in tiers
                for one in tier
                if one.name in ("priority", "gang", "drf", "sla")
                and one.takes_part("enableJobOrder")
            ),
        )
        return policy, tuple(self.warned)

    def warn(self, path: str, message: str) -> None:
        self.warned.append(PolicyWarning(path=path, message=message))

    def _actions(self, value: object) -> tuple[str, ...]:
        names = [name.strip() for name in text_at(value, "actions").split(",")]
        chosen: list[str] = []
        for name in filter(None, names):
            if name in (*ACTIONS, *EVICTING):
                chosen.append(name)
            elif name in _ACTIONS_ELSEWHERE:
                self.warn("actions", f"action {name} is not built in this release: skipped")
            else:
                raise PolicyError(f"actions: {name!r} is not an action")
        if not chosen:
            raise PolicyError("actions: no action is named")
        return tuple(chosen)

    def _tier(self, tier: JsonObject, path: str, found: dict[str, object]) -> tuple[Plugin, ...]:
        for key in tier:
            if key != "plugins":
                self.warn(f"{path}.{key}", "muster does not know this key")
        plugins: list[Plugin] = []
        for index, entry in enumerate(items_at(tier.get("plugins"), f"{path}.plugins")):
            at = f"{path}.plugins[{index}]"
            plugin = object_at(entry, at)
            name = text_at(plugin.get("name"), f"{at}.name")
            if name not in _PLUGINS:
                self.warn(at, f"plugin {name} is not known to this release: skipped")
                continue
            if name in found:
                raise PolicyError(f"{at}: plugin {name} is named twice")
            plugins.append(Plugin(name=name, switched=self._flags(name, plugin, at)))
            arguments = plugin.get("arguments")
            given = {} if arguments is None else object_at(arguments, f"{at}.arguments")
            found[name] = read_arguments(name, given, f"{at}.arguments", self.warn)
        return tuple(plugins)

    def _flags(self, name: str, plugin: JsonObject, path: str) -> frozenset[str]:
        switched: set[str] = set()
        for key, value in plugin.items():
            if key in ("name", "arguments"):
                continue
            if key not in _FLAGS | _FLAGS_OFF:
                self.warn(f"{path}.{key}", "muster does not know this key")
            elif truth_at(value, f"{path}.{key}") != (key in _FLAGS):
                switched.add(key)
                if reason := _NO_EFFECT.get((name, key)):
                    self.warn(f"{path}.{key}", f"changes nothing: {reason}")
        return frozenset(switched)


def _check_tier(plugins: tuple[Plugin, ...], path: str) -> None:
    has_tree = any(one.name == "drf" and one.takes_part("enableHierarchy") for one in plugins)
    if has_tree and any(one.name == "proportion" for one in plugins):
        raise PolicyError(f"{path}: hierarchical drf and proportion contradict each other")


def _filters(tiers: list[tuple[Plugin, ...]]) -> bool:
    """Whether `predicates` keeps pods off nodes."""
    plugins = [one for tier in tiers for one in tier]
    return any(one.name == "predicates" and one.takes_part("enablePredicate") for one in plugins)


def _as(value: object, kind: type[_T]) -> _T | None:
    return value if isinstance(value, kind) else None
