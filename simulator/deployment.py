"""Deployment: one ReplicaSet per template, replaced by the next one step by step (rule K10.3).

A rolling update keeps at most `replicas + maxSurge` pods, and at least `replicas - maxUnavailable` running
ones: the new ReplicaSet grows as far as the first allows, the old ones shrink as far as the second does, pods
that do not run first. Recreate stops all old pods before it starts new ones. A paused Deployment is scaled, and
not rolled out. A template that was used before gets its ReplicaSet back.
"""

from collections.abc import Mapping
from typing import Final

from events.normalize import Json, JsonObject
from simulator.manifest import Manifest
from simulator.manifest_fields import changed, name_of, section, text_at, whole_at
from simulator.object_factory import ObjectFactory, PodOverrides
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import kind_named

_DEPLOYMENT: Final = kind_named("Deployment")
_REPLICA_SET: Final = kind_named("ReplicaSet")
_REVISION: Final = "deployment.kubernetes.io/revision"
_HASH: Final = "pod-template-hash"
DEFAULT_SHARE: Final = "25%"
"""Default of maxSurge and maxUnavailable: share of the replicas."""


def reconcile_deployment(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Find or create the ReplicaSet of the template, and do one step of the roll-out."""
    spec = section(owner, "spec")
    found = [one for key in children.of("ReplicaSet") if (one := factory.store.find(key))]
    sets = sorted(found, key=_revision)
    newest = next((one for one in sets if _template(one) == _template(owner)), None)
    if spec.get("paused") is True:
        _scale_paused(factory, owner, sets)
    elif newest is None:
        _make_set(factory, owner, sets)
    elif sets[-1] is not newest:
        _make_newest(factory, owner, newest, _revision(sets[-1]) + 1)
    elif (annotations := _annotations(owner, newest)) != section(newest, "metadata", "annotations"):
        factory.store.put(_REPLICA_SET, changed(newest, "metadata", annotations=annotations))
    elif text_at(section(spec, "strategy"), "type") == "Recreate":
        _recreate(factory, owner, sets)
    else:
        _roll(factory, owner, sets)
    _update_status(factory, owner, sets)


def reconcile_replica_set(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Keep the wanted number of active pods; surplus pods without a node are deleted first, then the youngest."""
    spec = section(owner, "spec")
    replicas, template = whole_at(spec, "replicas", 1), section(spec, "template")
    for _ in range(children.active, replicas):
        factory.make_pod(
            owner, children, template, factory.number(owner, children), marks=PodOverrides()
        )
    if children.active > replicas:
        youngest = reversed(children.pods())
        order = sorted(youngest, key=lambda key: children.all[key] is ChildState.RUNNING)
        for key in order[: children.active - replicas]:
            factory.delete_unwanted(key, children)
    ready = children.counts[ChildState.RUNNING]
    counts = {
        "replicas": ready + children.counts[ChildState.ACTIVE],
        "readyReplicas": ready,
        "availableReplicas": ready,
        "terminatingReplicas": children.counts[ChildState.STOPPING],
    }
    status: JsonObject = {name: count for name, count in counts.items() if count}
    if status != section(owner, "status"):
        factory.store.put(_REPLICA_SET, {**owner, "status": status})


def _make_set(factory: ObjectFactory, owner: Manifest, sets: list[Manifest]) -> None:
    """Create a ReplicaSet for a new template, named by its number. It is scaled step by step."""
    revision = str(_revision(sets[-1]) + 1 if sets else 1)
    template = _template(owner)
    labels: JsonObject = {**section(template, "metadata", "labels"), _HASH: revision}
    metadata: JsonObject = {**section(template, "metadata"), "labels": labels}
    selector: JsonObject = dict(section(owner, "spec", "selector"))
    annotations = {**section(owner, "metadata", "annotations"), _REVISION: revision}
    factory.make(
        owner,
        _REPLICA_SET,
        f"{name_of(owner)}-{revision}",
        {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "replicas": _wanted(owner) if not sets else 0,
                "selector": selector,
                "template": {**template, "metadata": metadata},
            },
        },
    )


def _make_newest(factory: ObjectFactory, owner: Manifest, chosen: Manifest, revision: int) -> None:
    """Make an older ReplicaSet the newest again."""
    annotations = {**_annotations(owner, chosen), _REVISION: str(revision)}
    factory.store.put(_REPLICA_SET, changed(chosen, "metadata", annotations=annotations))


def _annotations(owner: Manifest, replica_set: Manifest) -> JsonObject:
    """The annotations of a ReplicaSet, updated from its Deployment."""
    return {
        **section(replica_set, "metadata", "annotations"),
        **section(owner, "metadata", "annotations"),
    }


