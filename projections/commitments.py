"""Bindings and evictions that were decided and have no outcome yet."""

from typing import Final

from msgspec import Struct

from projections.fault_options import FORCE

DELETE: Final = "delete"
"""Mode of an eviction that deletes the pod in spite of disruption budgets."""


class Commitment(Struct, frozen=True):
    """A binding or an eviction that was decided and has no outcome yet."""

    decision: int
    pod: str
    uid: str
    node: str
    is_unknown: bool = False
    """Whether the answer was lost, so that the pod must be read from the server."""
    assigned_ns: int = 0
    """Time of the assignment of devices, in ns since the epoch; 0 if nothing is written on the pod before it is bound."""
    is_annotated: bool = False
    """Whether the annotations that name its devices are written."""
    mode: str = ""
    """Of a deletion after a fault: `grace`, or `force` for one without grace period and disruption budgets. Of another
    eviction: `delete` if it is no longer left to disruption budgets."""
    in_favour_of: str = ""
    """Key of the pod group for which a pod is evicted, if it is for one."""

    @property
    def is_forced(self) -> bool:
        """Return whether the pod is deleted at once, without its grace period and disruption budgets."""
        return self.mode == FORCE

    @property
    def is_without_budgets(self) -> bool:
        """Return whether the pod is deleted with its grace period and without its disruption budgets."""
        return self.mode == DELETE
