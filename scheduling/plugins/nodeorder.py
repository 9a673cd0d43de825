"""`nodeorder`: the scorers of Kubernetes, each with a weight (Volcano's `nodeorder`).

Least and most requested and balanced allocation are here; affinity and taints (`scheduling/preferred_nodes.py`),
images (`scheduling/pod_topology/images.py`) and terms about other pods (`scheduling/pod_topology/filters.py`) are
normalized over the feasible nodes.
"""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from projections.nodes import NodeTable
from projections.plugin import PluginConfig
from projections.pod_class import Amounts, PodClass
from scheduling.plugin import NodeOrder, NodeScorer, ScoreWeights
from scheduling.score import (
    BALANCED_MAX,
    PLAIN,
    Numbers,
    balance_change,
    balanced,
    fraction,
    least_requested,
    most_requested,
    scaled,
)


class NodeOrderArguments(Struct, frozen=True):
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


class NodeOrderPlugin(NodeOrder):
    """Scores nodes as the Kubernetes scheduler does."""

    name = "nodeorder"
    Arguments = NodeOrderArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, NodeOrderArguments)
        self._weights = config.arguments

    def scorers(self, pod_class: PodClass) -> dict[str, NodeScorer]:
        """Return the scorers by what is requested and free."""
        weights, amounts = self._weights, pod_class.amounts
        found: dict[str, NodeScorer] = {}
        if weights.leastrequested_weight:
            found["least requested"] = _Requested(amounts, weights.leastrequested_weight, 1)
        if weights.mostrequested_weight:
            found["most requested"] = _Requested(amounts, weights.mostrequested_weight, -1)
        if weights.balancedresource_weight:
            found["balanced"] = _Balanced(amounts, weights)
        return found

    def weights(self) -> ScoreWeights:
        """Return the weights of what is normalized over the feasible nodes."""
        weights = self._weights
        return ScoreWeights(
            node_affinity=weights.nodeaffinity_weight,
            taint_toleration=weights.tainttoleration_weight,
            image_locality=weights.imagelocality_weight,
            pod_affinity=weights.podaffinity_weight,
            topology_spread=weights.podtopologyspread_weight,
        )


class _Requested:
    """Scores high if much is left, or (-1) if little is."""

    def __init__(self, amounts: Amounts, weight: int, sign: int) -> None:
        self._amounts, self._weight, self._sign = amounts, weight, sign

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        cpu, memory = (_used(name, allocatable, free, self._amounts) for name in PLAIN)
        return self._points(cpu, memory)

    def of_all(self, table: NodeTable) -> npt.NDArray[np.int64]:
        cpu, memory = (_used_of_all(name, table, self._amounts) for name in PLAIN)
        return self._points(cpu, memory)

    def _points(self, cpu: Numbers, memory: Numbers) -> Numbers:
        points = least_requested(cpu, memory) if self._sign > 0 else most_requested(cpu, memory)
        return points * self._weight


class _Balanced:
    """Scores high if all resources are used alike, or if the pod improves that."""

    def __init__(self, amounts: Amounts, weights: NodeOrderArguments) -> None:
        self._amounts = amounts
        self._weight = weights.balancedresource_weight
        self._scores_change = weights.balanced_scoring != "level"
        names = [name.strip() for name in weights.balanced_resources.split(",")][:BALANCED_MAX]
        self._names = [*PLAIN, *(one for one in names if one in amounts and one not in PLAIN)]

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        after = [_used(name, allocatable, free, self._amounts) for name in self._names]
        points = balanced(*after)
        if self._scores_change:
            before = [_used(name, allocatable, free, {}) for name in self._names]
            points = balance_change(points, balanced(*before))
        return points * self._weight

    def of_all(self, table: NodeTable) -> npt.NDArray[np.int64]:
        after = [_used_of_all(name, table, self._amounts) for name in self._names]
        points = balanced(*after)
        if self._scores_change:
            before = [_used_of_all(name, table, {}) for name in self._names]
            points = balance_change(points, balanced(*before))
        return points * self._weight


def _used(name: str, allocatable: Amounts, free: Amounts, asked: Amounts) -> int:
    """Return the fraction of a resource that is used on a node with the request."""
    whole = allocatable.get(name, 0)
    taken = whole - free.get(name, 0) + asked.get(name, 0)
    return fraction(scaled(name, taken), scaled(name, whole))


def _used_of_all(name: str, table: NodeTable, asked: Amounts) -> npt.NDArray[np.int64]:
    """Return the same of all nodes, slot by slot."""
    if name not in table.free:
        return np.zeros(len(table.order), dtype=np.int64)
    whole = table.allocatable[name]
    taken = whole - table.free[name] + asked.get(name, 0)
    return fraction(scaled(name, taken), scaled(name, whole))
