"""The policy: actions, plugins and their arguments.

It has the form of Volcano's scheduler configuration. An unknown plugin, action or key is named in a warning and
skipped; a malformed value is an error that names its path.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct, structs

from events.errors import PolicyError
from events.limits import quoted
from projections.policy.action_arguments import RESCHEDULE, ActionArguments, read_configurations
from projections.policy.placement_rules import STRATEGIES, PlacementRule, read_placement
from projections.policy.plugin_config import (
    FLAGS_OFF,
    PluginConfig,
    PolicyPlugin,
)
from projections.policy.policy_table import PolicyTable
from projections.policy.policy_values import (
    JsonObject,
    Warn,
    items_at,
    object_at,
    text_at,
    truth_at,
)
from projections.policy.pools import Pools, read_pools
from projections.policy.queue_rules import NO_RULE, UseRule, read_queue_rules

ACTIONS = ("enqueue", "allocate", "backfill")
PREEMPTING = ("preempt", "gangpreempt")
RECLAIMING = ("reclaim", "gangreclaim")
EVICTING = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
"""Actions that evict pods: of the same queue, or of other queues."""
GANG_EVICTING = EVICTING[2:]
"""Evicting actions that evaluate whole gangs."""
_KEYS = (
    "actions",
    "tiers",
    "configurations",
    "metrics",
    "pools",
    "defaultComputePool",
    "defaultAuxPool",
    "placement",
    "quotas",
    "tenants",
    "queues",
)
_ACTIONS_ELSEWHERE = ("shuffle",)
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
BUILT_IN = b"""{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},\
{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"drf"},{"name":"predicates"},\
{"name":"capacity-card"},{"name":"nodeorder"},{"name":"binpack"}]}]}"""
"""Default policy, as JSON."""
PLAIN = b"""{"actions":"enqueue, allocate, backfill","quotas":"none","tiers":[{"plugins":[{"name":"priority"},\
{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"drf"},{"name":"predicates"},\
{"name":"nodeorder"},{"name":"binpack"}]}]}"""
"""Default policy without quotas, as JSON."""
POOL_TIERS = b"""[{"plugins":[{"name":"priority"},{"name":"gang"},{"name":"conformance"}]},\
{"plugins":[{"name":"predicates"},{"name":"capacity"},{"name":"nodeorder"},{"name":"binpack"}]}]"""
"""Default tiers of a policy with pools of other deciders than `session`: pods need not name the models of their cards."""


_LABEL_KEY: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class TenantRule(Struct, frozen=True):
    """How the policy tells tenants apart."""

    label: str = ""
    """Label of a Namespace whose value is its tenant; empty if each namespace is one."""


class Policy(Struct, frozen=True):
    """A parsed policy."""

    actions: tuple[str, ...] = ACTIONS
    evicting: tuple[str, ...] = ()
    """The evicting ones of its actions."""
    preempts: bool = False
    """Whether pod groups may be evicted for others of their queue."""
    reclaims: bool = False
    """Whether pod groups may be evicted for other queues."""
    action_arguments: ActionArguments = ActionArguments()
    """Arguments of all actions."""
    tiers: tuple[tuple[PluginConfig, ...], ...] = ()
    pools: Pools = Pools()
    """Pools of nodes, in the order in which they are decided."""
    placement: tuple[PlacementRule, ...] = tuple([PlacementRule(one) for one in STRATEGIES])
    """Placement strategies, in the order in which they are tried."""
    tenants: TenantRule = TenantRule()
    """How tenants are told apart."""
    reschedules: bool = False
    """Whether pods are moved after faults: where the policy names the action `reschedule`, or the vendor's plugin for
    Ascend NPUs, which does so without an action."""
    queues: dict[str, UseRule] = {}
    """Name of a queue to who may use it and what its jobs may state, where the policy says something of it."""
    bounds_priorities: bool = False
    """Whether a queue or a pool bounds the priorities of pod groups."""

    def of_queue(self, name: str) -> UseRule:
        """Return who may use a queue by the policy, and what its jobs may state."""
        return self.queues.get(name, NO_RULE) if self.queues else NO_RULE

    @property
    def restricts_pools(self) -> bool:
        """Return whether a pool is not open to all namespaces."""
        return any(not one.use.namespaces.is_open for one in self.pools.all)

    @property
    def plugins(self) -> tuple[PluginConfig, ...]:
        """Return all plugins, tier by tier."""
        return tuple(plugin for tier in self.tiers for plugin in tier)


class PolicyWarning(Struct, frozen=True):
    """A part of a policy that is skipped."""

    path: str
    message: str
    unknown_plugin: str = ""
    """The plugin that is not known, if that is what the warning is about."""


def parse_policy(content: bytes, table: PolicyTable) -> tuple[Policy, tuple[PolicyWarning, ...]]:
    """Return the policy of a JSON document, which names what is in the table, and what was skipped. Raise PolicyError."""
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise PolicyError(f"policy: not JSON: {error}") from error
    return _Parser(table).policy(object_at(document, "policy"))


class _Parser:
    """Parses one document and collects what it skips."""

    def __init__(self, table: PolicyTable) -> None:
        self._table, self._plugins = table, table.plugins
        self.warned: list[PolicyWarning] = []

    def policy(self, document: JsonObject) -> tuple[Policy, tuple[PolicyWarning, ...]]:
        for key in document:
            if key not in _KEYS:
                self.warn(key, "muster does not know this key")
        if document.get("quotas", "none") != "none":
            self.warn("quotas", "only `none` is known: skipped")
        pools = read_pools(document, self.warn)
        if pools.deciders and "tiers" not in document:
            # Selectors, taints and quotas hold in all pools.
            document = {**document, "tiers": msgspec.json.decode(POOL_TIERS)}
        of_plugins = tuple(
            [one.configuration for one in self._plugins.values() if one.configuration]
        )
        configurations = document.get("configurations")
        action_arguments = read_configurations(configurations, self.warn, of_plugins)
        actions = self._actions(document.get("actions", ", ".join(ACTIONS)))
        tiers: list[tuple[PluginConfig, ...]] = []
        for index, tier in enumerate(items_at(document.get("tiers"), "tiers")):
            path = f"tiers[{index}]"
            known = [one for of in tiers for one in of]
            plugins = self._tier(object_at(tier, path), path, known)
            for one in plugins:
                self._plugins[one.name].check(
                    one, [self._plugins[other.name] for other in plugins], path
                )
            tiers.append(plugins)
        tiers = self._configured(tiers, configurations)
        quota = [one.name for tier in tiers for one in tier if self._plugins[one.name].keeps_quotas]
        if len(quota) > 1:
            raise PolicyError(
                f"tiers: {' and '.join(sorted(quota))} contradict each other: name one of them"
            )
        queues = read_queue_rules(document, self.warn)
        bounds = [one.bounds for one in (*queues.values(), *(pool.use for pool in pools.all))]
        policy = Policy(
            actions=actions,
            evicting=tuple([one for one in actions if one in EVICTING]),
            preempts=any(one in PREEMPTING for one in actions),
            reclaims=any(one in RECLAIMING for one in actions),
            action_arguments=action_arguments,
            tiers=tuple(tiers),
            pools=pools,
            placement=read_placement(document.get("placement"), self.warn, self._table.strategies),
            tenants=_read_tenants(document, self.warn),
            reschedules=RESCHEDULE in actions
            or any(self._plugins[one.name].reschedules for tier in tiers for one in tier),
            queues=queues,
            bounds_priorities=any(
                one.priority_max is not None or one.priority_from_pods for one in bounds
            ),
        )
        return policy, tuple(self.warned)

    def warn(self, path: str, message: str) -> None:
        self.warned.append(PolicyWarning(path=path, message=message))

    def _actions(self, value: object) -> tuple[str, ...]:
        names = [name.strip() for name in text_at(value, "actions").split(",")]
        chosen: list[str] = []
        for name in filter(None, names):
            if name in (*ACTIONS, *EVICTING, RESCHEDULE):
                chosen.append(name)
            elif name in _ACTIONS_ELSEWHERE:
                self.warn("actions", f"action {name} is not built in this release: skipped")
            else:
                raise PolicyError(f"actions: {name!r} is not an action")
        if not chosen:
            raise PolicyError("actions: no action is named")
        return tuple(chosen)

    def _tier(
        self, tier: JsonObject, path: str, known: list[PluginConfig]
    ) -> tuple[PluginConfig, ...]:
        for key in tier:
            if key != "plugins":
                self.warn(f"{path}.{key}", "muster does not know this key")
        plugins: list[PluginConfig] = []
        for index, entry in enumerate(items_at(tier.get("plugins"), f"{path}.plugins")):
            at = f"{path}.plugins[{index}]"
            given = object_at(entry, at)
            name = text_at(given.get("name"), f"{at}.name")
            plugin = self._table.plugin_named(name)
            if plugin is None:
                text = f"plugin {name} is not known to this release: skipped"
                self.warned.append(PolicyWarning(at, text, unknown_plugin=name))
                continue
            if any(one.name == plugin.name for one in (*known, *plugins)):
                raise PolicyError(f"{at}: plugin {name} is named twice")
            stated = given.get("arguments")
            arguments = plugin.read_arguments(
                {} if stated is None else object_at(stated, f"{at}.arguments"),
                f"{at}.arguments",
                self.warn,
            )
            plugins.append(PluginConfig(plugin.name, self._flags(plugin, given, at), arguments))
        return tuple(plugins)

    def _configured(
        self, tiers: list[tuple[PluginConfig, ...]], configurations: object
    ) -> list[tuple[PluginConfig, ...]]:
        """Return the plugins with the arguments that `configurations` has for them."""
        owners = {one.configuration: one for one in self._plugins.values() if one.configuration}
        for index, entry in enumerate(items_at(configurations, "configurations")):
            path = f"configurations[{index}]"
            one = object_at(entry, path)
            owner = owners.get(str(one.get("name")))
            if owner is None:
                continue
            if not any(config.name == owner.name for tier in tiers for config in tier):
                self.warn(path, f"plugin {owner.name}, which reads it, is not in the policy")
                continue
            stated = one.get("arguments")
            at = f"{path}.arguments"
            given = {} if stated is None else object_at(stated, at)
            tiers = [
                tuple(
                    structs.replace(
                        config,
                        arguments=owner.read_configuration(config.arguments, given, at, self.warn),
                    )
                    if config.name == owner.name
                    else config
                    for config in tier
                )
                for tier in tiers
            ]
        return tiers

    def _flags(self, plugin: type[PolicyPlugin], given: JsonObject, path: str) -> frozenset[str]:
        switched: set[str] = set()
        for key, value in given.items():
            if key in ("name", "arguments"):
                continue
            if key not in _FLAGS | FLAGS_OFF:
                self.warn(f"{path}.{key}", "muster does not know this key")
            elif truth_at(value, f"{path}.{key}") != (key in _FLAGS):
                switched.add(key)
                if reason := plugin.NO_EFFECT.get(key):
                    self.warn(f"{path}.{key}", f"changes nothing: {reason}")
        return frozenset(switched)


def _read_tenants(document: JsonObject, warn: Warn) -> TenantRule:
    """Return the rule in the key `tenants` of a policy. Raise PolicyError with the path of a malformed value."""
    if document.get("tenants") is None:
        return TenantRule()
    given = object_at(document["tenants"], "tenants")
    for key in given:
        if key != "label":
            warn(f"tenants.{key}", "muster does not know this key")
    label = text_at(given.get("label", ""), "tenants.label")
    if label and not _LABEL_KEY.fullmatch(label):
        raise PolicyError(f"tenants.label: {quoted(label)} is not the key of a label")
    return TenantRule(label)
