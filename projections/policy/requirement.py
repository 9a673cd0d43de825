"""Expressions over labels (rule K6.4 of Kubernetes)."""

from msgspec import Struct

from events.limits import whole_number

_OUT_OF_RANGE = 2**63


class Requirement(Struct, frozen=True, array_like=True):
    """One expression: a label key (or `metadata.name`), an operator and its values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Return whether a node with this value of the label (None: without it) satisfies the expression."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(value, self.operator, self.values)
            case _:
                return False


def _compares(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if value is None or len(values) != 1:
        return False
    left, right = (whole_number(one, _OUT_OF_RANGE) for one in (value, values[0]))
    if left is None or right is None or _OUT_OF_RANGE in (abs(left), abs(right)):
        return False
    return left > right if operator == "Gt" else left < right
