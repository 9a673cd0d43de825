"""The policy: which actions run, which plugins vote, with which arguments.

It has the shape of Volcano's scheduler configuration. A plugin, action or key that muster does not know
is named in a warning and skipped; a value that is malformed is an error that names its path.
"""

from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from events.errors import PolicyError

JsonObject: TypeAlias = dict[str, object]
_T = TypeVar("_T")

ACTIONS = ("enqueue", "allocate", "backfill")
_ACTIONS_ELSEWHERE = ("preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "reschedule")
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
        "enableHierarchy",
        "enabledClusterOrder",
    }
)

BUILT_IN = b"""{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},\
{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"predicates"},{"name":"capacity-card"},\
{"name":"nodeorder"},{"name":"binpack"}]}]}"""
"""The policy where none is given, as JSON."""


class CardQuota(Struct, frozen=True):
    """Arguments of `capacity-card`."""

    cardUnlimitedCpuMemory: bool = False  # noqa: N815
    """Pods that use cards count no cpu and memory."""
    unnamedCardPolicy: str = "deny"  # noqa: N815
    """What becomes of a pod that asks for cards without `card.name`: `deny`, or `infer`."""
    unsetCpuMemoryIsZero: bool = False  # noqa: N815
    """Whether a queue without a capability for cpu or memory has none, rather than no limit."""
    nodeOrderWeight: float = 1.0  # noqa: N815
    """Weight of the order of preference in `A|B`."""


class NodeOrder(Struct, frozen=True):
    """Arguments of `nodeorder`: the weight of each scorer."""

    leastrequested_weight: int = msgspec.field(default=1, name="leastrequested.weight")
    mostrequested_weight: int = msgspec.field(default=0, name="mostrequested.weight")
    nodeaffinity_weight: int = msgspec.field(default=2, name="nodeaffinity.weight")
    balancedresource_weight: int = msgspec.field(default=1, name="balancedresource.weight")
    tainttoleration_weight: int = msgspec.field(default=3, name="tainttoleration.weight")
    podaffinity_weight: int = msgspec.field(default=2, name="podaffinity.weight")
    imagelocality_weight: int = msgspec.field(default=1, name="imagelocality.weight")
    podtopologyspread_weight: int = msgspec.field(default=2, name="podtopologyspread.weight")


class BinPack(Struct, frozen=True):
    """Arguments of `binpack`: its weight, and the weight of each resource it looks at."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


class Predicates(Struct, frozen=True):
    """Arguments of `predicates`: which filters hold."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    dynamic_resources: bool = msgspec.field(
        default=False, name="predicate.DynamicResourceAllocationEnable"
    )
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")


class Plugin(Struct, frozen=True):
    """A plugin of a tier, with the flags that switch parts of it off."""

    name: str
    off: frozenset[str] = frozenset()

    def takes_part(self, flag: str) -> bool:
        """Whether the plugin takes part in what the flag names."""
        return flag not in self.off


