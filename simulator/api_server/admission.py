"""Server-side defaults and admission of new objects, beyond what the simulated cluster sets itself."""

from typing import Final

from events.normalize import Json, JsonObject
from simulator.api_server.served_resources import CRD, PRIORITY_CLASS, ServedResource
from simulator.api_server.status_errors import forbidden
from simulator.manifest import Manifest
from simulator.manifest_fields import changed, list_at, name_of, section, text_at
from simulator.object_store import Store, resource_of

_TOLERATIONS: Final[list[Json]] = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
_POD: Final[JsonObject] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")


def admit(served: ServedResource, manifest: Manifest, store: Store) -> Manifest:
    """Return a new object with the server's defaults. Raises StatusError where admission refuses it."""
    kind = served.kind.kind
    if served.has_generation and kind != "PriorityClass":
        manifest = changed(manifest, "metadata", generation=1)
    if kind == "Pod":
        return _pod(served, manifest, store)
    if kind == "Namespace":
        labels: JsonObject = {
            **section(manifest, "metadata", "labels"),
            "kubernetes.io/metadata.name": name_of(manifest),
        }
        manifest = changed(manifest, "metadata", labels=labels)
        return {**manifest, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    if served.kind == CRD:
        return {**manifest, "status": established(manifest, store.timestamp())}
    if "status" in served.parts and kind != "Node":
        manifest = {key: value for key, value in manifest.items() if key != "status"}
    if kind == "PodDisruptionBudget":
        manifest = {**manifest, "status": dict(_NO_BUDGET)}
    return manifest


_NO_BUDGET: Final[JsonObject] = {
    "disruptionsAllowed": 0,
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "expectedPods": 0,
}


def _pod(served: ServedResource, manifest: Manifest, store: Store) -> Manifest:
    spec: JsonObject = {**_POD, **section(manifest, "spec")}
    known = list_at(spec, "tolerations")
    missing = [
        one
        for one in _TOLERATIONS
        if isinstance(one, dict) and not any(one["key"] == other.get("key") for other in known)
    ]
    spec["tolerations"] = [*(dict(one) for one in known), *missing]
    _check_priority(served, manifest, spec, store)
    status: JsonObject = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": store.timestamp(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**manifest, "spec": spec, "status": status}


def _check_priority(
    served: ServedResource, manifest: Manifest, spec: JsonObject, store: Store
) -> None:
    """Without a class name the default class applies, else no priority (rule K7.2)."""
    name = text_at(spec, "priorityClassName")
    classes = store.objects().get(resource_of(PRIORITY_CLASS), {}).values()
    if name:
        if name not in _SYSTEM_CLASSES and not any(name_of(one) == name for one in classes):
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(served, name_of(manifest), why)
        spec.pop("priority", None)
    elif not any(one.get("globalDefault") is True for one in classes):
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def quality_of_service(spec: JsonObject) -> str:
    """Return `status.qosClass` of a pod."""
    containers = list_at(spec, "containers")
    resources = [section(one, "resources") for one in containers]
    if not any(section(one, "requests") or section(one, "limits") for one in resources):
        return "BestEffort"
    for one in resources:
        limits, requests = section(one, "limits"), section(one, "requests")
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def established(definition: Manifest, at: str) -> JsonObject:
    """Return the status of a CustomResourceDefinition whose resources are served."""
    spec = section(definition, "spec")
    conditions: list[Json] = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": at,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": at,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    stored: list[Json] = [
        text_at(one, "name") for one in list_at(spec, "versions") if one.get("storage")
    ]
    return {
        "conditions": conditions,
        "acceptedNames": dict(section(spec, "names")),
        "storedVersions": stored,
    }
