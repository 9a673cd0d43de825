"""`volcano-npu`: Ascend NPUs are given to pods by name (the vendor's plugin for Volcano).

The plugin switches the Ascend device families on (`features/ascend/ascend_chips.py`, `virtual_npus.py`) and
holds their arguments. Policies name it with a version, such as `volcano-npu_v6.0.0_linux-aarch64`, and have the arguments
in the entry `init-params` of `configurations`. A value that cannot be used there is replaced by the default, with a
warning, as the vendor's plugin does.
"""

from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from events.duration import SECOND
from features.faults.fault_grace import FaultGrace
from projections.cluster import Cluster
from projections.plugin import GroupState, PluginSet
from projections.pod_groups import PodGroup
from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy import Policy
from projections.policy.policy_values import JsonObject, Warn

INIT_PARAMS: Final = "init-params"

GRACE_SECONDS: Final = 900
SUPER_POD_NODES: Final = 48
RESERVED_NODES: Final = 2


class NpuArguments(Struct, frozen=True):
    """Arguments of `volcano-npu`; names with dashes and in camel case are those of `init-params`."""

    strict_8n: bool = False
    """Whether distributed jobs on 910 servers take whole nodes of 8 chips."""
    strict_pairs: bool = False
    """Whether tasks of more than 8 chips on a Box16 get equal positions of both rings, also in distributed jobs."""
    scoring: Literal["table", "linear"] = "table"
    """Score products without groups of chips by their table, or by the number of free chips."""
    weight: int = 100
    """Points for one step of the vendor's score."""
    is_static: bool = msgspec.field(default=False, name="presetVirtualDevice")
    """Whether virtual NPUs are cut beforehand and have resources of their own."""
    maintains_free_list: bool = msgspec.field(default=True, name="self-maintain-available-card")
    """Whether a healthy chip that no pod has is free, whether or not the device plugin lists it as available."""
    super_pod_size: int = msgspec.field(default=SUPER_POD_NODES, name="super-pod-size")
    """Number of nodes of a SuperPoD."""
    reserve_nodes: int = msgspec.field(default=RESERVED_NODES, name="reserve-nodes")
    """Number of nodes of a SuperPoD that are kept free."""
    super_pod_order: Literal["figure", "matrix"] = msgspec.field(
        default="figure", name="superpod-order"
    )
    """In which order SuperPoDs give blocks to a job (`features/super_pods/selection.py`)."""
    grace_seconds: int = msgspec.field(default=GRACE_SECONDS, name="grace-over-time")
    """Seconds until a graceful eviction after a fault becomes a forced one."""
    nslb_version: str = msgspec.field(default="1.0", name="nslb-version")
    """Generation of leaf-switch affinity."""
    shared_switches: int = msgspec.field(default=2, name="shared-tor-num")
    """Maximum number of shared leaf switches of a job."""
    uses_cluster_info: bool = msgspec.field(default=True, name="useClusterInfoManager")
    """Whether the report of a node in an aggregated ConfigMap counts before that of its own; else only its own counts."""
    forces_enqueue: bool = msgspec.field(default=True, name="forceEnqueue")
    """Whether the plugin admits jobs against the votes of others; muster never does."""
    prefers_previous_node: bool = msgspec.field(default=False, name="prefer-previous-node")
    """Whether a pod that is made again goes to the node that it had."""


_NO_EFFECT: Final = {
    "prefer-previous-node": "pods that replace healthy ones return to their nodes in any case",
    "resource-level-config": "topology by levels is not built in this release",
    "forceEnqueue": "a vote to admit a pod group never overrules that of another plugin",
}
"""Keys of `init-params` that muster reads without effect, and why."""


