"""Node selector terms as the API states them, in the affinity of pods and of volumes."""

from typing import Final

from msgspec import Struct

from projections.objects import Few, Many
from projections.policy.requirement import Requirement
from projections.selector import Term

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class StatedExpression(Struct):
    """One expression of a term."""

    key: str
    operator: str
    values: Many[str] | None = None


class StatedTerm(Struct):
    """A node selector term."""

    matchExpressions: Few[StatedExpression] | None = None  # noqa: N815
    matchFields: Few[StatedExpression] | None = None  # noqa: N815


class StatedTerms(Struct):
    """A required node selector: one of its terms is enough."""

    nodeSelectorTerms: Few[StatedTerm]  # noqa: N815


def term_of(stated: StatedTerm) -> Term:
    """Return a term as muster evaluates it."""
    return Term(
        labels=tuple(_requirement(one) for one in stated.matchExpressions or ()),
        fields=tuple(_requirement(one) for one in stated.matchFields or ()),
    )


def _requirement(one: StatedExpression) -> Requirement:
    return Requirement(key=one.key, operator=one.operator, values=tuple(one.values or ()))
