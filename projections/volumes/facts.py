"""What muster reads of PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSIDrivers."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct

from events.limits import (
    NAME_BYTES_MAX,
    clipped,
    name_problem,
    object_name_problem,
    quoted,
)
from projections.objects import NOTHING, Few, Metadata, read
from projections.selector import NodeSelector
from projections.selector_terms import OPERATORS, StatedTerms, term_of

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
STORAGE_CLASS: Final = "StorageClass"
DRIVER: Final = "CSIDriver"

VOLUME_KINDS: Final = (CLAIM, VOLUME, STORAGE_CLASS, DRIVER)
"""Kinds that must be listed before a pod with a claim is placed."""

BOUND: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose binding the volume controller has completed; its value does not matter."""
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation that names the class of a claim or volume in place of the field, even if it is empty."""

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
SHARED_MODES: Final = ("ReadOnlyMany", "ReadWriteMany")
"""Access modes that allow several nodes."""

ZONE_KEYS: Final[Mapping[str, str]] = {
    "topology.kubernetes.io/zone": "",
    "topology.kubernetes.io/region": "",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of volumes that name a zone or region, to the label of a node that may serve in place of an old one."""

ZONE_SEPARATOR: Final = "__"
"""Separates the zones of a volume that is in several."""

ATTACHED_SOURCES: Final = (
    *("awsElasticBlockStore", "azureDisk", "cinder", "fc", "gcePersistentDisk", "iscsi"),
    *("portworxVolume", "rbd", "vsphereVolume"),
)
"""Sources of volumes without a CSI driver that are attached to one node at a time."""

INVALID_ZONE: Final = "InvalidZoneLabel"
"""Code of the error of a volume with a zone label that is ignored."""

IMMEDIATE: Final = "Immediate"
DELAYED: Final = "WaitForFirstConsumer"


class ClaimFacts(Struct, frozen=True):
    """A PersistentVolumeClaim."""

    owner: str = ""
    """UID of its controlling owner, or empty."""
    is_deleting: bool = False
    is_lost: bool = False
    """Whether its volume is gone (phase `Lost`)."""
    volume: str = ""
    """The volume that it names, or empty."""
    is_completed: bool = False
    """Whether the volume controller has completed its binding."""
    storage_class: str = ""
    modes: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Return whether it is bound to a volume."""
        return bool(self.volume) and self.is_completed


class VolumeFacts(Struct, frozen=True):
    """A PersistentVolume."""

    claim: str = ""
    """`namespace/name` of the claim to which it is bound or reserved, or empty."""
    affinity: NodeSelector | None = None
    """The nodes that can reach it; None for all."""
    problem: str = ""
    """Why its affinity cannot be read, or empty: then no node can reach it."""
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Zone labels, and the values that each allows."""
    modes: tuple[str, ...] = ()
    driver: str = ""
    """Its CSI driver, or empty."""
    is_attached: bool = False
    """Whether its source, without a CSI driver, is attached to a node."""
    is_local: bool = False
    """Whether it is a disk or directory of one node."""
    invalid_zones: tuple[str, ...] = ()
    """Zone labels whose values are ignored."""


class StorageClassFacts(Struct, frozen=True):
    """A StorageClass."""

    binding: str = ""
    """`volumeBindingMode`, or empty."""


class DriverFacts(Struct, frozen=True):
    """A CSIDriver."""

    attaches: bool = True
    """Whether its volumes are attached to nodes."""


class _ClaimSpec(Struct):
    volumeName: str | None = None  # noqa: N815
    storageClassName: str | None = None  # noqa: N815
    accessModes: Few[str] | None = None  # noqa: N815


class _Phase(Struct):
    phase: str | None = None


class _ClaimObject(Struct):
    metadata: Metadata
    spec: _ClaimSpec | None = None
    status: _Phase | None = None


class _ClaimRef(Struct):
    namespace: str | None = None
    name: str | None = None


class _NodeAffinity(Struct):
    required: StatedTerms | None = None


class _CsiSource(Struct):
    driver: str = ""


class _VolumeSpec(Struct):
    claimRef: _ClaimRef | None = None  # noqa: N815
    accessModes: Few[str] | None = None  # noqa: N815
    nodeAffinity: Raw = NOTHING  # noqa: N815
    csi: _CsiSource | None = None
    local: Raw = NOTHING
    hostPath: Raw = NOTHING  # noqa: N815


class _VolumeObject(Struct):
    metadata: Metadata
    spec: Raw = NOTHING


