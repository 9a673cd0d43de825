"""Records that State cannot apply because of a bug of muster.

An exception in the middle of a change leaves State partly changed. So State is discarded and folded again from the
log without the record. The effect of the record is then missing: an object stays as last read, or absent; a
decision or an outcome counts as not recorded, so it is decided or requested again.

The same code raises the same exception in every fold of the same records, so all folds agree.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar, get_args

from events.cluster import ObjectDeleted, ObjectObserved
from events.decision import Decision
from events.union import Outcome
from events.watch import BindRejectedByNode, ForeignPodPlaced

LeftOut: TypeAlias = dict[int, str]
"""Position of each record that is left out, and the reason."""

LEAVABLE: Final = (
    ObjectObserved,
    ObjectDeleted,
    BindRejectedByNode,
    ForeignPodPlaced,
    Decision,
    *get_args(Outcome),
)
"""Events that a fold can leave out. Cycles, policies, lists and watches are required: without them the rest would
be folded wrongly."""

T = TypeVar("T")


class ApplyError(Exception):
    """State could not apply a record and must not be used any more."""

    def __init__(self, position: int, subject: str, reason: str) -> None:
        super().__init__(f"position {position}, {subject}: {reason}")
        self.position = position
        self.subject = subject
        self.reason = reason


async def folded(fold: Callable[[LeftOut], Awaitable[T]]) -> T:
    """Return the result of a fold, which is repeated without each record that it cannot apply.

    Each fold starts from nothing, or from a snapshot that it restores itself.
    """
    left_out: LeftOut = {}
    while True:
        try:
            return await fold(left_out)
        except ApplyError as error:
            leave_out(left_out, error)


def leave_out(left_out: LeftOut, error: ApplyError) -> None:
    """Leave out the record that raised. Raise the error again if it is already left out."""
    if error.position in left_out:
        raise error
    left_out[error.position] = error.reason
