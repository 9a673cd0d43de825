"""Faults that are written on pods, for a controller outside that restarts them (modes `external-grace`, `external-force`).

A fault of a pod is marked once. Its annotation stays when the fault is over: another fault of the pod replaces it.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from events.decisions.faults_marked import FaultsMarked
from events.messages import PodMarkRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projections.cluster import Cluster

ANNOTATION: Final = "huawei.com/pod-status"
"""Annotation of a pod that names its fault: `Unhealthy-CardUnhealthy`."""

FAULT_MARK: Final = "pod-status"
"""Value of `what` in outcomes of writing it."""

TRIES_MAX: Final = 3
"""How often it is tried, if the API server does not answer (the vendor's)."""


class FaultMark(Struct, frozen=True, array_like=True):
    """The fault of a pod that was decided to be written on it."""

    decision: int
    pod: str
    """`namespace/name`"""
    fault: str
    """Kind of the fault."""
    tries: int = 0
    """How often it was tried in vain."""
    is_done: bool = False
    """Whether it is written, or was given up."""


def begin_marks(cluster: "Cluster", position: int, event: FaultsMarked) -> None:
    """Keep the marks that a decision begins with."""
    for one in event.members:
        if one.uid in cluster.pods:
            mark = FaultMark(position, one.pod, one.fault)
            cluster.reschedulings.marks[one.uid] = mark
            cluster.changed_rows.faults[one.node] = None


def end_mark(cluster: "Cluster", uid: str, decision: int, *, is_lost: bool) -> None:
    """Note that a mark is written or refused, or (`is_lost`) that no answer came."""
    marks = cluster.reschedulings.marks
    one = marks.get(uid)
    if one is None or one.decision != decision:
        return
    tries = one.tries + is_lost
    is_done = not is_lost or tries >= TRIES_MAX
    marks[uid] = structs.replace(one, tries=tries, is_done=is_done)


def mark_requests(cluster: "Cluster") -> "Iterator[PodMarkRequest]":
    """Yield the requests to write marks that are not written, in the order of their decisions."""
    marks = cluster.reschedulings.marks
    waiting = [(one.decision, uid) for uid, one in marks.items() if not one.is_done]
    for decision, uid in sorted(waiting):
        namespace, _, name = marks[uid].pod.partition("/")
        wanted = {ANNOTATION: f"Unhealthy-{marks[uid].fault}"}
        yield PodMarkRequest(decision, namespace, name, uid, FAULT_MARK, wanted)
