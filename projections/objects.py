"""Kubernetes objects as far as muster reads them. Unknown fields are ignored, never rejected.

What decides on equality of pods (`projections/pod_class.py`) stays raw: the log's objects are canonical
JSON, so equal demands are equal bytes.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

Quantity = str | int | float
Quantities = dict[str, Quantity]
_NOTHING = Raw(b"")


class Owner(Struct):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


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
    taints: list[Taint] | None = None


class NodeImages(Struct):
    """An image that a node has, under all its names."""

    names: list[str] | None = None
    sizeBytes: int = 0  # noqa: N815


class NodeStatus(Struct):
    """`Node.status`"""

    images: list[NodeImages] | None = None

    allocatable: Quantities | None = None
    capacity: Quantities | None = None


class NodeObject(Struct):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Container(Struct):
    """A container, as far as it makes demands."""

    image: str | None = None
    resources: Raw = _NOTHING
    ports: Raw = _NOTHING
    restartPolicy: str | None = None  # noqa: N815


class PodSpec(Struct):
    """`Pod.spec`"""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815
    nodeName: str | None = None  # noqa: N815
    schedulerName: str | None = None  # noqa: N815
    priority: int | None = None
    priorityClassName: str | None = None  # noqa: N815
    preemptionPolicy: str | None = None  # noqa: N815
    schedulingGates: list[Raw] | None = None  # noqa: N815
    overhead: Raw = _NOTHING
    resources: Raw = _NOTHING
    nodeSelector: Raw = _NOTHING  # noqa: N815
    affinity: Raw = _NOTHING
    tolerations: Raw = _NOTHING
    topologySpreadConstraints: Raw = _NOTHING  # noqa: N815
    volumes: Raw = _NOTHING
    resourceClaims: Raw = _NOTHING  # noqa: N815


class PodCondition(Struct):
    """One of `Pod.status.conditions`."""

    type: str = ""
    status: str = ""
    message: str | None = None


class PodStatus(Struct):
    """`Pod.status`"""

    phase: str | None = None
    reason: str | None = None
    nominatedNodeName: str | None = None  # noqa: N815
    conditions: list[PodCondition] | None = None


class PodObject(Struct):
    """A Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class NetworkTopology(Struct):
    """How close pods must be, or had better be, in the network."""

    mode: str | None = None
    highestTierAllowed: int | None = None  # noqa: N815
    highestTierName: str | None = None  # noqa: N815


class SubGroupPolicy(Struct):
    """One of `PodGroup.spec.subGroupPolicy`: pods that make up gangs inside the gang."""

    name: str = ""
    labelSelector: Raw = _NOTHING  # noqa: N815
    matchLabelKeys: list[str] | None = None  # noqa: N815
    subGroupSize: int | None = None  # noqa: N815
    minSubGroups: int | None = None  # noqa: N815
    networkTopology: NetworkTopology | None = None  # noqa: N815


class PodParts(Struct):
    """A Pod whose metadata and spec stay raw: most sights of a pod only show another status."""

    metadata: Raw
    spec: Raw = _NOTHING
    status: PodStatus | None = None


class PodGroupSpec(Struct):
    """`PodGroup.spec` (scheduling.volcano.sh)."""

    minMember: int | None = None  # noqa: N815
    minTaskMember: dict[str, int] | None = None  # noqa: N815
    minResources: Quantities | None = None  # noqa: N815
    queue: str | None = None
    priorityClassName: str | None = None  # noqa: N815
    networkTopology: NetworkTopology | None = None  # noqa: N815
    subGroupPolicy: list[SubGroupPolicy] | None = None  # noqa: N815


