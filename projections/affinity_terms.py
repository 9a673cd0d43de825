"""An index of the affinity and anti-affinity terms of all pods, by the labels that they require of other pods.

Comparing each pod with each term is quadratic, and one tenant can have thousands of both. So a term is indexed by
labels that it requires by value (`matchLabels`, `In`), and a pod is compared only with the terms indexed by its own
labels and with those that require no value. When a pod is read, at most `COMPARISONS_MAX` requirements are
compared; with more, the pod counts as selected by some term. Which terms select it is determined when a node is
searched for it, and there it counts as work of the cycle.
"""

from collections.abc import Container, Hashable, Iterable, Iterator
from typing import ClassVar, Final, TypeVar

from msgspec import Struct

from projections.pod_terms import AffinityTerm, Labels, LabelsOf, Selector

COMPARISONS_MAX: Final = 512
"""Maximum number of requirements that are compared when a kind of pod (namespace and labels) is read: for required
anti-affinity, and again for affinity and preferred anti-affinity."""

VALUES_PER_COMPARISON: Final = 16
"""Number of values of a requirement that cost as much as one requirement."""

FILED_MAX: Final = 64
"""Maximum number of labels under which a term is indexed; a term with more values is compared with every pod of its
namespaces."""

NAMESPACES_MAX: Final = 8
"""Maximum number of namespaces under which a term is indexed; a term with more is compared with pods of all
namespaces."""

EVERYWHERE: Final = ""
"""Stands for all namespaces."""

OTHER_VALUE: Final = "\x00"
"""Stands for every value of a label that no term names. No label can have this value."""

_T = TypeVar("_T", bound=Hashable)


