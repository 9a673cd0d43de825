"""`nodeorder`: the scorers of Kubernetes, each with a weight (Volcano's `nodeorder`).

Least and most requested and balanced allocation are here; affinity and taints (`scheduling/preferred_nodes.py`),
images (`scheduling/pod_topology/images.py`) and terms about other pods (`scheduling/pod_topology/filters.py`) are
normalized over the feasible nodes.
"""

from typing import Literal

import msgspec
from msgspec import Struct, structs

from projections.pod_class import Amounts, PodClass
from projections.policy.plugin_config import PluginConfig
from scheduling.node_columns import Column, NodeColumns, scale_of, share
from scheduling.score_formulas import (
    BALANCED_MAX,
    PLAIN,
    NodeOrder,
    NodeScorer,
    Numbers,
    ScoreWeights,
    balance_change,
    balanced,
    least_requested,
    most_requested,
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

    def scorer(self, pod_class: PodClass) -> NodeScorer | None:
        """Return the scorer by what is requested and free."""
        return _Scorer(self._weights, pod_class.amounts)

    def parts(self, pod_class: PodClass) -> dict[str, NodeScorer]:
        """Return a scorer for each weight: the other weights are zero."""
        given, amounts = self._weights, pod_class.amounts
        silent = structs.replace(
            given, leastrequested_weight=0, mostrequested_weight=0, balancedresource_weight=0
        )
        alone = {
            "least requested": structs.replace(
                silent, leastrequested_weight=given.leastrequested_weight
            ),
            "most requested": structs.replace(
                silent, mostrequested_weight=given.mostrequested_weight
            ),
            "balanced": structs.replace(
                silent, balancedresource_weight=given.balancedresource_weight
            ),
        }
        return {name: _Scorer(weights, amounts) for name, weights in alone.items()}

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


class _Scorer:
    """The sum of least requested, most requested and balanced, each times its weight."""

    def __init__(self, weights: NodeOrderArguments, amounts: Amounts) -> None:
        self._least = weights.leastrequested_weight
        self._most = weights.mostrequested_weight
        self._balance = weights.balancedresource_weight
        self._scores_change = bool(self._balance) and weights.balanced_scoring != "level"
        listed = [name.strip() for name in weights.balanced_resources.split(",")][:BALANCED_MAX]
        others = [name for name in listed if name in amounts and name not in PLAIN]
        names = [*PLAIN, *others] if self._balance else list(PLAIN)
        self._asked = [(name, amounts.get(name, 0), scale_of(name)) for name in names]
        """Name, requested amount and scale of each resource that counts."""
        self._is_silent = not (self._least or self._most or self._balance)

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        if self._is_silent:
            return 0
        after: list[int] = []
        before: list[int] = []
        for name, amount, scale in self._asked:
            whole = allocatable.get(name, 0)
            taken = whole - free.get(name, 0)
            whole >>= scale
            after.append(share(taken + amount >> scale, whole))
            if self._scores_change:
                before.append(share(taken >> scale, whole))
        return self._sum(after, before)

    def of_columns(self, columns: NodeColumns) -> Column:
        if self._is_silent:
            return columns.zeros()
        after = [columns.shares(name, amount) for name, amount, _ in self._asked]
        before = [columns.shares(name, 0) for name, *_ in self._asked if self._scores_change]
        return self._sum(after, before)

    def _sum(self, after: list[Numbers], before: list[Numbers]) -> Numbers:
        """Return the score from the fractions used with the pod, and without it if these count."""
        cpu, memory, others = after[0], after[1], after[2:]
        total = cpu * 0
        if self._least:
            total = total + least_requested(cpu, memory) * self._least
        if self._most:
            total = total + most_requested(cpu, memory) * self._most
        if self._balance:
            points = balanced(cpu, memory, *others)
            if before:
                points = balance_change(points, balanced(before[0], before[1], *before[2:]))
            total = total + points * self._balance
        return total
