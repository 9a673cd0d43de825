"""Faults that are written on pods, for a controller outside that restarts them (modes `external-grace`, `external-force`).

A fault of a pod is marked once. Its annotation stays when the fault is over: another fault of the pod replaces it.
"""

from typing import Final

from msgspec import Struct, structs

from events.messages import PodMarkRequest

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
    """How often no answer came."""
    is_done: bool = False
    """Whether it is written, or was given up."""

    def answered(self, *, is_lost: bool) -> "FaultMark":
        """Return the mark after it is written or refused, or (`is_lost`) after no answer came."""
        tries = self.tries + is_lost
        return structs.replace(self, tries=tries, is_done=not is_lost or tries >= TRIES_MAX)

    def request(self, uid: str) -> PodMarkRequest:
        """Return the request to write it on the pod of a UID."""
        namespace, _, name = self.pod.partition("/")
        wanted = {ANNOTATION: f"Unhealthy-{self.fault}"}
        return PodMarkRequest(self.decision, namespace, name, uid, FAULT_MARK, wanted)
