"""Nodes that turned pods away although they say that there is room (rule K5.12).

A kubelet rejects what its node cannot take, whatever the node's status says. Without a pause the pod's
owner would make another, and it would go there again. So the resource counts as used up on that node for
a while: half a minute at first, twice as long with each further rejection, half an hour at most. Each ten
minutes without a rejection take one back.
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
"""Reasons of failed pods, beside `OutOf<resource>`, with which a kubelet turns a pod away at its door."""


class Quarantine(Struct, frozen=True):
    """A resource of a node that is not given away for a while."""

    count: int
    """Rejections, as far as they have not decayed."""
    last_ns: int
    until_ns: int


def rejected(before: Quarantine | None, at_ns: int) -> Quarantine:
    """The quarantine after one more rejection."""
    count = 1
    if before is not None:
        count += max(0, before.count - (at_ns - before.last_ns) // DECAY_NS)
    wait = min(LONGEST_NS, FIRST_NS << min(count - 1, 16))
    return Quarantine(count=count, last_ns=at_ns, until_ns=at_ns + wait)


def refused_resources(reason: str, request: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """What a node does not have, by the reason that its kubelet gave; nothing where it is no rejection.

    `OutOfcpu` names its resource. A device plugin's refusal (`UnexpectedAdmissionError`) does not: it is
    taken to mean the devices asked for. Whatever else it is, the node takes no pods at all.
    """
    if reason.startswith("OutOf"):
        named = reason.removeprefix("OutOf")
        return (named,) if named in dict(request) else ("pods",)
    if reason not in REJECTIONS:
        return ()
    devices = tuple(sorted(name for name, _ in request if "/" in name))
    return devices if devices and reason == "UnexpectedAdmissionError" else ("pods",)
