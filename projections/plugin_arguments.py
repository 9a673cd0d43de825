"""Arguments of the plugins, with their defaults."""

from collections.abc import Callable
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from events.errors import PolicyError
from projections.policy_values import (
    JsonObject,
    fraction_at,
    span_at,
    text_at,
    truth_at,
    typed,
    whole_at,
)

Warn: TypeAlias = Callable[[str, str], None]
"""Called with a path in the policy and what is skipped there."""


class Capacity(Struct, frozen=True):
    """Arguments of `capacity`."""

    ancestor_reclaim_level: int = msgspec.field(default=0, name="ancestorReclaimLevel")
    """Number of levels of ancestor queues that are compared for reclaiming; 0 compares only the two queues."""


class CardQuota(Struct, frozen=True):
    """Arguments of `capacity-card`."""

    cardUnlimitedCpuMemory: bool = False  # noqa: N815
    """Whether pods that use cards are not charged cpu and memory."""
    unnamedCardPolicy: str = "deny"  # noqa: N815
    """Treatment of a pod that requests cards without `card.name`: `deny` or `infer`."""
    unsetCpuMemoryIsZero: bool = False  # noqa: N815
    """Whether a missing capability for cpu or memory means zero instead of no limit."""
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
    balanced_resources: str = msgspec.field(default="", name="balancedresource.resources")
    """Resources balanced in addition to cpu and memory, for pods that request them: names separated by commas."""
    balanced_scoring: Literal["change", "level"] = msgspec.field(
        default="change", name="balancedresource.scoring"
    )
    """Whether the balance is scored as the `change` by the pod or as the resulting `level`."""


class BinPack(Struct, frozen=True):
    """Arguments of `binpack`: its weight, and the weight of each resource."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


class Topology(Struct, frozen=True):
    """Arguments of `network-topology-aware`."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """Name and weight of resources that count for the utilization of a domain (`hypernode.binpack...`)."""
    is_for_normal_pods: bool = True
    """Whether pods without a network topology constraint are scored, too."""
    tier_decay: Fraction = Fraction(4, 5)
    """Factor of the weight of a domain with each higher tier, for such pods."""


class Predicates(Struct, frozen=True):
    """Arguments of `predicates`: which filters are enabled."""

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


class Overcommit(Struct, frozen=True):
    """Arguments of `overcommit`."""

    factor: Fraction = Fraction(6, 5)
    """Factor of allocatable resources that can be promised to admitted groups (`overcommit-factor`)."""
    factors: tuple[tuple[str, Fraction], ...] = ()
    """The same for single resources (`overcommit-factor.NAME`)."""

    def of(self, name: str) -> Fraction:
        """Return the factor of a resource."""
        for one, factor in self.factors:
            if one == name:
                return factor
        return self.factor


class Sla(Struct, frozen=True):
    """Arguments of `sla`."""

    waiting_ns: int | None = None
    """Waiting time of groups that do not state one (`sla-waiting-time`); None without a limit."""


def read_arguments(name: str, given: JsonObject, path: str, warn: Warn) -> Struct | None:
    """Return the arguments of a plugin; None if it has none. Call `warn` for unknown arguments."""
    if name in _READERS:
        return _READERS[name](given, path, warn)
    kind = _KINDS.get(name)
    fields = {} if kind is None else {f.encode_name: f for f in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for key, value in given.items():
        if key in fields:
            values[key] = typed(value, fields[key].default, f"{path}.{key}")
        else:
            warn(f"{path}.{key}", f"plugin {name} does not know this argument")
    if values.get("unnamedCardPolicy", "deny") not in ("deny", "infer"):
        raise PolicyError(f"{path}.unnamedCardPolicy: expected deny or infer")
    return None if kind is None else msgspec.convert(values, kind)


def _binpack(given: JsonObject, path: str, warn: Warn) -> Struct:
    weights, rest = _weights(given, "binpack.", path)
    _skip("binpack", rest, ("binpack.weight",), path, warn)
    weight = whole_at(given.get("binpack.weight", 1), f"{path}.binpack.weight")
    return BinPack(weight=weight, resources=weights)


def _topology(given: JsonObject, path: str, warn: Warn) -> Struct:
    weights, rest = _weights(given, "hypernode.binpack.", path)
    normal = "hypernode.binpack.normal-pod"
    known = ("weight", f"{normal}.enable", f"{normal}.fading")
    _skip("network-topology-aware", rest, known, path, warn)
    return Topology(
        weight=whole_at(given.get("weight", 1), f"{path}.weight"),
        resources=weights,
        is_for_normal_pods=truth_at(given.get(known[1], True), f"{path}.{known[1]}"),
        tier_decay=fraction_at(given.get(known[2], "0.8"), f"{path}.{known[2]}"),
    )


def _weights(
    given: JsonObject, prefix: str, path: str
) -> tuple[tuple[tuple[str, int], ...], list[str]]:
    """Return name and weight of the resources, and the arguments that are not about weights."""
    listed = f"{prefix}resources"
    known = ["cpu", "memory"]
    extra = text_at(given.get(listed, ""), f"{path}.{listed}")
    known += [name.strip() for name in extra.split(",") if name.strip()]
    keys = {f"{prefix}{name}": name for name in known[:2]}
    keys.update({f"{listed}.{name}": name for name in known[2:]})
    weights = dict.fromkeys(known, 1)
    rest: list[str] = []
    for key, value in given.items():
        if key in keys:
            weights[keys[key]] = whole_at(value, f"{path}.{key}")
        elif key != listed:
            rest.append(key)
    return tuple(weights.items()), rest


def _overcommit(given: JsonObject, path: str, warn: Warn) -> Struct:
    key = "overcommit-factor"
    single = [name for name in given if name.startswith(f"{key}.")]
    _skip("overcommit", list(given), (key, *single), path, warn)
    found: dict[str, Fraction] = {}
    for name in (key, *single):
        factor = fraction_at(given.get(name, "1.2"), f"{path}.{name}")
        if factor < 1:
            warn(f"{path}.{name}", "a factor below 1 counts as 1.2")
            factor = Overcommit().factor
        found[name] = factor
    factors = tuple((name.removeprefix(f"{key}."), found[name]) for name in single)
    return Overcommit(factor=found[key], factors=factors)


def _sla(given: JsonObject, path: str, warn: Warn) -> Struct:
    key = "sla-waiting-time"
    _skip("sla", list(given), (key,), path, warn)
    if key not in given:
        return Sla()
    return Sla(waiting_ns=span_at(given[key], f"{path}.{key}"))


def _skip(name: str, given: list[str], known: tuple[str, ...], path: str, warn: Warn) -> None:
    for key in given:
        if key not in known:
            warn(f"{path}.{key}", f"plugin {name} does not know this argument")


_KINDS: Final[dict[str, type[Struct]]] = {
    "capacity": Capacity,
    "capacity-card": CardQuota,
    "nodeorder": NodeOrder,
    "predicates": Predicates,
}
_READERS: Final[dict[str, Callable[[JsonObject, str, Warn], Struct]]] = {
    "binpack": _binpack,
    "network-topology-aware": _topology,
    "overcommit": _overcommit,
    "sla": _sla,
}
