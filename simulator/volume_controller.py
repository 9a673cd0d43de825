"""The volume controllers of the simulated cluster, as far as claims are bound at once: a claim that names its volume, one
for which there is a free volume, and one whose storage class makes a volume immediately. Claims of classes that wait for a
first consumer stay unbound.

The claim of an ephemeral volume is created with its pod and deleted with it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from events.normalize import Json, JsonObject
from projections.volumes.facts import (
    BETA_CLASS,
    BOUND,
    CLAIM,
    IMMEDIATE,
    STORAGE_CLASS,
    VOLUME,
)
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    amounts,
    changed,
    controller_of,
    is_terminating,
    list_at,
    name_of,
    namespace_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_factory import owner_reference
from simulator.object_store import Change, Key, Store
from simulator.scenario import kind_named

_CLAIM: Final = kind_named(CLAIM)
_VOLUME: Final = kind_named(VOLUME)
_STATIC: Final = "kubernetes.io/no-provisioner"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


class VolumeController:
    """Binds claims to volumes, and creates and deletes the claims of ephemeral volumes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_change(self, change: Change) -> None:
        """React to a changed claim, volume or class, or to a pod that was created or deleted."""
        kind = change.key[0]
        if kind == "Pod":
            self._on_pod(change)
        elif kind == CLAIM and change.after is not None:
            self._bind(change.key)
        elif kind == CLAIM and change.before is not None:
            self._release(change.before)
        elif kind in (VOLUME, STORAGE_CLASS) and change.after is not None:
            for key in sorted(self._store.objects().get(CLAIM, {})):
                self._bind(key)

    def _on_pod(self, change: Change) -> None:
        pod = change.after or change.before
        assert pod is not None
        for volume in list_at(section(pod, "spec"), "volumes"):
            template = section(volume, "ephemeral", "volumeClaimTemplate")
            if "ephemeral" not in volume:
                continue
            key: Key = (CLAIM, namespace_of(pod), f"{name_of(pod)}-{text_at(volume, 'name')}")
            there = self._store.find(key)
            if change.after is None:
                if there is not None and controller_of(there) == uid_of(pod):
                    self._store.remove(key)
            elif there is None and change.before is None:
                self._store.put(_CLAIM, _ephemeral_claim(pod, key, template))

    def _bind(self, key: Key) -> None:
        claim = self._store.find(key)
        if claim is None or is_terminating(claim) or _is_bound(claim):
            return
        volume = self._volume_for(claim)
        if volume is None:
            return
        reference: JsonObject = {
            "apiVersion": "v1",
            "kind": CLAIM,
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
        }
        spec: JsonObject = {**section(volume, "spec"), "claimRef": reference}
        self._store.put(_VOLUME, {**volume, "spec": spec, "status": {"phase": "Bound"}})
        annotations: JsonObject = {**section(claim, "metadata", "annotations"), BOUND: "yes"}
        bound = changed(claim, "metadata", annotations=annotations)
        bound = changed(bound, "spec", volumeName=name_of(volume))
        modes = section(volume, "spec").get("accessModes", [])
        status: JsonObject = {
            "phase": "Bound",
            "accessModes": modes,
            "capacity": dict(section(volume, "spec", "capacity")),
        }
        self._store.put(_CLAIM, {**bound, "status": status})

    def _volume_for(self, claim: Manifest) -> Manifest | None:
        """Return the volume to which a claim is bound now: the one that it names, one that is reserved for it, the smallest
        free one, or a new one; None if it waits."""
        if named := text_at(section(claim, "spec"), "volumeName"):
            volume = self._store.find((VOLUME, "", named))
            is_open = volume is not None and (
                not section(volume, "spec", "claimRef") or _is_reserved(volume, claim)
            )
            return volume if is_open else None
        volumes = [one for _, one in sorted(self._store.objects().get(VOLUME, {}).items())]
        reserved = [one for one in volumes if _is_reserved(one, claim)]
        if reserved:
            return reserved[0]
        class_name = _class_of(claim)
        storage_class = self._store.find((STORAGE_CLASS, "", class_name)) or {}
        if class_name and text_at(storage_class, "volumeBindingMode") != IMMEDIATE:
            return None
        free = [one for one in volumes if _suits(one, claim)]
        if free:
            return min(free, key=_size_of_volume)
        if text_at(storage_class, "provisioner") in ("", _STATIC):
            return None
        return self._store.put(_VOLUME, _new_volume(claim, storage_class))

    def _release(self, claim: Manifest) -> None:
        """Delete or release the volume of a claim that is gone."""
        for key, volume in sorted(self._store.objects().get(VOLUME, {}).items()):
            if text_at(section(volume, "spec", "claimRef"), "uid") != uid_of(claim):
                continue
            if text_at(section(volume, "spec"), "persistentVolumeReclaimPolicy") == "Delete":
                self._store.remove(key)
            else:
                self._store.put(_VOLUME, {**volume, "status": {"phase": "Released"}})
            return


