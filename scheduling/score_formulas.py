"""Scores of nodes, in thousandths of a point, as whole numbers.

Each scorer gives 0 to 100 points before its weight. The functions take numbers or columns of numbers: one node
and all nodes are computed in the same way.

Sources of the formulas: the Kubernetes scorers that Volcano's `nodeorder` sums (least and most requested,
balanced allocation as of 1.36), and Volcano's `binpack`. Differences: fractions are rounded down to a thousandth
of a point, and nominated resources count as used.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from projections.plugin import Plugin, PluginSet
from projections.pod_class import Amounts, PodClass
from scheduling.node_columns import FULL, Column, NodeColumns


class NodeScorer(Protocol):
    """The score of nodes for pods of one class, from what a node has and what is free on it."""

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        """Return the score of one node, in thousandths of a point."""

    def of_columns(self, columns: NodeColumns) -> Column:
        """Return the scores of the nodes of these columns."""


class ScoreWeights(Struct, frozen=True):
    """Weights of the scores that are normalized over the feasible nodes, or depend on other pods."""

    node_affinity: int = 0
    taint_toleration: int = 0
    image_locality: int = 0
    pod_affinity: int = 0
    topology_spread: int = 0
    card_order: int = 0
    """In thousandths: weight of the order of preference in `A|B`."""

    def plus(self, other: "ScoreWeights") -> "ScoreWeights":
        """Return the sum."""
        return ScoreWeights(
            self.node_affinity + other.node_affinity,
            self.taint_toleration + other.taint_toleration,
            self.image_locality + other.image_locality,
            self.pod_affinity + other.pod_affinity,
            self.topology_spread + other.topology_spread,
            self.card_order + other.card_order,
        )


class NodeOrder(Plugin):
    """Hook: scores of nodes by what is requested and free."""

    FLAG = "enableNodeOrder"

    def scorer(self, pod_class: PodClass) -> NodeScorer | None:
        """Return what scores nodes for pods of a class; None if nothing does."""
        return None

    def parts(self, pod_class: PodClass) -> dict[str, NodeScorer]:
        """Return the same in parts, for explanations: name to scorer. The score of a node is their sum."""
        scorer = self.scorer(pod_class)
        return {} if scorer is None else {self.name: scorer}

    def weights(self) -> ScoreWeights:
        """Return the weights of the scores that are computed for all plugins together."""
        return ScoreWeights()


def score_weights(plugins: Sequence[NodeOrder]) -> ScoreWeights:
    """Return the weights of all plugins."""
    total = ScoreWeights()
    for one in plugins:
        total = total.plus(one.weights())
    return total


PLAIN: Final = ("cpu", "memory")
BALANCED_MAX: Final = 16
"""Maximum number of balanced resources beside cpu and memory: roots are exact below 2**52."""

Numbers = TypeVar("Numbers", int, npt.NDArray[np.int64])


def least_requested(cpu: Numbers, memory: Numbers) -> Numbers:
    """Score high if much is left. `cpu` and `memory` are the fractions used, this pod included."""
    return FULL - (cpu + memory) // 2


def most_requested(cpu: Numbers, memory: Numbers) -> Numbers:
    """Score high if little is left."""
    return (cpu + memory) // 2


def balanced(cpu: Numbers, memory: Numbers, *others: Numbers) -> Numbers:
    """Score high if all resources are used alike: FULL minus the standard deviation of the fractions used."""
    if not others:
        return FULL - abs(cpu - memory) // 2
    count, total, squares = 2 + len(others), cpu + memory, cpu * cpu + memory * memory
    for one in others:
        total, squares = total + one, squares + one * one
    return FULL - root(count * squares - total * total) // count


def balance_change(after: Numbers, before: Numbers) -> Numbers:
    """Score high if the pod improves the balance: three quarters of FULL plus half the difference that it makes."""
    return FULL * 3 // 4 + (after - before) // 2


def root(number: Numbers) -> Numbers:
    """Return the square root, rounded down. Below 2**52 the nearest float is off by at most one."""
    if isinstance(number, int):
        return isqrt(number)
    found = np.sqrt(number).astype(np.int64)
    found -= found * found > number
    found += (found + 1) * (found + 1) <= number
    return found


KNOWN_MAX: Final = 4096
"""Maximum number of scores that are kept for a class of pods; beyond it all are dropped."""


class NodeScorers:
    """The sum of the scorers of all plugins, for pods of one class."""

    def __init__(self, plugins: PluginSet, pod_class: PodClass) -> None:
        found = [one.scorer(pod_class) for one in plugins.of(NodeOrder)]
        self._all: list[NodeScorer] = [one for one in found if one is not None]
        self._known: dict[tuple[object, object], int] = {}
        """What a node has and what is free on it, to its score: nodes with the same of both are scored once."""

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        """Return the score of one node."""
        key = tuple(allocatable.items()), tuple(free.items())
        total = self._known.get(key)
        if total is None:
            total = 0
            for one in self._all:
                total += one.of_node(allocatable, free)
            if len(self._known) >= KNOWN_MAX:
                self._known = {}
            self._known[key] = total
        return total

    def of_columns(self, columns: NodeColumns) -> Column:
        """Return the scores of the nodes of these columns."""
        total = columns.zeros()
        for one in self._all:
            total += one.of_columns(columns)
        return total
