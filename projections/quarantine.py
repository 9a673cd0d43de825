"""Quarantine resources of nodes whose kubelet rejected pods (rule K5.12).

A kubelet may reject a pod although the status of its node shows free resources. Without a pause the owner would
create another pod that is bound to the same node. So the resource counts as used up on that node: for 30 seconds at
first, twice as long with each further rejection, at most 30 minutes. Each 10 minutes without a rejection reduce the
count by one.
"""

from typing import Final

from msgspec import Struct

FIRST_NS: Final = 30_000_000_000
LONGEST_NS: Final = 1_800_000_000_000
DECAY_NS: Final = 600_000_000_000

REJECTIONS: Final = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TopologyAffinityError",
    "UnsupportedOperatingSystem",
)
"""Reasons of pods that a kubelet rejected, in addition to `OutOf<resource>`."""


class Quarantine(Struct, frozen=True):
    """A resource of a node that is not assigned for a while."""

    count: int
    """Number of rejections that have not decayed."""
    last_ns: int
    until_ns: int


def rejected(before: Quarantine | None, at_ns: int) -> Quarantine:
    """Return the quarantine after one more rejection."""
    count = 1
    if before is not None:
        count += max(0, before.count - (at_ns - before.last_ns) // DECAY_NS)
    wait = min(LONGEST_NS, FIRST_NS << min(count - 1, 16))
    return Quarantine(count=count, last_ns=at_ns, until_ns=at_ns + wait)


def rejected_resources(reason: str, request: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Return the resources that a kubelet rejected, by the reason of the failed pod; none if it is not a rejection.

    `OutOfcpu` names its resource. `UnexpectedAdmissionError` of a device plugin does not: it stands for the devices
    of the request. With any other reason the node accepts no pods at all.
    """
    if reason.startswith("OutOf"):
        named = reason.removeprefix("OutOf")
        return (named,) if named in dict(request) else ("pods",)
    if reason not in REJECTIONS:
        return ()
    devices = tuple(sorted(name for name, _ in request if "/" in name))
    return devices if devices and reason == "UnexpectedAdmissionError" else ("pods",)
