"""StatefulSet: pods `name-0` to `name-(n-1)` that keep their names.

Pods are created one after the other, each when the one before runs, and the last is deleted first; all at once
with podManagementPolicy Parallel. If the template changed, pods are replaced one at a time, the last first, down to
the `partition` of the update strategy, unless that is OnDelete.
"""

from hashlib import sha256
from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from projections.volumes.facts import CLAIM
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, name_of, namespace_of, section, text_at, whole_at
from simulator.object_factory import ObjectFactory, PodOverrides
from simulator.object_store import Key
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import kind_named
from simulator.volume_controller import claim_volumes

_STATEFUL_SET: Final = kind_named("StatefulSet")
_CLAIM: Final = kind_named(CLAIM)
_REVISION: Final = "controller-revision-hash"


def reconcile_stateful_set(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Create, replace and delete pods, and update the status."""
    spec = section(owner, "spec")
    replicas = whole_at(spec, "replicas", 1)
    is_ordered = text_at(spec, "podManagementPolicy") != "Parallel"
    is_whole = _make(factory, owner, children, is_ordered=is_ordered)
    extra = [key for key in children.of("Pod") if not 0 <= _ordinal(owner, key) < replicas]
    extra.sort(key=lambda key: -_ordinal(owner, key))
    for key in extra:
        if children.all[key] is not ChildState.STOPPING:
            factory.delete_unwanted(key, children)
        if is_ordered:
            break
    if is_whole and not extra:
        _update(factory, owner, children)
    _update_status(factory, owner, children)


def _make(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, *, is_ordered: bool
) -> bool:
    """Create missing pods; return True if all of them run."""
    spec = section(owner, "spec")
    is_whole = True
    for index in range(whole_at(spec, "replicas", 1)):
        key = _key(owner, index)
        child = children.all.get(key)
        if child in (ChildState.SUCCEEDED, ChildState.FAILED):
            factory.delete_unwanted(key, children)
        if child is None:
            labels = {
                "apps.kubernetes.io/pod-index": str(index),
                "statefulset.kubernetes.io/pod-name": key[2],
                _REVISION: factory.revision(revision_of(owner)),
            }
            marks = PodOverrides(labels, spec=_volumes(factory, owner, key[2]))
            factory.make_pod(owner, children, section(spec, "template"), key[2], marks=marks)
        if child is not ChildState.RUNNING:
            is_whole = False
            if is_ordered:
                break
    return is_whole


def _volumes(factory: ObjectFactory, owner: Manifest, pod: str) -> dict[str, Json]:
    """Create the claims of a pod, one for each volumeClaimTemplate, unless they exist; they outlive the pod. Return what
    they add to its spec."""
    templates = list_at(section(owner, "spec"), "volumeClaimTemplates")
    claims: dict[str, str] = {}
    for template in templates:
        name = name_of(dict(template))
        claims[name] = f"{name}-{pod}"
        if factory.store.find((CLAIM, namespace_of(owner), claims[name])) is None:
            metadata: JsonObject = {"name": claims[name], "namespace": namespace_of(owner)}
            claim: Manifest = {
                "apiVersion": "v1",
                "kind": CLAIM,
                "metadata": metadata,
                "spec": dict(section(template, "spec")),
            }
            factory.store.put(_CLAIM, claim)
    if not claims:
        return {}
    of_template = list_at(section(owner, "spec", "template", "spec"), "volumes")
    others = [dict(one) for one in of_template if one.get("name") not in claims]
    return {"volumes": [*others, *claim_volumes(claims)]}


def _update(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Delete the last pod of an older template; it is created again from the present one."""
    strategy = section(owner, "spec", "updateStrategy")
    if text_at(strategy, "type") == "OnDelete":
        return
    partition = whole_at(section(strategy, "rollingUpdate"), "partition", 0)
    revision = factory.revision(revision_of(owner))
    for index in reversed(range(partition, whole_at(section(owner, "spec"), "replicas", 1))):
        key = _key(owner, index)
        pod = factory.store.find(key) or {}
        if text_at(section(pod, "metadata", "labels"), _REVISION) not in ("", revision):
            factory.delete_unwanted(key, children)
            return


def _update_status(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    ready = children.counts[ChildState.RUNNING]
    counts = {
        "replicas": ready + children.counts[ChildState.ACTIVE],
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    status: JsonObject = {
        **{name: count for name, count in counts.items() if count},
        "updateRevision": factory.revision(revision_of(owner)),
    }
    if status != section(owner, "status"):
        factory.store.put(_STATEFUL_SET, {**owner, "status": status})


def _key(owner: Manifest, index: int) -> Key:
    return "Pod", namespace_of(owner), f"{name_of(owner)}-{index}"


def _ordinal(owner: Manifest, key: Key) -> int:
    """The ordinal of a pod; -1 if its name has none."""
    number = key[2].removeprefix(name_of(owner) + "-")
    return int(number) if number.isdecimal() else -1


def revision_of(owner: Manifest) -> str:
    """Return the revision of the present template: equal templates have equal ones."""
    template = msgspec.json.encode(section(owner, "spec", "template"), order="sorted")
    return f"{name_of(owner)}-{sha256(template).hexdigest()[:10]}"
