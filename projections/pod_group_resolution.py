"""Find the pod group of a pod, and its properties if there is no PodGroup object.

In this order: the group that the pod names, the group of the coscheduling labels, the group of the controlling
owner; a pod without an owner is its own group (names as in Volcano's controller).
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.limits import whole_number
from projections.pod_annotations import MIN_MEMBER, QUEUE_NAME
from projections.pods import PodFacts
from projections.queues import DEFAULT


class Origin(Struct, frozen=True):
    """A pod group as one of its pods describes it."""

    needs_object: bool
    """Whether the pod names a PodGroup object, without which it is not placed."""
    min_available: int
    queue: str


NAMED_BY_UID: Final = "podgroup-"
"""Start of the name, as in Volcano, of a group that none of its pods names; the UID of the owner follows."""


def group_key_of(pod: PodFacts) -> str:
    """Return the key of the group of a pod."""
    name = pod.group_name or f"{NAMED_BY_UID}{pod.owner.uid if pod.owner else pod.uid}"
    return f"{pod.namespace}/{name}"


def origin_of(pod: PodFacts, inherited: Mapping[str, str], namespaces: Mapping[str, str]) -> Origin:
    """Return the group of a pod. `inherited` are annotations of its owner; `namespaces` maps namespaces to queues."""
    least = whole_number(inherited[MIN_MEMBER]) if MIN_MEMBER in inherited else None
    min_available = pod.min_member
    if not pod.group_name and least is not None:
        min_available = max(1, least)
    queue = pod.queue or inherited.get(QUEUE_NAME, "") or namespaces.get(pod.namespace, "")
    return Origin(
        needs_object=bool(pod.group_name) and pod.needs_group_object,
        min_available=min_available,
        queue=queue or DEFAULT,
    )