def _scale_paused(factory: ObjectFactory, owner: Manifest, sets: list[Manifest]) -> None:
    """A paused Deployment scales its newest ReplicaSet that has pods."""
    more = _wanted(owner) - sum(_replicas(one) for one in sets)
    chosen = next((one for one in reversed(sets) if _replicas(one)), sets[-1] if sets else None)
    if chosen is not None and more:
        _scale(factory, chosen, max(0, _replicas(chosen) + more))


def _recreate(factory: ObjectFactory, owner: Manifest, sets: list[Manifest]) -> None:
    old = sets[:-1]
    for one in old:
        _scale(factory, one, 0)
    left = ("replicas", "terminatingReplicas")
    if not any(_replicas(one) + sum(_count(one, name) for name in left) for one in old):
        _scale(factory, sets[-1], _wanted(owner))


def _roll(factory: ObjectFactory, owner: Manifest, sets: list[Manifest]) -> None:
    """One step of a rolling update: scale the new ReplicaSet up, or else the old ones down."""
    newest, old, wanted = sets[-1], sets[:-1], _wanted(owner)
    surge, unavailable = _limits(owner, wanted)
    total = sum(_replicas(one) for one in sets)
    if _replicas(newest) > wanted or not any(_replicas(one) for one in old):
        _scale(factory, newest, wanted)
        return
    more = min(wanted + surge - total, wanted - _replicas(newest))
    if more > 0:
        _scale(factory, newest, _replicas(newest) + more)
        return
    least = wanted - unavailable
    lacking = _replicas(newest) - _count(newest, "availableReplicas")
    spare = total - least - lacking
    for one in old:
        # Pods that do not run are deleted first: availability does not change.
        fewer = min(spare, _replicas(one) - _count(one, "availableReplicas"))
        if fewer > 0:
            _scale(factory, one, _replicas(one) - fewer)
            return
    spare = min(spare, sum(_count(one, "availableReplicas") for one in sets) - least)
    for one in old:
        fewer = min(spare, _replicas(one))
        if fewer > 0:
            _scale(factory, one, _replicas(one) - fewer)
            return


def _limits(owner: Manifest, wanted: int) -> tuple[int, int]:
    """`maxSurge`, rounded up, and `maxUnavailable`, rounded down; at least one of them is 1."""
    rolling = section(owner, "spec", "strategy", "rollingUpdate")
    surge = _share(rolling, "maxSurge", wanted, is_rounded_up=True)
    unavailable = _share(rolling, "maxUnavailable", wanted, is_rounded_up=False)
    return surge, unavailable if surge or unavailable else 1


def _share(rolling: Mapping[str, Json], key: str, wanted: int, *, is_rounded_up: bool) -> int:
    value = rolling.get(key, DEFAULT_SHARE)
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        hundredths = int(value[:-1]) * wanted
        return -(-hundredths // 100) if is_rounded_up else hundredths // 100
    return value if isinstance(value, int) else 0


def _update_status(factory: ObjectFactory, owner: Manifest, sets: list[Manifest]) -> None:
    newest = next((one for one in sets if _template(one) == _template(owner)), {})
    available = sum(_count(one, "availableReplicas") for one in sets)
    counts = {
        "replicas": sum(_count(one, "replicas") for one in sets),
        "updatedReplicas": _count(newest, "replicas"),
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": max(0, _wanted(owner) - available),
    }
    status: JsonObject = {name: count for name, count in counts.items() if count}
    if status != section(owner, "status"):
        factory.store.put(_DEPLOYMENT, {**owner, "status": status})


def _scale(factory: ObjectFactory, replica_set: Manifest, replicas: int) -> None:
    if _replicas(replica_set) != replicas:
        factory.store.put(_REPLICA_SET, changed(replica_set, "spec", replicas=replicas))


def _template(manifest: Manifest) -> JsonObject:
    """The template without the label that the Deployment added."""
    template: JsonObject = dict(section(manifest, "spec", "template"))
    metadata: JsonObject = dict(section(template, "metadata"))
    labels: JsonObject = {
        key: value for key, value in section(metadata, "labels").items() if key != _HASH
    }
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    template.pop("metadata", None)
    return {**template, "metadata": metadata} if metadata else template


def _revision(replica_set: Manifest) -> int:
    text = text_at(section(replica_set, "metadata", "annotations"), _REVISION)
    return int(text) if text.isdecimal() else 0


def _wanted(owner: Manifest) -> int:
    return whole_at(section(owner, "spec"), "replicas", 1)


def _replicas(replica_set: Manifest) -> int:
    return whole_at(section(replica_set, "spec"), "replicas", 1)


def _count(replica_set: Manifest, name: str) -> int:
    return whole_at(section(replica_set, "status"), name, 0)
