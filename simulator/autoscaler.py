"""HorizontalPodAutoscaler: it sets the replicas of its target to what an annotation asks for.

A simulated cluster has no load: an annotation of the autoscaler states the wanted replicas. They are kept
within `minReplicas` and `maxReplicas` and applied at once, without metrics, tolerance or the windows of
`behavior`. A target with 0 replicas is not scaled.
"""

from events.normalize import Json, JsonObject
from simulator.manifest import AUTOSCALER, Manifest, kind_of
from simulator.manifest_fields import changed, namespace_of, section, text_at, whole_at
from simulator.object_factory import ObjectFactory
from simulator.object_store import Key
from simulator.owned_objects import OwnedObjects
from simulator.workload_validation import WANTED_REPLICAS


def reconcile_autoscaler(factory: ObjectFactory, owner: Manifest, _: OwnedObjects) -> None:
    """Scale the target, and report it in the status."""
    target = factory.store.find(target_of(owner))
    if target is None:
        _update_status(factory, owner, {}, ("AbleToScale", "False", "FailedGetScale"))
        return
    current = whole_at(section(target, "spec"), "replicas", 1)
    if current == 0:
        _update_status(factory, owner, {}, ("ScalingActive", "False", "ScalingDisabled"))
        return
    value = text_at(section(owner, "metadata", "annotations"), WANTED_REPLICAS)
    wanted = int(value) if value.isdecimal() else current
    spec = section(owner, "spec")
    least, most = whole_at(spec, "minReplicas", 1), whole_at(spec, "maxReplicas", 1)
    desired = min(most, max(least, wanted))
    limited, reason = "False", "DesiredWithinRange"
    if wanted != desired:
        limited, reason = "True", "TooManyReplicas" if wanted > most else "TooFewReplicas"
    counts: JsonObject = {"currentReplicas": current, "desiredReplicas": desired}
    _update_status(factory, owner, counts, ("ScalingLimited", limited, reason))
    if desired != current:
        factory.store.put(kind_of(target), changed(target, "spec", replicas=desired))


def target_of(owner: Manifest) -> Key:
    """Return the key of the workload that an autoscaler scales."""
    target = section(owner, "spec", "scaleTargetRef")
    return text_at(target, "kind"), namespace_of(owner), text_at(target, "name")


def _update_status(
    factory: ObjectFactory, owner: Manifest, counts: JsonObject, condition: tuple[str, str, str]
) -> None:
    kind, status, reason = condition
    conditions: list[Json] = [{"type": kind, "status": status, "reason": reason}]
    now: JsonObject = {**counts, "conditions": conditions}
    if now != section(owner, "status"):
        factory.store.put(AUTOSCALER, {**owner, "status": now})
