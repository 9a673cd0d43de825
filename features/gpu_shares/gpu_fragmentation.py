"""`gpu-fragmentation`: a pod goes where the GPUs that are shared are fragmented least (fragmentation gradient descent).

The measure, with its source, is in `features/gpu_shares/fragmentation.py`. Where a pod would change the
fragmentation of a node by d thousandths of a GPU (the mean over the target workload), the node scores 500 - d / 20 points,
times the weight. With `stranding.weight` that many times the GPUs for which cpu is missing are added to d.

Within a node the pod gets the GPUs that the device family picks, by best fit.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, cast

import numpy as np
from msgspec import Struct

from events.errors import PolicyError
from features.gpu_shares.fragmentation import (
    WEIGHT_MAX,
    NodeState,
    TargetType,
    TargetWorkload,
)
from features.gpu_shares.free_gpus import FreeGpus, place
from features.gpu_shares.share_request import (
    COUNT_MAX,
    FAMILY,
    WHOLE,
    Requests,
    request_of,
)
from projections.nodes import NodeTable
from projections.pod_class import PodClass, amount_of
from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy_values import (
    JsonObject,
    Warn,
    items_at,
    object_at,
    text_at,
    whole_at,
)
from projections.quantity import QuantityError
from scheduling.device_points import NONE, DeviceOrder, DeviceScorer, DeviceStates
from scheduling.node_columns import Column

TYPES_MAX: Final = 1024
"""Maximum number of pod types of a target workload."""

WEIGHTS_MAX: Final = 100
"""Maximum weight."""

STATES_MAX: Final = 1 << 16
"""Number of states of nodes of which the fragmentation is kept."""

_BASE: Final = 500_000
_PER_THOUSANDTH: Final = 50


class GpuFragmentationArguments(Struct, frozen=True):
    """Arguments of `gpu-fragmentation`."""

    weight: int = 1
    stranding_weight: int = 0
    """Weight of GPUs for which cpu is missing; 0 is the published formula."""
    workload: tuple[TargetType, ...] = ()
    """The pods against which fragmentation is measured; without any the plugin scores nothing."""


class GpuFragmentation(DeviceOrder):
    """Scores nodes by how much fragmentation a pod adds."""

    name = "gpu-fragmentation"
    family = FAMILY
    Arguments = GpuFragmentationArguments
    _FIELDS: ClassVar[tuple[str, ...]] = ("cpu", "memory", "gpus", "milli", "pods")

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, GpuFragmentationArguments)
        self._arguments = config.arguments
        self._measure = Measure(TargetWorkload(config.arguments.workload), config.arguments)

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct:
        """Return the weights and the target workload."""
        weights = {"weight": 1, "stranding.weight": 0}
        workload: tuple[TargetType, ...] = ()
        for key, value in given.items():
            if key in weights:
                weights[key] = whole_at(value, f"{path}.{key}")
                if weights[key] > WEIGHTS_MAX:
                    raise PolicyError(f"{path}.{key}: {weights[key]} is more than {WEIGHTS_MAX}")
            elif key == "workload":
                workload = cls._workload(items_at(value, f"{path}.{key}"), f"{path}.{key}", warn)
            else:
                warn_unknown(cls.name, key, path, warn)
        return GpuFragmentationArguments(weights["weight"], weights["stranding.weight"], workload)

    @classmethod
    def _workload(cls, items: list[object], path: str, warn: Warn) -> tuple[TargetType, ...]:
        if len(items) > TYPES_MAX:
            raise PolicyError(f"{path}: {len(items)} pod types are more than {TYPES_MAX}")
        found = [cls._type(one, f"{path}[{index}]", warn) for index, one in enumerate(items)]
        if (pods := sum(one.pods for one in found)) > WEIGHT_MAX:
            raise PolicyError(f"{path}: {pods} pods are more than {WEIGHT_MAX}")
        return tuple(sorted(found))

    @classmethod
    def _type(cls, item: object, path: str, warn: Warn) -> TargetType:
        given = object_at(item, path)
        for key in given:
            if key not in cls._FIELDS:
                warn_unknown(cls.name, key, path, warn)
        amounts = {}
        for name in ("cpu", "memory"):
            text = text_at(given.get(name, "0"), f"{path}.{name}")
            try:
                amounts[name] = amount_of(name, text)
            except QuantityError as error:
                raise PolicyError(f"{path}.{name}: {error}") from error
            if amounts[name] < 0:
                raise PolicyError(f"{path}.{name}: {text} is negative")
        gpus = whole_at(given.get("gpus", 0), f"{path}.gpus")
        milli = whole_at(given.get("milli", WHOLE if gpus else 0), f"{path}.milli")
        pods = whole_at(given.get("pods", 1), f"{path}.pods")
        if gpus > COUNT_MAX or milli > WHOLE or pods > WEIGHT_MAX:
            raise PolicyError(
                f"{path}: {gpus} GPUs with {milli} thousandths, {pods} pods: too many"
            )
        return TargetType(amounts["cpu"], amounts["memory"], gpus, milli, pods)

    @property
    def replaces_points(self) -> bool:
        """Return whether there is a target workload."""
        return bool(self._arguments.workload and self._arguments.weight)

    def device_scorer(self, pod_class: PodClass) -> DeviceScorer | None:
        """Return the scorer of pods with and without GPUs; None without a target workload."""
        requests = request_of(pod_class)
        if not self.replaces_points or isinstance(requests, str):
            return None
        return _Scorer(self._measure, self._arguments.weight, pod_class, requests)


class Measure:
    """Fragmentation by state of a node, computed once for each state."""

    def __init__(self, workload: TargetWorkload, arguments: GpuFragmentationArguments) -> None:
        self.total = workload.total
        self._workload = workload
        self._stranding = arguments.stranding_weight
        self._known: dict[NodeState, int] = {}

    def of(self, states: Sequence[NodeState]) -> list[int]:
        """Return the fragmentation of each state, times the number of pods of the workload."""
        if len(self._known) > STATES_MAX:
            self._known = {}
        known, workload = self._known, self._workload
        missing = list(dict.fromkeys(one for one in states if one not in known))
        if missing:
            stranding = self._stranding
            for one, amount in zip(missing, workload.fragmentation(missing), strict=True):
                known[one] = amount + (stranding * workload.stranded(one) if stranding else 0)
        return [known[one] for one in states]


class _Scorer:
    """The score of nodes for pods of one class."""

    def __init__(
        self, measure: Measure, weight: int, pod_class: PodClass, requests: Requests
    ) -> None:
        self._measure, self._weight, self._requests = measure, weight, requests
        amounts = pod_class.amounts
        self._cpu, self._memory = amounts.get("cpu", 0), amounts.get("memory", 0)
        self._after: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """State of devices to what is free before and after, in thousandths."""
        self._version = -1

    def of_slots(self, table: NodeTable, states: DeviceStates, slots: Sequence[int]) -> Column:
        """Score the nodes by how much fragmentation the pod adds to them."""
        numbers = states.now()
        if self._version != states.version:
            self._version, self._after = states.version, {}
        before: list[NodeState] = []
        after: list[NodeState] = []
        for slot in slots:
            number = int(numbers[slot])
            was, will = self._thousandths(states, number) if number != NONE else ((), ())
            free = table.order[slot].free
            cpu, memory = free.get("cpu", 0), free.get("memory", 0)
            before.append(NodeState(cpu, memory, was))
            after.append(NodeState(cpu - self._cpu, memory - self._memory, will))
        found = self._measure.of([*before, *after])
        total, weight = self._measure.total, self._weight
        scores = [
            max(0, _BASE - _PER_THOUSANDTH * (new - old) // total) * weight
            for old, new in zip(found[: len(slots)], found[len(slots) :], strict=True)
        ]
        return np.array(scores, dtype=np.int64)

    def _thousandths(
        self, states: DeviceStates, number: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        known = self._after.get(number)
        if known is None:
            was = cast("FreeGpus", states.state(number))
            found = place(self._requests, was)
            will = was if found is None else found.left
            known = (
                tuple(sorted(one.milli for one in was)),
                tuple(sorted(one.milli for one in will)),
            )
            self._after[number] = known
        return known
