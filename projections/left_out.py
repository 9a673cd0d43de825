"""Records that State cannot apply because of a bug of muster.

An exception in the middle of a change leaves State half changed. So State is thrown away and folded again from the log
without the record. What follows from the record is then missing: an object counts as last read, or as absent; a
decision or an outcome counts as not recorded, so it is decided, or asked for, again.

The same code meets the same exception in every fold of the same records, so all folds agree.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar, get_args

from events.cluster import Deleted, Observed
from events.union import Decision, Outcome
from events.watch import BindRejectedByNode, ForeignPodPlaced

LeftOut: TypeAlias = dict[int, str]
"""Position of each record that is left out, and the reason."""

LEAVABLE: Final = (
    Observed,
    Deleted,
    BindRejectedByNode,
    ForeignPodPlaced,
    *get_args(Decision),
    *get_args(Outcome),
)
"""Events that a fold can do without. Cycles, policies, lists and watches are no subject of their own: without them the
rest would be folded wrongly."""

T = TypeVar("T")


class ApplyError(Exception):
    """State could not apply a record, and is not to be used any more."""

    def __init__(self, position: int, subject: str, reason: str) -> None:
        super().__init__(f"position {position}, {subject}: {reason}")
        self.position = position
        self.subject = subject
        self.reason = reason


async def folded(fold: Callable[[LeftOut], Awaitable[T]]) -> T:
    """Return what a fold returns, which is called again without each record that it cannot apply.

    Each fold begins from nothing, or from a snapshot that it restores itself.
    """
    left_out: LeftOut = {}
    while True:
        try:
            return await fold(left_out)
        except ApplyError as error:
            leave_out(left_out, error)


def leave_out(left_out: LeftOut, error: ApplyError) -> None:
    """Leave out the record that raised. Raises the error again if it is left out already."""
    if error.position in left_out:
        raise error
    left_out[error.position] = error.reason
