"""An index of the (anti-)affinity terms of all pods, by what they require of the labels of other pods.

Comparing each pod with each term is quadratic, and one tenant can have thousands of both. So a term is filed under
labels that it requires by value (`matchLabels`, `In`), and a pod is compared only with the terms filed under its own
labels and with those that require no value. When a pod is read, it is compared with terms up to `COMPARISONS_MAX`;
where there are more, it counts as selected by some. Which terms select it is found when a node is sought for it:
there it is counted as work of the cycle.
"""

from collections.abc import Container, Hashable, Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from projections.pod_terms import Labels, LabelsOf, Regard, Selector

COMPARISONS_MAX: Final = 512
"""Requirements with which a kind of pod (namespace and labels) is compared when a pod of it is read: of required
anti-affinity, and as many of affinity and preferred anti-affinity."""

VALUES_PER_COMPARISON: Final = 16
"""Values of a requirement that cost as much as a requirement."""

FILED_MAX: Final = 64
"""Labels under which a term is filed: one that allows more values is compared with every pod of its namespaces."""

NAMESPACES_MAX: Final = 8
"""Namespaces in which a term is filed: one that names more is compared with the pods of all."""

EVERYWHERE: Final = ""
"""Stands for all namespaces."""

OTHER_VALUE: Final = "\x00"
"""Stands for every value of a label that no term names. No label has it as its value."""

_T = TypeVar("_T", bound=Hashable)


class SelectedAs(Struct, frozen=True):
    """A pod as the terms of other pods can tell it from others: its namespace, and the labels that they ask about.

    A value that no term names is `OTHER_VALUE`.
    """

    namespace: str
    labels: Labels
    is_barred: bool
    """Whether required anti-affinity of other pods may select it."""
    is_weighed: bool
    """Whether affinity or preferred anti-affinity of other pods may select it."""


class Selecting(Struct, frozen=True):
    """The topology keys of the terms that select a pod."""

    barring: tuple[str, ...]
    weighing: tuple[str, ...]
    comparisons: int
    """Requirements to be compared to find them."""


class _Filed:
    """Terms of one sort that concern the pods of a namespace, or of all."""

    def __init__(self) -> None:
        self.without_value: dict[Regard, int] = {}
        """Terms that require no label by value, with what a comparison costs."""
        self.by_label: dict[tuple[str, str], dict[Regard, int]] = {}

    def put(self, regard: Regard, cost: int, sign: int) -> None:
        """Add a term (1) or remove it (-1)."""
        labels = _labels_of(regard.term.selector or ())
        if labels is None:
            _file(self.without_value, regard, cost, sign)
            return
        for label in labels:
            terms = self.by_label.setdefault(label, {})
            _file(terms, regard, cost, sign)
            if not terms:
                del self.by_label[label]

    def candidates(self, labels: Labels) -> Iterator[tuple[Regard, int]]:
        """The terms that may select pods with these labels, each with what a comparison costs."""
        yield from self.without_value.items()
        for label in labels:
            found = self.by_label.get(label)
            if found is not None:
                yield from found.items()


class _Scope:
    """The terms that concern the pods of a namespace, or of all."""

    def __init__(self) -> None:
        self.terms = 0
        self.barring, self.weighing = _Filed(), _Filed()
        self._keys: dict[str, int] = {}
        """Label key to the requirements that ask about it."""
        self._values: dict[tuple[str, str], int] = {}
        """Label key and value to the requirements that name it."""
        self._compared: dict[str, int] = {}
        """Label key to the requirements that compare its value as a number."""

    def put(self, regard: Regard, cost: int, sign: int) -> None:
        """Add a term (1) or remove it (-1)."""
        self.terms += sign
        (self.weighing if regard.weight else self.barring).put(regard, cost, sign)
        asked = regard.term.selector or ()
        _count(self._keys, (one.key for one in asked), sign)
        _count(self._values, ((one.key, value) for one in asked for value in one.values), sign)
        _count(self._compared, (one.key for one in asked if one.operator in ("Gt", "Lt")), sign)

    def asked_of(self, labels: Labels) -> Iterator[tuple[str, str]]:
        """The labels that terms ask about, with the values that they can tell apart."""
        for key, value in labels:
            if key in self._keys:
                is_told = (key, value) in self._values or key in self._compared
                yield key, value if is_told else OTHER_VALUE