class SelectedAs(Struct, frozen=True):
    """A pod as the terms of other pods see it: its namespace, and the labels that they refer to.

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
    """Number of requirements that are compared to find them."""


class _Filed:
    """Terms of one sort about the pods of one namespace, or of all namespaces."""

    COMPARED: ClassVar[tuple[str, ...]] = ("without_value", "by_label")

    def __init__(self) -> None:
        self.without_value: dict[AffinityTerm, int] = {}
        """Terms that require no label by value, with the cost of a comparison."""
        self.by_label: dict[tuple[str, str], dict[AffinityTerm, int]] = {}

    def put(self, affinity_term: AffinityTerm, cost: int, sign: int) -> None:
        """Add a term (1) or remove it (-1)."""
        labels = _labels_of(affinity_term.term.selector or ())
        if labels is None:
            _file(self.without_value, affinity_term, cost, sign)
            return
        for label in labels:
            terms = self.by_label.setdefault(label, {})
            _file(terms, affinity_term, cost, sign)
            if not terms:
                del self.by_label[label]

    def candidates(self, labels: Labels) -> Iterator[tuple[AffinityTerm, int]]:
        """Yield the terms that may select pods with these labels, each with the cost of a comparison."""
        yield from self.without_value.items()
        for label in labels:
            found = self.by_label.get(label)
            if found is not None:
                yield from found.items()


class _Scope:
    """The terms about the pods of one namespace, or of all namespaces."""

    COMPARED: ClassVar[tuple[str, ...]] = (
        "terms",
        "barring",
        "weighing",
        "_keys",
        "_values",
        "_compared",
    )

    def __init__(self) -> None:
        self.terms = 0
        self.barring, self.weighing = _Filed(), _Filed()
        self._keys: dict[str, int] = {}
        """Label key to the number of requirements with this key."""
        self._values: dict[tuple[str, str], int] = {}
        """Label key and value to the number of requirements that name it."""
        self._compared: dict[str, int] = {}
        """Label key to the number of requirements that compare its value as a number."""

    def put(self, affinity_term: AffinityTerm, cost: int, sign: int) -> None:
        """Add a term (1) or remove it (-1)."""
        self.terms += sign
        (self.weighing if affinity_term.weight else self.barring).put(affinity_term, cost, sign)
        asked = affinity_term.term.selector or ()
        _count(self._keys, (one.key for one in asked), sign)
        _count(self._values, ((one.key, value) for one in asked for value in one.values), sign)
        _count(self._compared, (one.key for one in asked if one.operator in ("Gt", "Lt")), sign)

    def asked_of(self, labels: Labels) -> Iterator[tuple[str, str]]:
        """Yield the labels that terms refer to, with the values that they distinguish."""
        for key, value in labels:
            if key in self._keys:
                is_compared = (key, value) in self._values or key in self._compared
                yield key, value if is_compared else OTHER_VALUE


class AffinityTerms:
    """The affinity and anti-affinity terms of all pods that are not finished."""

    COMPARED: ClassVar[tuple[str, ...]] = ("held", "requirements", "_scopes")

    def __init__(self) -> None:
        self.held: dict[AffinityTerm, int] = {}
        """Term to the number of pods that have it."""
        self.requirements = 0
        """Number of requirements of the terms of all pods, as counted by `comparisons_of`."""
        self.compared = 0
        """Number of requirements that were compared when pods were read."""
        self._scopes: dict[str, _Scope] = {}

    def count(self, affinity_term: AffinityTerm, sign: int) -> bool:
        """Add a term of a pod (1) or remove it (-1). Return whether the set of terms changed."""
        cost = comparisons_of(affinity_term.term.selector) + comparisons_of(
            affinity_term.term.namespace_selector
        )
        self.requirements += sign * cost
        left = self.held.get(affinity_term, 0) + sign
        if left:
            self.held[affinity_term] = left
        else:
            del self.held[affinity_term]
        if left != 0 and (left != 1 or sign < 0):
            return False
        if affinity_term.term.selector is not None:
            for name in scopes_of(affinity_term):
                scope = self._scopes.setdefault(name, _Scope())
                scope.put(affinity_term, cost, sign)
                if not scope.terms:
                    del self._scopes[name]
        return True

    def selected_as(self, namespace: str, labels: Labels, labels_of: LabelsOf) -> SelectedAs | None:
        """Return a pod as terms of other pods see it; None if no term selects it."""
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
        """Return which of the topology keys belong to terms that select a pod."""
        barring: dict[str, None] = {}
        weighing: dict[str, None] = {}
        comparisons = 0
        labels = dict(seen.labels)
        for scope in self._concerning(seen.namespace):
            for filed, found in ((scope.barring, barring), (scope.weighing, weighing)):
                for affinity_term, cost in filed.candidates(seen.labels):
                    comparisons += cost
                    key = affinity_term.term.topology_key
                    if key in found or key not in topology_keys:
                        continue
                    if affinity_term.term.matches(seen.namespace, labels, labels_of):
                        found[key] = None
        return Selecting(tuple(sorted(barring)), tuple(sorted(weighing)), comparisons)

    def _concerning(self, namespace: str) -> list[_Scope]:
        found = (self._scopes.get(name) for name in (namespace, EVERYWHERE))
        return [one for one in found if one is not None]

    def _may_select(
        self, filed: Iterable[_Filed], namespace: str, labels: Labels, labels_of: LabelsOf
    ) -> bool:
        """Return whether one of these terms selects such a pod, or there are too many to compare."""
        values, spent = dict(labels), 0
        for one in filed:
            for affinity_term, cost in one.candidates(labels):
                spent += cost
                if spent > COMPARISONS_MAX:
                    return True
                self.compared += cost
                if affinity_term.term.matches(namespace, values, labels_of):
                    return True
        return False


def scopes_of(affinity_term: AffinityTerm) -> tuple[str, ...]:
    """Return the namespaces whose pods a term may select; EVERYWHERE if it selects namespaces by label, or names
    many."""
    term = affinity_term.term
    if term.namespace_selector is not None or len(term.namespaces) > NAMESPACES_MAX:
        return (EVERYWHERE,)
    return tuple(dict.fromkeys(term.namespaces))


def comparisons_of(selector: Selector | None) -> int:
    """Return the cost of comparing labels with a selector, in requirements."""
    if selector is None:
        return 0
    return (
        1
        + sum([len(one.values) // VALUES_PER_COMPARISON for one in selector])
        + max(0, len(selector) - 1)
    )


def _labels_of(selector: Selector) -> list[tuple[str, str]] | None:
    """Return the labels allowed by the requirement with the fewest values; None if all have too many."""
    named = [one for one in selector if one.operator == "In" and len(one.values) <= FILED_MAX]
    if not named:
        return None
    fewest = min(named, key=lambda one: len(one.values))
    return [(fewest.key, value) for value in dict.fromkeys(fewest.values)]


def _file(
    terms: dict[AffinityTerm, int], affinity_term: AffinityTerm, cost: int, sign: int
) -> None:
    if sign > 0:
        terms[affinity_term] = cost
    else:
        del terms[affinity_term]


def _count(counted: dict[_T, int], found: Iterable[_T], sign: int) -> None:
    for one in found:
        left = counted.get(one, 0) + sign
        if left:
            counted[one] = left
        else:
            del counted[one]