class GroupCondition(Struct, frozen=True):
    """One of `PodGroup.status.conditions`; its time and its transition do not matter."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(Struct):
    """`PodGroup.status`"""

    phase: str | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    conditions: list[GroupCondition] | None = None


class PodGroupObject(Struct):
    """A PodGroup."""

    metadata: Metadata
    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class Guarantee(Struct):
    """`Queue.spec.guarantee`"""

    resource: Quantities | None = None


class QueueSpec(Struct):
    """`Queue.spec` (scheduling.volcano.sh)."""

    weight: int | None = None
    priority: int | None = None
    reclaimable: bool | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None
    parent: str | None = None


class QueueStatus(Struct):
    """`Queue.status`"""

    state: str | None = None
    allocated: Quantities | None = None


class QueueObject(Struct):
    """A Queue."""

    metadata: Metadata
    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PriorityClassObject(Struct):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0
    globalDefault: bool | None = None  # noqa: N815


class BudgetSpec(Struct):
    """`PodDisruptionBudget.spec`"""

    selector: Raw = _NOTHING
    minAvailable: int | str | None = None  # noqa: N815
    maxUnavailable: int | str | None = None  # noqa: N815


class BudgetObject(Struct):
    """A PodDisruptionBudget."""

    metadata: Metadata
    spec: BudgetSpec | None = None


class ExactMatch(Struct):
    """A member by its name."""

    name: str = ""


class RegexMatch(Struct):
    """Members by a pattern of their names."""

    pattern: str = ""


class MemberSelector(Struct):
    """Who is meant: one of the three."""

    exactMatch: ExactMatch | None = None  # noqa: N815
    regexMatch: RegexMatch | None = None  # noqa: N815
    labelMatch: Raw = _NOTHING  # noqa: N815


class MemberEntry(Struct):
    """One of `HyperNode.spec.members`."""

    type: str = ""
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(Struct):
    """`HyperNode.spec` (topology.volcano.sh)."""

    tier: int = 0
    tierName: str | None = None  # noqa: N815
    members: list[MemberEntry] | None = None


class HyperNodeObject(Struct):
    """A HyperNode."""

    metadata: Metadata
    spec: HyperNodeSpec | None = None


class PlainObject(Struct):
    """An object of which only the metadata is read (Namespace, owners of pods)."""

    metadata: Metadata


ObjectT = TypeVar(
    "ObjectT",
    NodeObject,
    PodObject,
    PodGroupObject,
    QueueObject,
    PriorityClassObject,
    BudgetObject,
    HyperNodeObject,
    PlainObject,
)
_DECODERS = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        NodeObject,
        PodObject,
        PodGroupObject,
        QueueObject,
        PriorityClassObject,
        BudgetObject,
        HyperNodeObject,
        PlainObject,
    )
}


def read(kind: type[ObjectT], content: bytes) -> ObjectT | str:
    """The object, or the reason why it cannot be read."""
    try:
        return _DECODERS[kind].decode(content)  # type: ignore[return-value]  # one decoder a kind
    except msgspec.ValidationError as error:
        return str(error)


_PARTS = msgspec.json.Decoder(PodParts)
_METADATA = msgspec.json.Decoder(Metadata)
_POD_SPEC = msgspec.json.Decoder(PodSpec | None)


def read_parts(content: bytes) -> PodParts:
    """A pod in parts. Raises msgspec.ValidationError."""
    return _PARTS.decode(content)


def readable_pod(content: bytes) -> PodObject:
    """A pod whole. Raises msgspec.ValidationError."""
    return _DECODERS[PodObject].decode(content)  # type: ignore[return-value]  # one decoder a kind


def read_metadata(raw: bytes) -> Metadata:
    """The metadata of an object. Raises msgspec.ValidationError."""
    return _METADATA.decode(raw)


def read_pod_spec(raw: bytes) -> PodSpec:
    """The spec of a pod; an empty one where there is none. Raises msgspec.ValidationError."""
    return (_POD_SPEC.decode(raw) if raw else None) or PodSpec()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def nanoseconds_of(timestamp: str | None) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time; 0 where there is none or it cannot be read."""
    if not timestamp:
        return 0
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    delta = at - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000
