"""Old shapes to the present one. A row is never updated; it is read differently.

One pure function a shape that is no longer written. A chain of them leads every old kind to a kind
that `events/codec.py` decodes.
"""

from collections.abc import Callable
from typing import TypeAlias

Fields: TypeAlias = dict[str, object]
Upcaster: TypeAlias = Callable[[Fields], tuple[str, Fields]]


def _cycle_opened_v1(fields: Fields) -> tuple[str, Fields]:
    """The first cycles did not say which version of the code decided."""
    return "cycle_opened.v2", {**fields, "decider": 0}


UPCASTERS: dict[str, Upcaster] = {"cycle_opened.v1": _cycle_opened_v1}
"""Old kind to the function that makes the next shape of it."""