class Policy(Struct, frozen=True):
    """A policy as muster understands it."""

    actions: tuple[str, ...] = ACTIONS
    tiers: tuple[tuple[Plugin, ...], ...] = ()
    quota: str = ""
    """Which of QUOTA_PLUGINS keeps the quotas, or empty."""
    cards: CardQuota = CardQuota()
    node_order: NodeOrder | None = None
    binpack: BinPack | None = None
    predicates: Predicates | None = None
    job_order: tuple[str, ...] = ()
    """Plugins that order pod groups, first first."""
    orders_queues: bool = False
    """Whether queues have their turn by priority and share, rather than by age."""

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All plugins, tier by tier."""
        return tuple(plugin for tier in self.tiers for plugin in tier)

    def has(self, name: str, flag: str = "") -> bool:
        """Whether a plugin is on and takes part in what the flag names."""
        return any(one.name == name and one.takes_part(flag) for one in self.plugins)


class Warned(Struct, frozen=True):
    """Something in a policy that is skipped."""

    path: str
    message: str


_PLUGINS = (
    "priority", "gang", "conformance", "predicates", "capacity", "capacity-card", "nodeorder", "binpack",
)  # fmt: skip


def parse_policy(content: bytes) -> tuple[Policy, tuple[Warned, ...]]:
    """The policy of a JSON document, and what in it was skipped. Raises PolicyError."""
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise PolicyError(f"policy: not JSON: {error}") from error
    return _Parser().policy(_object(document, "policy"))


def _object(value: object, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: expected an object, got {_shown(value)}")
    return value


def _items(value: object, path: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise PolicyError(f"{path}: expected a list, got {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()[:80]


def _typed(value: object, like: object, path: str) -> object:
    """A value of the type of `like`; numbers and booleans may be given as text, as Volcano takes them."""
    if isinstance(like, bool):
        if value in (True, "true", "True"):
            return True
        if value in (False, "false", "False"):
            return False
        raise PolicyError(f"{path}: expected true or false, got {_shown(value)}")
    if isinstance(like, int):
        number = _number(value, path)
        if number != int(number) or number < 0:
            raise PolicyError(f"{path}: expected a whole number of at least 0, got {_shown(value)}")
        return int(number)
    if isinstance(like, float):
        number = _number(value, path)
        if number <= 0:
            raise PolicyError(f"{path}: expected a number above 0, got {_shown(value)}")
        return number
    if not isinstance(value, str):
        raise PolicyError(f"{path}: expected text, got {_shown(value)}")
    return value


def _number(value: object, path: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    else:
        try:
            number = float(str(value)) if isinstance(value, str) else float("nan")
        except ValueError:
            number = float("nan")
    if not abs(number) <= 1_000_000:
        raise PolicyError(f"{path}: expected a number, at most 1000000, got {_shown(value)}")
    return number


class _Parser:
    """Reads one document; collects what it skips."""

    def __init__(self) -> None:
        self.warned: list[Warned] = []

    def policy(self, document: JsonObject) -> tuple[Policy, tuple[Warned, ...]]:
        for key in document:
            if key not in ("actions", "tiers", "configurations", "metrics"):
                self.warn(key, "muster does not know this key")
        self._configurations(document.get("configurations"))
        actions = self._actions(document.get("actions", ", ".join(ACTIONS)))
        tiers: list[tuple[Plugin, ...]] = []
        found: dict[str, object] = {}
        for index, tier in enumerate(_items(document.get("tiers"), "tiers")):
            tiers.append(self._tier(_object(tier, f"tiers[{index}]"), f"tiers[{index}]", found))
        quota = [name for name in QUOTA_PLUGINS if name in found]
        if len(quota) > 1:
            raise PolicyError(
                f"tiers: {' and '.join(quota)} contradict each other: name one of them"
            )
        keeper = quota[0] if quota else ""
        policy = Policy(
            actions=actions,
            tiers=tuple(tiers),
            quota=keeper,
            cards=_as(found.get("capacity-card"), CardQuota) or CardQuota(),
            node_order=_as(found.get("nodeorder"), NodeOrder),
            binpack=_as(found.get("binpack"), BinPack),
            predicates=_as(found.get("predicates"), Predicates),
            orders_queues=any(
                one.name == keeper and one.takes_part("enableQueueOrder")
                for tier in tiers
                for one in tier
            ),
            job_order=tuple(
                one.name
                for tier in tiers
                for one in tier
                if one.name in ("priority", "gang") and one.takes_part("enableJobOrder")
            ),
        )
        return policy, tuple(self.warned)

    def warn(self, path: str, message: str) -> None:
        self.warned.append(Warned(path=path, message=message))

    def _actions(self, value: object) -> tuple[str, ...]:
        names = [name.strip() for name in str(_typed(value, "", "actions")).split(",")]
        chosen: list[str] = []
        for name in filter(None, names):
            if name in ACTIONS:
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
        for index, entry in enumerate(_items(tier.get("plugins"), f"{path}.plugins")):
            at = f"{path}.plugins[{index}]"
            plugin = _object(entry, at)
            name = str(_typed(plugin.get("name"), "", f"{at}.name"))
            if name not in _PLUGINS:
                self.warn(at, f"plugin {name} is not known to this release: skipped")
                continue
            if name in found:
                raise PolicyError(f"{at}: plugin {name} is named twice")
            plugins.append(Plugin(name=name, off=self._flags(plugin, at)))
            arguments = plugin.get("arguments")
            given = {} if arguments is None else _object(arguments, f"{at}.arguments")
            found[name] = self._arguments(name, given, f"{at}.arguments")
        return tuple(plugins)

    def _flags(self, plugin: JsonObject, path: str) -> frozenset[str]:
        off: set[str] = set()
        for key, value in plugin.items():
            if key in ("name", "arguments"):
                continue
            if key not in _FLAGS:
                self.warn(f"{path}.{key}", "muster does not know this key")
            elif not _typed(value, False, f"{path}.{key}"):
                off.add(key)
        return frozenset(off)

    def _arguments(self, name: str, given: JsonObject, path: str) -> object:
        if name == "binpack":
            return self._binpack(given, path)
        kinds: dict[str, type[Struct]] = {
            "capacity-card": CardQuota,
            "nodeorder": NodeOrder,
            "predicates": Predicates,
        }
        kind = kinds.get(name)
        fields = {} if kind is None else {f.encode_name: f for f in msgspec.structs.fields(kind)}
        values: dict[str, object] = {}
        for key, value in given.items():
            if key not in fields:
                self.warn(f"{path}.{key}", f"plugin {name} does not know this argument")
                continue
            values[key] = _typed(value, fields[key].default, f"{path}.{key}")
        if values.get("unnamedCardPolicy", "deny") not in ("deny", "infer"):
            raise PolicyError(f"{path}.unnamedCardPolicy: expected deny or infer")
        return name if kind is None else msgspec.convert(values, kind)

    def _binpack(self, given: JsonObject, path: str) -> BinPack:
        known = ["cpu", "memory"]
        extra = str(_typed(given.get("binpack.resources", ""), "", f"{path}.binpack.resources"))
        known += [name.strip() for name in extra.split(",") if name.strip()]
        keys = {"binpack.weight": "", "binpack.resources": ""}
        keys.update({f"binpack.{name}": name for name in known[:2]})
        keys.update({f"binpack.resources.{name}": name for name in known[2:]})
        weights = dict.fromkeys(known, 1)
        for key, value in given.items():
            if key not in keys:
                self.warn(f"{path}.{key}", "plugin binpack does not know this argument")
            elif keys[key]:
                weights[keys[key]] = _whole(value, f"{path}.{key}")
        weight = _whole(given.get("binpack.weight", 1), f"{path}.binpack.weight")
        return BinPack(weight=weight, resources=tuple(weights.items()))

    def _configurations(self, value: object) -> None:
        for index, entry in enumerate(_items(value, "configurations")):
            path = f"configurations[{index}]"
            one = _object(entry, path)
            arguments = one.get("arguments")
            if arguments:
                for key in _object(arguments, f"{path}.arguments"):
                    self.warn(f"{path}.arguments.{key}", "muster does not know this argument")


def _whole(value: object, path: str) -> int:
    number = _typed(value, 0, path)
    assert isinstance(number, int)
    return number


def _as(value: object, kind: type[_T]) -> _T | None:
    return value if isinstance(value, kind) else None
