"""HorizontalPodAutoscaler: it sets the replicas of its target to what the load asks for.

There is no load in a simulated cluster. What it asks for is said in an annotation of the autoscaler; that is
kept within `minReplicas` and `maxReplicas`, and done at once: metrics, tolerance and the windows of
`behavior` are left to who writes the scenario. A target without replicas is left alone.
"""

from events.normalize import Json, JsonObject
from simulator.manifest import AUTOSCALER, Manifest, kind_of
from simulator.manifest_fields import changed, namespace_of, section, text_at, whole_at
from simulator.object_factory import ObjectFactory
from simulator.object_store import Key
from simulator.owned_objects import OwnedObjects
from simulator.workload_validation import WANTED_REPLICAS


def reconcile_autoscaler(factory: ObjectFactory, owner: Manifest, _: OwnedObjects) -> None:
    """Scale the target, and say in the status how that went."""
    target = factory.store.find(target_of(owner))
    if target is None:
        _tell(factory, owner, {}, ("AbleToScale", "False", "FailedGetScale"))
        return
    current = whole_at(section(target, "spec"), "replicas", 1)
    if current == 0:
        _tell(factory, owner, {}, ("ScalingActive", "False", "ScalingDisabled"))
        return
    said = text_at(section(owner, "metadata", "annotations"), WANTED_REPLICAS)
    wanted = int(said) if said.isdecimal() else current
    spec = section(owner, "spec")
    least, most = whole_at(spec, "minReplicas", 1), whole_at(spec, "maxReplicas", 1)
    desired = min(most, max(least, wanted))
    limited, reason = "False", "DesiredWithinRange"
    if wanted != desired:
        limited, reason = "True", "TooManyReplicas" if wanted > most else "TooFewReplicas"
    counts: JsonObject = {"currentReplicas": current, "desiredReplicas": desired}
    _tell(factory, owner, counts, ("ScalingLimited", limited, reason))
    if desired != current:
        factory.store.put(kind_of(target), changed(target, "spec", replicas=desired))


def target_of(owner: Manifest) -> Key:
    """The workload that an autoscaler scales."""
    target = section(owner, "spec", "scaleTargetRef")
    return text_at(target, "kind"), namespace_of(owner), text_at(target, "name")


def _tell(
    factory: ObjectFactory, owner: Manifest, counts: JsonObject, condition: tuple[str, str, str]
) -> None:
    kind, status, reason = condition
    told: list[Json] = [{"type": kind, "status": status, "reason": reason}]
    now: JsonObject = {**counts, "conditions": told}
    if now != section(owner, "status"):
        factory.store.put(AUTOSCALER, {**owner, "status": now})