class VolcanoNpu(GroupState, FaultGrace):
    """Switches the Ascend device families on."""

    name = "volcano-npu"
    name_pattern = r"volcano-npu[_-][\w.+-]{1,100}"
    configuration = INIT_PARAMS
    reschedules = True
    Arguments = NpuArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, NpuArguments)
        self.arguments = config.arguments
        self.ignores_cluster_reports = not config.arguments.uses_cluster_info

    @property
    def grace_ns(self) -> int:
        """Return the time of `grace-over-time`."""
        return self.arguments.grace_seconds * SECOND

    def equivalence_key(
        self, cluster: Cluster, group: PodGroup, *, enqueues: bool
    ) -> tuple[object, ...]:
        """Return the minimum of the PodGroup: it decides whether enough chips are free to admit the group."""
        least = (
            group.observed.facts.min_resources
            if enqueues and group.observed.facts is not None
            else None
        )
        return ("npu", group.observed.min_available, tuple(sorted(least.items()))) if least else ()

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct | None:
        """Return the arguments of the plugin's own entry; those of `init-params` are not read there."""
        own = ("strict_8n", "strict_pairs", "scoring", "weight", "superpod-order")
        for key in given:
            if key not in own:
                warn_unknown(cls.name, key, path, warn)
        return super().read_arguments({key: given[key] for key in own if key in given}, path, warn)

    @classmethod
    def read_configuration(
        cls, arguments: Struct | None, given: JsonObject, path: str, warn: Warn
    ) -> Struct | None:
        """Return the arguments with those of `init-params`."""
        assert isinstance(arguments, NpuArguments)
        found = arguments
        for key, value in given.items():
            at = f"{path}.{key}"
            if reason := _NO_EFFECT.get(key):
                warn(at, f"changes nothing here: {reason}")
            if key in _READERS:
                found, problem = _READERS[key](found, value)
                if problem:
                    warn(at, problem)
            elif key not in _NO_EFFECT:
                warn_unknown(cls.name, key, path, warn)
        # What can be reserved depends on the size, whichever of the two comes first.
        size, reserved = found.super_pod_size, found.reserve_nodes
        if reserved >= size:
            fallback = RESERVED_NODES if size > RESERVED_NODES else 0
            found = structs.replace(found, reserve_nodes=fallback)
        return found


def names_npu(policy: Policy) -> bool:
    """Return whether a policy names `volcano-npu`."""
    return any(one.name == VolcanoNpu.name for one in policy.plugins)


def npu_arguments(plugins: PluginSet) -> NpuArguments | None:
    """Return the arguments of `volcano-npu`; None if the policy does not name it."""
    for one in plugins.of(VolcanoNpu):
        return one.arguments
    return None


_Reader = Callable[[NpuArguments, object], tuple[NpuArguments, str]]


def _whole(field: str, least: int, most: int, fallback: int) -> _Reader:
    def read(found: NpuArguments, value: object) -> tuple[NpuArguments, str]:
        number = _number(value)
        if number is None or not least <= number <= most:
            text = f"expected a whole number from {least} to {most}: it counts as {fallback}"
            return structs.replace(found, **{field: fallback}), text
        return structs.replace(found, **{field: number}), ""

    return read


def _truth(field: str, fallback: bool) -> _Reader:
    def read(found: NpuArguments, value: object) -> tuple[NpuArguments, str]:
        text = str(value).lower() if isinstance(value, bool | str) else ""
        if text not in ("true", "false"):
            shown = str(fallback).lower()
            problem = f"expected true or false: it counts as {shown}"
            return structs.replace(found, **{field: fallback}), problem
        return structs.replace(found, **{field: text == "true"}), ""

    return read


def _version(found: NpuArguments, value: object) -> tuple[NpuArguments, str]:
    text = str(value)
    if text not in ("1.0", "2.0"):
        return found, "expected 1.0 or 2.0: it counts as 1.0"
    return structs.replace(found, nslb_version=text), ""


def _number(value: object) -> int | None:
    """Return a whole number of at most nine digits, also one that is given as text; None if it is none."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


_MOST: Final = 999_999_999

_READERS: Final[dict[str, _Reader]] = {
    "grace-over-time": _whole("grace_seconds", 2, 3600, GRACE_SECONDS),
    "presetVirtualDevice": _truth("is_static", False),
    "nslb-version": _version,
    "shared-tor-num": _whole("shared_switches", 1, 2, 2),
    "useClusterInfoManager": _truth("uses_cluster_info", True),
    "self-maintain-available-card": _truth("maintains_free_list", True),
    "super-pod-size": _whole("super_pod_size", 1, _MOST, SUPER_POD_NODES),
    "reserve-nodes": _whole("reserve_nodes", 0, _MOST, RESERVED_NODES),
    "forceEnqueue": _truth("forces_enqueue", False),
    "prefer-previous-node": _truth("prefers_previous_node", False),
}
