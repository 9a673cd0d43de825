"""Compare an index with what it computes again from facts, value by value.

So the audit is one rule for all indexes: those over the whole cluster (`projections/index.py`), and nodes, queues and
pod groups, which keep sums of their own.
"""

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np

from projections.pod_groups import PodGroup
from projections.pods import Pod

if TYPE_CHECKING:
    from projections.cluster import Cluster

TEXT_MAX: Final = 300
"""Characters of a value in the message of a difference."""


class Recomputable(Protocol):
    """What keeps values that can be computed again from facts."""

    COMPARED: ClassVar[tuple[str, ...]]
    """Its attributes that follow from facts alone: no facts, caches, versions or journals."""

    def rebuilt(self, cluster: "Cluster", /) -> "Recomputable":
        """Return what it should hold, computed again."""


def check_index(what: str, kept: Recomputable, cluster: "Cluster") -> None:
    """Compute an index again. Raise AssertionError if it keeps another value."""
    _check_attributes(what, kept, kept.rebuilt(cluster), kept.COMPARED)


def check_same(what: str, kept: object, counted: object) -> None:
    """Raise AssertionError with the first difference.

    The order of a dict does not count, and a zero or an empty dict may be left out. Pods and pod groups must be the
    same objects.
    """
    if kept is counted or _is_equal(kept, counted):
        return
    if isinstance(kept, dict) and isinstance(counted, dict):
        for key in {**kept, **counted}:
            if key in kept and key in counted:
                check_same(f"{what}, {_text(key)}", kept[key], counted[key])
            elif not is_nothing(kept[key] if key in kept else counted[key]):
                _fail(f"{what}, {_text(key)}", _of(kept, key), _of(counted, key))
    elif isinstance(kept, np.ndarray) and isinstance(counted, np.ndarray):
        check_same(what, kept.tolist(), counted.tolist())
    elif isinstance(kept, list | tuple) and isinstance(counted, list | tuple):
        if len(kept) != len(counted):
            _fail(what, kept, counted)
        for index, (ours, theirs) in enumerate(zip(kept, counted, strict=True)):
            check_same(f"{what}, {index}", ours, theirs)
    elif isinstance(kept, Pod | PodGroup):
        _fail(what, f"another version of {kept.key}", counted)
    elif type(kept) is type(counted) and (names := getattr(kept, "COMPARED", None)) is not None:
        _check_attributes(what, kept, counted, names)
    elif kept != counted:
        _fail(what, kept, counted)


def _check_attributes(what: str, kept: object, counted: object, names: tuple[str, ...]) -> None:
    for name in names:
        shown = name.strip("_").replace("_", " ")
        check_same(f"{what} {shown}", getattr(kept, name), getattr(counted, name))


def _is_equal(kept: object, counted: object) -> bool:
    """Return whether two values are equal to the last item; False for indexes and columns, which have to be compared
    item by item."""
    if isinstance(kept, dict):
        has_columns = any(isinstance(one, np.ndarray) for one in islice(kept.values(), 1))
        return not has_columns and kept == counted
    return isinstance(kept, int | str | list | tuple) and kept == counted


def is_nothing(value: object) -> bool:
    """Return whether a value may be left out of a dict."""
    return not value.any() if isinstance(value, np.ndarray) else value == 0 or value == {}


def _of(values: dict[object, object], key: object) -> object:
    return values.get(key, "nothing")


def _fail(what: str, kept: object, counted: object) -> None:
    raise AssertionError(f"{what}: kept {_text(kept)}, counted {_text(counted)}")


def _text(value: object) -> str:
    if isinstance(value, Pod | PodGroup):
        return value.key
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"[:TEXT_MAX]
    return f"{value}"[:TEXT_MAX]