def job_volumes(owner: Manifest) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yield the claims that the `volumes` of a Volcano Job name, and the spec of each that the job creates; else an empty
    one. A claim without a name gets that of the job and a number."""
    for number, volume in enumerate(list_at(section(owner, "spec"), "volumes")):
        named = text_at(volume, "volumeClaimName")
        yield named or f"{name_of(owner)}-volume-{number}", section(volume, "volumeClaim")


def claim_volumes(claims: Mapping[str, str]) -> list[Json]:
    """Return volumes of a pod: name of the volume to the claim that it names."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in claims.items()
    ]


def _ephemeral_claim(pod: Manifest, key: Key, template: Mapping[str, Json]) -> Manifest:
    metadata: JsonObject = {
        **section(template, "metadata"),
        "name": key[2],
        "namespace": key[1],
        "ownerReferences": [owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})],
    }
    spec: JsonObject = dict(section(template, "spec"))
    return {"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec}


def _new_volume(claim: Manifest, storage_class: Manifest) -> Manifest:
    spec, provisioner = section(claim, "spec"), text_at(storage_class, "provisioner")
    name = f"pvc-{uid_of(claim)}"
    made: JsonObject = {
        "capacity": dict(section(spec, "resources", "requests")),
        "accessModes": spec.get("accessModes", []),
        "storageClassName": _class_of(claim),
        "persistentVolumeReclaimPolicy": text_at(storage_class, "reclaimPolicy") or "Delete",
        "csi": {"driver": provisioner, "volumeHandle": name},
    }
    terms: list[Json] = [
        {"matchExpressions": [{**one, "operator": "In"} for one in _labels(topology)]}
        for topology in list_at(storage_class, "allowedTopologies")
    ]
    if terms:
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata: JsonObject = {"name": name, "annotations": {_PROVISIONED_BY: provisioner}}
    return {"apiVersion": "v1", "kind": VOLUME, "metadata": metadata, "spec": made}


def _labels(topology: Mapping[str, Json]) -> list[JsonObject]:
    return [
        {"key": text_at(one, "key"), "values": one.get("values", [])}
        for one in list_at(topology, "matchLabelExpressions")
    ]


def _is_bound(claim: Manifest) -> bool:
    is_named = bool(text_at(section(claim, "spec"), "volumeName"))
    return is_named and BOUND in section(claim, "metadata", "annotations")


def _class_of(manifest: Manifest) -> str:
    annotations = section(manifest, "metadata", "annotations")
    if BETA_CLASS in annotations:
        return text_at(annotations, BETA_CLASS)
    return text_at(section(manifest, "spec"), "storageClassName")


def _is_reserved(volume: Manifest, claim: Manifest) -> bool:
    """Return True if the claimRef of a volume names a claim."""
    reference = section(volume, "spec", "claimRef")
    return (
        text_at(reference, "name") == name_of(claim)
        and (text_at(reference, "namespace") or "default") == namespace_of(claim)
        and text_at(reference, "uid") in ("", uid_of(claim))
    )


def _suits(volume: Manifest, claim: Manifest) -> bool:
    """Return True if a volume is free and fits a claim."""
    spec, asked = section(volume, "spec"), section(claim, "spec")
    labels = section(volume, "metadata", "labels")
    selected = section(asked, "selector", "matchLabels")
    return (
        not section(spec, "claimRef")
        and not is_terminating(volume)
        and _class_of(volume) == _class_of(claim)
        and _mode(spec) == _mode(asked)
        and _modes(asked) <= _modes(spec)
        and _size(section(asked, "resources", "requests")) <= _size(section(spec, "capacity"))
        and all(labels.get(key) == value for key, value in selected.items())
    )


def _size_of_volume(volume: Manifest) -> tuple[int, str]:
    return _size(section(volume, "spec", "capacity")), name_of(volume)


def _size(stated: Mapping[str, Json]) -> int:
    return amounts({"memory": stated.get("storage", 0)}).get("memory", 0)


def _mode(spec: Mapping[str, Json]) -> str:
    return text_at(spec, "volumeMode") or "Filesystem"


def _modes(spec: Mapping[str, Json]) -> frozenset[str]:
    found = spec.get("accessModes")
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()
