"""The policy: actions, plugins and their arguments.

It has the form of Volcano's scheduler configuration. An unknown plugin, action or key is named in a warning and
skipped; a malformed value is an error that names its path.
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
"""Actions that evict pods: of the same queue, or of other queues."""
GANG_EVICTING = EVICTING[2:]
"""Evicting actions that evaluate whole gangs."""
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
"""Flags of a plugin that are on by default."""
_FLAGS_OFF = frozenset({"enableHierarchy", "enabledClusterOrder"})
"""Flags of a plugin that are off by default."""
_NO_EFFECT: Final = {
    ("gang", "enableJobReady"): "a gang is always whole",
    ("priority", "enableTaskOrder"): "pods of a group always go by priority",
    ("capacity-card", "enabledAllocatable"): "quotas of cards always hold",
    ("proportion", "enabledOverused"): "a queue never gets more than it deserves",
}
"""Plugins and flags of Volcano that have no effect here, and why."""

BUILT_IN = b"""{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},\
{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"drf"},{"name":"predicates"},\
{"name":"capacity-card"},{"name":"nodeorder"},{"name":"binpack"}]}]}"""
"""Default policy, as JSON."""


@lru_cache(maxsize=64)
def _evicting(actions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the evicting actions; cached, because it is called with every change of a pod."""
    return tuple([one for one in actions if one in EVICTING])


class Plugin(Struct, frozen=True):
    """A plugin of a tier with its flags."""

    name: str
    switched: frozenset[str] = frozenset()
    """Flags that differ from their defaults."""

    def takes_part(self, flag: str) -> bool:
        """Return whether the plugin is enabled for a flag."""
        return (flag in _FLAGS_OFF) == (flag in self.switched)


class Policy(Struct, frozen=True):
    """A parsed policy."""

    actions: tuple[str, ...] = ACTIONS
    action_arguments: ActionArguments = ActionArguments()
    """Arguments of all actions."""
    tiers: tuple[tuple[Plugin, ...], ...] = ()
    quota: str = ""
    """Which of QUOTA_PLUGINS is enabled, or ""."""
    capacity: Capacity = Capacity()
    cards: CardQuota = CardQuota()
    overcommit: Overcommit | None = None
    sla: Sla | None = None
    topology: Topology | None = None
    node_order: NodeOrder | None = None
    binpack: BinPack | None = None
    predicates: Predicates | None = None
    job_order: tuple[str, ...] = ()
    """Plugins that order pod groups, in order."""
    limits_pods: bool = True
    """Whether the quota plugin also limits placement, and not only admission."""
    queue_order: tuple[str, ...] = ()
    """Plugins that order queues, in order: the quota plugin, and hierarchical drf."""

    @property
    def evicting(self) -> tuple[str, ...]:
        """Return the evicting actions of the policy."""
        return _evicting(self.actions)

    @property
    def preempts(self) -> bool:
        """Return whether pod groups may be evicted for others of their queue."""
        return any(one in PREEMPTING for one in self.actions)

    @property
    def reclaims(self) -> bool:
        """Return whether pod groups may be evicted for other queues."""
        return any(one in RECLAIMING for one in self.actions)

    @property
    def charges_resources(self) -> bool:
        """Return whether queues are charged every resource by its name instead of cards."""
        return self.quota in ("capacity", "proportion")

    @property
    def has_fair_tree(self) -> bool:
        """Return whether queues are compared by the dominant shares of a tree."""
        return self.has("drf", "enableHierarchy") and self.has("drf")

    @property
    def has_queue_tree(self) -> bool:
        """Return whether the limits of a queue also apply to the queues below it."""
        return self.quota == "capacity" and self.has("capacity", "enableHierarchy")

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Return all plugins, tier by tier."""
        return tuple(plugin for tier in self.tiers for plugin in tier)

    def has(self, name: str, flag: str = "") -> bool:
        """Return whether a plugin is in the policy and enabled for a flag."""
        return any(one.name == name and one.takes_part(flag) for one in self.plugins)


class PolicyWarning(Struct, frozen=True):
    """A part of a policy that is skipped."""

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
    """Return the policy of a JSON document, and what was skipped. Raise PolicyError."""
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise PolicyError(f"policy: not JSON: {error}") from error
    return _Parser().policy(object_at(document, "policy"))


class _Parser:
    """Parses one document and collects what it skips."""

    def __init__(self) -> None:
        self.warned: list[PolicyWarning] = []

    def policy(self, document: JsonObject) -> tuple[Policy, tuple[PolicyWarning, ...]]:
        for key in document:
            if key not in ("actions", "tiers", "configurations", "metrics"):
                self.warn(key, "muster does not know this key")
        action_arguments = read_configurations(document.get("configurations"), self.warn)
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
            action_arguments=action_arguments,
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
    """Return whether the filters of `predicates` are enabled."""
    plugins = [one for tier in tiers for one in tier]
    return any(one.name == "predicates" and one.takes_part("enablePredicate") for one in plugins)


def _as(value: object, kind: type[_T]) -> _T | None:
    return value if isinstance(value, kind) else None
