"""Node selectors, node affinity and tolerations (rules K6.4 and K6.6 of Kubernetes)."""

from collections.abc import Mapping

from msgspec import Struct

from projections.objects import Taint
from projections.policy.requirement import Requirement


class Term(Struct, frozen=True):
    """Expressions that must all be satisfied. A term without expressions matches nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node satisfies all expressions."""
        if not self.labels and not self.fields:
            return False
        return all(one.matches(labels.get(one.key)) for one in self.labels) and all(
            one.key == "metadata.name" and one.matches(name) for one in self.fields
        )


class Preference(Struct, frozen=True):
    """A term, and the weight that it adds to the score of a matching node."""

    weight: int
    term: Term


class NodeSelector(Struct, frozen=True):
    """`nodeSelector` and required node affinity: both must match; of the terms, one is enough."""

    pairs: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None

    @property
    def keys(self) -> tuple[str, ...] | None:
        """Return the referenced label keys, or None if it refers to the node's name."""
        terms = self.terms or ()
        if any(term.fields for term in terms):
            return None
        named = {key for key, _ in self.pairs}
        named.update(one.key for term in terms for one in term.labels)
        return tuple(sorted(named))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node is selected."""
        if any(labels.get(key) != value for key, value in self.pairs):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)


class Toleration(Struct, frozen=True, gc=False):
    """A toleration of a pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration matches the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        operator = self.operator or "Equal"
        if not self.key:
            return operator == "Exists"
        if self.key != taint.key:
            return False
        if operator == "Exists":
            return True
        return operator == "Equal" and (self.value or "") == (taint.value or "")


def untolerated(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
) -> int:
    """Return how many taints with one of these effects are not tolerated."""
    return sum(
        1
        for taint in taints
        if taint.effect in effects and not any(one.tolerates(taint) for one in tolerations)
    )
