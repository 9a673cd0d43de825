"""`binpack`: nodes that are used most score highest (Volcano's `binpack`).

    score = weight x (sum over resources of weight x (used + requested) / allocatable) / (sum of the weights)

Only requested resources count. A node on which one of them does not fit scores 0.
"""

import numpy as np
from msgspec import Struct

from projections.pod_class import Amounts, PodClass
from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy_values import JsonObject, Warn, resource_weights, whole_at
from scheduling.node_columns import Column, NodeColumns, scale_of, share
from scheduling.score_formulas import NodeOrder, NodeScorer


class BinPackArguments(Struct, frozen=True):
    """Arguments of `binpack`: its weight, and the weight of each resource."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


class BinPack(NodeOrder):
    """Scores nodes by how full they would be."""

    name = "binpack"
    Arguments = BinPackArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, BinPackArguments)
        self._weights = config.arguments

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct:
        """Return the weights."""
        weights, rest = resource_weights(given, "binpack.", path)
        for key in rest:
            if key != "binpack.weight":
                warn_unknown(cls.name, key, path, warn)
        weight = whole_at(given.get("binpack.weight", 1), f"{path}.binpack.weight")
        return BinPackArguments(weight=weight, resources=weights)

    def scorer(self, pod_class: PodClass) -> NodeScorer | None:
        """Return the scorer of the resources that the pod requests."""
        return _Scorer(self._weights, pod_class.amounts)


class _Scorer:
    def __init__(self, arguments: BinPackArguments, amounts: Amounts) -> None:
        self._weight = arguments.weight
        self._asked = [
            (name, amounts[name], scale_of(name), weight)
            for name, weight in arguments.resources
            if name in amounts
        ]
        """Name, requested amount, scale and weight of each resource that counts."""
        self._divisor = sum(weight for *_, weight in self._asked)

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        if not self._divisor:
            return 0
        packed = 0
        for name, amount, scale, weight in self._asked:
            whole, left = allocatable.get(name, 0), free.get(name, 0)
            if amount > left and whole > 0:
                return 0
            packed += share(whole - left + amount >> scale, whole >> scale) * weight
        return packed * self._weight // self._divisor

    def of_columns(self, columns: NodeColumns) -> Column:
        packed = columns.zeros()
        if not self._divisor:
            return packed
        holds = np.ones(len(packed), dtype=np.bool_)
        for name, amount, _, weight in self._asked:
            amounts = columns.amounts(name)
            if amounts is None:
                continue
            whole, left = amounts
            holds &= ~((left < amount) & (whole > 0))
            packed += columns.shares(name, amount) * weight
        return packed * holds * self._weight // self._divisor
