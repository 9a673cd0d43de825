"""Kubernetes objects as far as muster reads them. Unknown fields are ignored.

A kind that only one module reads has its type there (`projections/disruption_budgets.py`).

Types bound numbers and lists: an object beyond the bounds of `events/limits.py` is treated like one with a field of
the wrong type. Pods are the exception: their requests must count on their node whatever else they contain, so their
lists are bounded where they are used (`projections/pod_class.py`).

Fields that distinguish classes of pods (`projections/pod_class.py`) stay raw: objects in the log are canonical
JSON, so equal demands are equal bytes.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from events.limits import (
    INT32_MAX,
    ITEMS_MAX,
    RESOURCES_MAX,
    TIME_CHARS_MAX,
    VALUES_MAX,
    WEIGHT_MAX,
    clipped,
    decode_deep,
)

Quantity = str | int | float
Quantities = dict[str, Quantity]
FewQuantities = Annotated[Quantities, Meta(max_length=RESOURCES_MAX)]
Weight = Annotated[int, Meta(ge=0, le=WEIGHT_MAX)]
Int32 = Annotated[int, Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]

FewPairs = Annotated[dict[str, str], Meta(max_length=ITEMS_MAX)]

T = TypeVar("T")
Few = Annotated[list[T], Meta(max_length=ITEMS_MAX)]
Many = Annotated[list[T], Meta(max_length=VALUES_MAX)]

IMAGE_BYTES_MAX: Final = 1 << 50
"""Maximum bytes of an image on a node (1 PiB): keeps scores within 64 bits."""

FARTHEST_NS: Final = 1 << 62
"""Nanoseconds from the epoch (the year 2116): later times count as this, to fit a column of 64 bits."""

NOTHING: Final = Raw(b"")
"""A raw field that is absent."""


class Owner(Struct, gc=False):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    apiVersion: str = ""  # noqa: N815


class Metadata(Struct):
    """The metadata of any object."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    ownerReferences: list[Owner] | None = None  # noqa: N815


class Taint(Struct, frozen=True):
    """A taint of a node."""

    key: str
    effect: str = ""
    value: str | None = None


class NodeSpec(Struct):
    """`Node.spec`"""

    unschedulable: bool | None = None
    taints: Few[Taint] | None = None


class NodeImages(Struct):
    """An image that a node has, under all its names."""

    names: Few[str] | None = None
    sizeBytes: Annotated[int, Meta(ge=0, le=IMAGE_BYTES_MAX)] = 0  # noqa: N815


class NodeAddress(Struct):
    """An address of a node."""

    type: str = ""
    address: str = ""


class NodeConditionObject(Struct):
    """A condition of a node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815


class NodeStatus(Struct):
    """`Node.status`"""

    addresses: Few[NodeAddress] | None = None

    images: Few[NodeImages] | None = None

    conditions: Few[NodeConditionObject] | None = None

    allocatable: FewQuantities | None = None
    capacity: FewQuantities | None = None


class NodeObject(Struct):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Container(Struct, gc=False):
    """A container, as far as muster reads its demands."""

    name: str | None = None
    image: str | None = None
    resources: Raw = NOTHING
    ports: Raw = NOTHING
    restartPolicy: str | None = None  # noqa: N815


class PodSpec(Struct, gc=False):
    """`Pod.spec`"""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815
    nodeName: str | None = None  # noqa: N815
    schedulerName: str | None = None  # noqa: N815
    priority: Int32 | None = None
    priorityClassName: str | None = None  # noqa: N815
    preemptionPolicy: str | None = None  # noqa: N815
    schedulingGates: list[Raw] | None = None  # noqa: N815
    overhead: Raw = NOTHING
    resources: Raw = NOTHING
    nodeSelector: Raw = NOTHING  # noqa: N815
    affinity: Raw = NOTHING
    tolerations: Raw = NOTHING
    topologySpreadConstraints: Raw = NOTHING  # noqa: N815
    volumes: Raw = NOTHING
    resourceClaims: Raw = NOTHING  # noqa: N815
    schedulingGroup: Raw = NOTHING  # noqa: N815
    workloadRef: Raw = NOTHING  # noqa: N815


class PodCondition(Struct):
    """One of `Pod.status.conditions`."""

    type: str = ""
    status: str = ""
    message: str | None = None
    reason: str | None = None


class PodStatus(Struct):
    """`Pod.status`"""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    nominatedNodeName: str | None = None  # noqa: N815
    startTime: str | None = None  # noqa: N815
    conditions: list[PodCondition] | None = None
    containerStatuses: Raw = NOTHING  # noqa: N815
    initContainerStatuses: Raw = NOTHING  # noqa: N815
    resources: Raw = NOTHING
    allocatedResources: Raw = NOTHING  # noqa: N815


class PodObject(Struct):
    """A Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class NetworkTopology(Struct):
    """`networkTopology`: how close pods must be (hard) or are preferred to be (soft) in the network."""

    mode: str | None = None
    highestTierAllowed: Int32 | None = None  # noqa: N815
    highestTierName: str | None = None  # noqa: N815