class _StorageClassObject(Struct):
    metadata: Metadata
    volumeBindingMode: str | None = None  # noqa: N815


class _DriverSpec(Struct):
    attachRequired: bool | None = None  # noqa: N815


class _DriverObject(Struct):
    metadata: Metadata
    spec: _DriverSpec | None = None


def claim_facts(content: bytes) -> ClaimFacts | str:
    """Return what muster reads of a PersistentVolumeClaim, or why it cannot be read."""
    obj = read(_ClaimObject, content)
    if isinstance(obj, str):
        return obj
    spec, annotations = obj.spec or _ClaimSpec(), obj.metadata.annotations or {}
    owners = obj.metadata.ownerReferences or ()
    found = ClaimFacts(
        owner=next((one.uid for one in owners if one.controller), ""),
        is_deleting=obj.metadata.deletionTimestamp is not None,
        is_lost=obj.status is not None and obj.status.phase == "Lost",
        volume=spec.volumeName or "",
        is_completed=BOUND in annotations,
        storage_class=annotations.get(BETA_CLASS, spec.storageClassName or ""),
        modes=tuple(spec.accessModes or ()),
    )
    names = (found.volume, found.storage_class, *found.modes)
    return next((text for one in names if (text := object_name_problem(one))), "") or found


def volume_facts(content: bytes) -> VolumeFacts | str:
    """Return what muster reads of a PersistentVolume, or why it cannot be read."""
    obj = read(_VolumeObject, content)
    if isinstance(obj, str):
        return obj
    raw = bytes(obj.spec) or b"{}"
    spec = read(_VolumeSpec, raw)
    if isinstance(spec, str):
        return f"spec: {spec}"
    claim, driver = spec.claimRef, "" if spec.csi is None else spec.csi.driver
    affinity, problem = _affinity(bytes(spec.nodeAffinity))
    zones, invalid = _zones(obj.metadata.labels or {})
    found = VolumeFacts(
        claim="" if claim is None else f"{claim.namespace or 'default'}/{claim.name or ''}",
        affinity=affinity,
        problem=clipped(problem),
        zones=zones,
        modes=tuple(spec.accessModes or ()),
        driver=driver,
        is_attached=not driver and any(f'"{one}"'.encode() in raw for one in ATTACHED_SOURCES),
        is_local=any(bytes(one) not in (b"", b"null") for one in (spec.local, spec.hostPath)),
        invalid_zones=invalid,
    )
    names = (driver, *found.modes)
    wrong = next((text for one in names if (text := object_name_problem(one))), "")
    return wrong or name_problem(found.claim, 2 * NAME_BYTES_MAX + 1) or found


def storage_class_facts(content: bytes) -> StorageClassFacts | str:
    """Return what muster reads of a StorageClass, or why it cannot be read."""
    obj = read(_StorageClassObject, content)
    return obj if isinstance(obj, str) else StorageClassFacts(obj.volumeBindingMode or "")


def driver_facts(content: bytes) -> DriverFacts | str:
    """Return what muster reads of a CSIDriver, or why it cannot be read."""
    obj = read(_DriverObject, content)
    if isinstance(obj, str):
        return obj
    return DriverFacts(obj.spec is None or obj.spec.attachRequired is not False)


def _affinity(raw: bytes) -> tuple[NodeSelector | None, str]:
    """Return the required node affinity of a volume, and why it cannot be read."""
    if raw in (b"", b"null"):
        return None, ""
    stated = read(_NodeAffinity, raw)
    if isinstance(stated, str):
        return None, f"nodeAffinity: {stated}"
    if stated.required is None:
        return None, ""
    terms = tuple(term_of(one) for one in stated.required.nodeSelectorTerms)
    for term in terms:
        for one in (*term.labels, *term.fields):
            if one.operator not in OPERATORS:
                return None, f"nodeAffinity: operator {quoted(one.operator)} is unknown"
    return NodeSelector(terms=terms), ""


def _zones(
    labels: Mapping[str, str],
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """Return the zone labels of a volume with the values that each allows, and those that are ignored."""
    found: list[tuple[str, tuple[str, ...]]] = []
    invalid: list[str] = []
    for key in ZONE_KEYS:
        if key not in labels:
            continue
        values = labels[key].split(ZONE_SEPARATOR)
        if all(values):
            found.append((key, tuple(sorted(dict.fromkeys(values)))))
        else:
            invalid.append(key)
    return tuple(found), tuple(invalid)
