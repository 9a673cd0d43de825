"""PersistentVolumeClaim, PersistentVolume, StorageClass and CSIDriver: where the volumes of pods are."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.config_errors import Pairs
from projections.observed_kind import INVALID, ObservedKind, Reading
from projections.volumes.claim_users import wake_for_volumes
from projections.volumes.facts import (
    CLAIM,
    DRIVER,
    INVALID_ZONE,
    STORAGE_CLASS,
    VOLUME,
    ClaimFacts,
    DriverFacts,
    StorageClassFacts,
    VolumeFacts,
    claim_facts,
    driver_facts,
    storage_class_facts,
    volume_facts,
)

CLAIMS: Final = Resource(
    CLAIM,
    "persistentvolumeclaims",
    short_names=("pvc",),
    has_generation=False,
)
VOLUMES: Final = Resource(
    VOLUME,
    "persistentvolumes",
    is_namespaced=False,
    short_names=("pv",),
    has_generation=False,
)
STORAGE_CLASSES: Final = Resource(
    STORAGE_CLASS,
    "storageclasses",
    "storage.k8s.io",
    is_namespaced=False,
    short_names=("sc",),
    subresources=(),
    has_generation=False,
)
DRIVERS: Final = Resource(
    DRIVER,
    "csidrivers",
    "storage.k8s.io",
    is_namespaced=False,
    subresources=(),
    has_generation=False,
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    wake_for_volumes(cluster, reading.subject)


def _apply_volume(cluster: Cluster, reading: Reading) -> None:
    facts = cluster.object_facts.get(VOLUME, {}).get(reading.subject.partition("/")[2])
    if isinstance(facts, VolumeFacts):
        cluster.config_errors.put(reading.subject, (*reading.faults, *_faults(facts)))
    wake_for_volumes(cluster, reading.subject)


def _faults(facts: VolumeFacts) -> Pairs:
    found = [
        (INVALID_ZONE, f"label {key} has an empty part and is ignored")
        for key in facts.invalid_zones
    ]
    return (*((INVALID, one) for one in (facts.problem,) if one), *found)


def _drop(cluster: Cluster, subject: str, _uid: str) -> None:
    wake_for_volumes(cluster, subject)


def _summarize_claim(content: bytes) -> list[str]:
    facts = claim_facts(content)
    if isinstance(facts, str):
        return [facts]
    return [
        f"bound to {facts.volume}" if facts.is_bound else "not bound",
        "its volume is lost" if facts.is_lost else "",
        "being deleted" if facts.is_deleting else "",
        f"class {facts.storage_class}" if facts.storage_class else "",
        ", ".join(facts.modes),
    ]


def _summarize_volume(content: bytes) -> list[str]:
    facts = volume_facts(content)
    if isinstance(facts, str):
        return [facts]
    return [
        f"for claim {facts.claim}" if facts.claim else "free",
        "on some nodes only" if facts.affinity is not None else "",
        *(f"{key} {' or '.join(values)}" for key, values in facts.zones),
        f"driver {facts.driver}" if facts.driver else "",
        facts.problem,
    ]


def _summarize_class(content: bytes) -> list[str]:
    facts = storage_class_facts(content)
    return [facts if isinstance(facts, str) else f"binds claims {facts.binding or 'never'}"]


def _summarize_driver(content: bytes) -> list[str]:
    facts = driver_facts(content)
    if isinstance(facts, str):
        return [facts]
    return ["its volumes are attached to nodes" if facts.attaches else "no volume is attached"]


def _kind(
    resource: Resource,
    why: str,
    facts: type[Struct],
    facts_of: Callable[[bytes], Struct | str],
    summarize: Callable[[bytes], list[str]],
    apply: Callable[[Cluster, Reading], None] = _apply,
) -> ObservedKind:
    return ObservedKind(
        resource=resource,
        why=why,
        apply=apply,
        drop=_drop,
        facts=facts,
        facts_of=facts_of,
        summarize=summarize,
    )


CLAIM_KIND: Final = _kind(
    CLAIMS, "which volumes pods use", ClaimFacts, claim_facts, _summarize_claim
)
VOLUME_KIND: Final = _kind(
    VOLUMES,
    "from which nodes a volume can be reached",
    VolumeFacts,
    volume_facts,
    _summarize_volume,
    _apply_volume,
)
CLASS_KIND: Final = _kind(
    STORAGE_CLASSES,
    "when claims are bound",
    StorageClassFacts,
    storage_class_facts,
    _summarize_class,
)
DRIVER_KIND: Final = _kind(
    DRIVERS,
    "whether volumes are attached to one node",
    DriverFacts,
    driver_facts,
    _summarize_driver,
)
OF_VOLUMES: Final = (CLASS_KIND, DRIVER_KIND, VOLUME_KIND, CLAIM_KIND)
"""All of them, those first that others refer to."""