class SubGroupPolicy(Struct):
    """An entry of `PodGroup.spec.subGroupPolicy`: pods that form gangs within the gang."""

    name: str = ""
    labelSelector: Raw = NOTHING  # noqa: N815
    matchLabelKeys: Few[str] | None = None  # noqa: N815
    subGroupSize: Int32 | None = None  # noqa: N815
    minSubGroups: Int32 | None = None  # noqa: N815
    networkTopology: NetworkTopology | None = None  # noqa: N815


class PodParts(Struct):
    """A Pod whose metadata and spec stay raw: most updates of a pod only change its status."""

    metadata: Raw
    spec: Raw = NOTHING
    status: PodStatus | None = None


class PodGroupSpec(Struct):
    """`PodGroup.spec` (scheduling.volcano.sh)."""

    minMember: Int32 | None = None  # noqa: N815
    minTaskMember: Annotated[dict[str, Int32], Meta(max_length=ITEMS_MAX)] | None = None  # noqa: N815
    minResources: FewQuantities | None = None  # noqa: N815
    queue: str | None = None
    priorityClassName: str | None = None  # noqa: N815
    networkTopology: NetworkTopology | None = None  # noqa: N815
    subGroupPolicy: Few[SubGroupPolicy] | None = None  # noqa: N815


class GroupCondition(Struct, frozen=True):
    """An entry of `PodGroup.status.conditions`, without its times and transition ID."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(Struct):
    """`PodGroup.status`"""

    phase: str | None = None
    running: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    conditions: Few[GroupCondition] | None = None


class PodGroupObject(Struct):
    """A PodGroup."""

    metadata: Metadata
    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class Guarantee(Struct):
    """`Queue.spec.guarantee`"""

    resource: FewQuantities | None = None


class QueueSpec(Struct):
    """`Queue.spec` (scheduling.volcano.sh)."""

    weight: Int32 | None = None
    priority: Int32 | None = None
    reclaimable: bool | None = None
    capability: FewQuantities | None = None
    deserved: FewQuantities | None = None
    guarantee: Guarantee | None = None
    parent: str | None = None


class QueueStatus(Struct):
    """`Queue.status`"""

    state: str | None = None
    allocated: FewQuantities | None = None


class QueueObject(Struct):
    """A Queue."""

    metadata: Metadata
    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PlainObject(Struct):
    """An object of which only the metadata is read (Namespace, owners of pods)."""

    metadata: Metadata


ObjectT = TypeVar("ObjectT", bound=Struct)
_DECODERS: Final[dict[type[Struct], msgspec.json.Decoder[Struct]]] = {}


def _decoder_of(kind: type[Struct]) -> "msgspec.json.Decoder[Struct]":
    """Return the decoder of a type, made when it is first used."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder


def read(kind: type[ObjectT], content: bytes) -> ObjectT | str:
    """Return the object, or the reason why it cannot be read."""
    try:
        return decode_deep(content, _decoder_of(kind).decode)  # type: ignore[return-value]  # one decoder a type
    except msgspec.ValidationError as error:
        return clipped(str(error))


_POD = msgspec.json.Decoder(PodObject)
_PARTS = msgspec.json.Decoder(PodParts)
_POD_SPEC = msgspec.json.Decoder(PodSpec | None)


def read_parts(content: bytes) -> PodParts:
    """Return a pod in parts. Raise msgspec.ValidationError."""
    return _PARTS.decode(content)


def readable_pod(content: bytes) -> PodObject:
    """Return a whole pod. Raise msgspec.ValidationError."""
    return decode_deep(content, _POD.decode)


def read_pod_spec(raw: bytes) -> PodSpec:
    """Return the spec of a pod; an empty one if it is absent. Raise msgspec.ValidationError."""
    return (_POD_SPEC.decode(raw) if raw else None) or PodSpec()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def nanoseconds_of(timestamp: str | None) -> int:
    """Return nanoseconds since the epoch of an RFC 3339 time; 0 if it is absent or cannot be read."""
    if not timestamp or len(timestamp) > TIME_CHARS_MAX:
        return 0
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    delta = at - _EPOCH
    ns = (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000
    return max(-FARTHEST_NS, min(ns, FARTHEST_NS))