class AffinityTerms:
    """The (anti-)affinity terms of all pods that are not finished."""

    def __init__(self) -> None:
        self.held: dict[Regard, int] = {}
        """Term to the number of pods that have it."""
        self.requirements = 0
        """Requirements of the terms of all pods, as `comparisons_of` counts them."""
        self.compared = 0
        """Requirements that were compared here when pods were read."""
        self._scopes: dict[str, _Scope] = {}

    def count(self, regard: Regard, sign: int) -> bool:
        """Count a term of a pod in (1) or out (-1). Whether it is new by that, or gone."""
        cost = comparisons_of(regard.term.selector) + comparisons_of(regard.term.namespace_selector)
        self.requirements += sign * cost
        left = self.held.get(regard, 0) + sign
        if left:
            self.held[regard] = left
        else:
            del self.held[regard]
        if left != 0 and (left != 1 or sign < 0):
            return False
        if regard.term.selector is not None:
            for name in scopes_of(regard):
                scope = self._scopes.setdefault(name, _Scope())
                scope.put(regard, cost, sign)
                if not scope.terms:
                    del self._scopes[name]
        return True

    def selected_as(self, namespace: str, labels: Labels, labels_of: LabelsOf) -> SelectedAs | None:
        """A pod as terms of other pods can tell it from others; None where no term selects it."""
        scopes = self._concerning(namespace)
        if not scopes:
            return None
        is_barred, is_weighed = (
            self._may_select(filed, namespace, labels, labels_of)
            for filed in ([one.barring for one in scopes], [one.weighing for one in scopes])
        )
        if not is_barred and not is_weighed:
            return None
        asked: dict[str, str] = {}
        for scope in scopes:
            for key, value in scope.asked_of(labels):
                if asked.get(key, OTHER_VALUE) == OTHER_VALUE:
                    asked[key] = value
        return SelectedAs(namespace, tuple(sorted(asked.items())), is_barred, is_weighed)

    def selecting(
        self, seen: SelectedAs, labels_of: LabelsOf, topology_keys: Container[str]
    ) -> Selecting:
        """Which of the topology keys are those of terms that select a pod."""
        barring: dict[str, None] = {}
        weighing: dict[str, None] = {}
        comparisons = 0
        labels = dict(seen.labels)
        for scope in self._concerning(seen.namespace):
            for filed, found in ((scope.barring, barring), (scope.weighing, weighing)):
                for regard, cost in filed.candidates(seen.labels):
                    comparisons += cost
                    key = regard.term.topology_key
                    if key in found or key not in topology_keys:
                        continue
                    if regard.term.covers(seen.namespace, labels, labels_of):
                        found[key] = None
        return Selecting(tuple(sorted(barring)), tuple(sorted(weighing)), comparisons)

    def _concerning(self, namespace: str) -> list[_Scope]:
        found = (self._scopes.get(name) for name in (namespace, EVERYWHERE))
        return [one for one in found if one is not None]

    def _may_select(
        self, filed: Iterable[_Filed], namespace: str, labels: Labels, labels_of: LabelsOf
    ) -> bool:
        """Whether one of these terms selects such a pod, or there are too many to be compared."""
        values, spent = dict(labels), 0
        for one in filed:
            for regard, cost in one.candidates(labels):
                spent += cost
                if spent > COMPARISONS_MAX:
                    return True
                self.compared += cost
                if regard.term.covers(namespace, values, labels_of):
                    return True
        return False


def scopes_of(regard: Regard) -> tuple[str, ...]:
    """The namespaces of which a term may select pods; EVERYWHERE where it selects them by label, or names many."""
    term = regard.term
    if term.namespace_selector is not None or len(term.namespaces) > NAMESPACES_MAX:
        return (EVERYWHERE,)
    return tuple(dict.fromkeys(term.namespaces))


def comparisons_of(selector: Selector | None) -> int:
    """What it costs to compare labels with a selector, in requirements."""
    if selector is None:
        return 0
    return (
        1
        + sum([len(one.values) // VALUES_PER_COMPARISON for one in selector])
        + max(0, len(selector) - 1)
    )


def _labels_of(selector: Selector) -> list[tuple[str, str]] | None:
    """The labels that the requirement with the fewest values allows; None where none names a few."""
    named = [one for one in selector if one.operator == "In" and len(one.values) <= FILED_MAX]
    if not named:
        return None
    fewest = min(named, key=lambda one: len(one.values))
    return [(fewest.key, value) for value in dict.fromkeys(fewest.values)]


def _file(terms: dict[Regard, int], regard: Regard, cost: int, sign: int) -> None:
    if sign > 0:
        terms[regard] = cost
    else:
        del terms[regard]


def _count(counted: dict[_T, int], found: Iterable[_T], sign: int) -> None:
    for one in found:
        left = counted.get(one, 0) + sign
        if left:
            counted[one] = left
        else:
            del counted[one]
