"""A small API server for histories made at random: objects, what a watch shows of them, and bindings."""

from typing import Final

import msgspec

from events.messages import (
    Accepted,
    BindRequest,
    DeletionSeen,
    EvictRequest,
    ListCompleted,
    ObjectSeen,
    PodGroupPhaseRequest,
    Rejected,
    Reply,
    WatchMessage,
)
from events.normalize import Json, JsonObject

KINDS: Final = (
    "Node", "HyperNode", "PriorityClass", "Queue", "PodGroup", "PodDisruptionBudget", "Pod",
)  # fmt: skip

_VERSIONS: Final = {
    "Node": "v1",
    "Pod": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "PodDisruptionBudget": "policy/v1",
    "PersistentVolumeClaim": "v1",
    "PersistentVolume": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
}
Key = tuple[str, str]
"""Kind and name; all namespaced objects are in one namespace."""


class Api:
    """The objects, and what has not been shown yet."""

    def __init__(self) -> None:
        self.objects: dict[Key, JsonObject] = {}
        self.unseen: list[WatchMessage] = []
        self._version = 0

    def names(self, kind: str) -> list[str]:
        """The names of all objects of a kind."""
        return [name for one, name in self.objects if one == kind]

    def put(self, kind: str, name: str, body: JsonObject, meta: "JsonObject | None" = None) -> None:
        """Make an object or change it. A new one gets a uid."""
        self._version += 1
        old = self.objects.get((kind, name), {})
        before = old.get("metadata")
        assert before is None or isinstance(before, dict)
        metadata: JsonObject = {"uid": f"{name}.{self._version}", **(before or {}), **(meta or {})}
        metadata["name"], metadata["resourceVersion"] = name, str(self._version)
        if kind in ("Pod", "PodGroup", "PodDisruptionBudget", "PersistentVolumeClaim"):
            metadata["namespace"] = "default"
        obj = {**old, **body, "kind": kind, "apiVersion": _VERSIONS[kind], "metadata": metadata}
        self.objects[kind, name] = obj
        self.unseen.append(ObjectSeen(msgspec.json.encode(obj)))

    def remove(self, kind: str, name: str) -> None:
        """Delete an object at once."""
        obj = self.objects.pop((kind, name))
        self.unseen.append(DeletionSeen(msgspec.json.encode(obj)))

    def section(self, kind: str, name: str, section: str) -> JsonObject:
        """A part of an object."""
        found: Json = self.objects[kind, name].get(section)
        return dict(found) if isinstance(found, dict) else {}

    def bind(self, request: BindRequest) -> Reply:
        """Give a pod its node; to say so twice is well."""
        name = request.name
        if ("Pod", name) not in self.objects:
            return Rejected("NotFound", "there is no such pod")
        if self.section("Pod", name, "metadata").get("uid") != request.uid:
            return Rejected("Conflict", "there is another pod of that name")
        spec = self.section("Pod", name, "spec")
        if spec.get("nodeName"):
            if spec["nodeName"] == request.node:
                return Accepted()
            return Rejected("Conflict", "the pod has another node")
        self.put("Pod", name, {"spec": {**spec, "nodeName": request.node}})
        return Accepted()

    def evict(self, request: EvictRequest) -> Reply:
        """Tell a pod to go; one that is gone or another by now need not be told."""
        name = request.name
        if ("Pod", name) in self.objects:
            meta = self.section("Pod", name, "metadata")
            if meta.get("uid") == request.uid and "deletionTimestamp" not in meta:
                self.put("Pod", name, {}, {"deletionTimestamp": "1970-01-01T01:00:00Z"})
        return Accepted()

    def run_on(self) -> None:
        """What kubelets and owners do in the end: bound pods run, and pods that were told to go are replaced."""
        for name in self.names("Pod"):
            spec, status = self.section("Pod", name, "spec"), self.section("Pod", name, "status")
            meta = self.section("Pod", name, "metadata")
            if "deletionTimestamp" in meta:
                self.remove("Pod", name)
                if spec.get("schedulerName") == "muster" and status.get("phase") == "Running":
                    spec.pop("nodeName", None)
                    kept: JsonObject = {
                        "annotations": meta["annotations"],
                        "labels": meta["labels"],
                    }
                    self.put("Pod", name, {"spec": spec, "status": {"phase": "Pending"}}, kept)
            elif spec.get("nodeName") and status.get("phase") == "Pending":
                self.put("Pod", name, {"status": {"phase": "Running"}})

    def tell(self, request: PodGroupPhaseRequest) -> Reply:
        """Give a pod group its phase."""
        if ("PodGroup", request.name) not in self.objects:
            return Rejected("NotFound", "there is no such group")
        status = self.section("PodGroup", request.name, "status")
        self.put("PodGroup", request.name, {"status": {**status, "phase": request.phase}})
        return Accepted()

    def listing(self, volume_kinds: tuple[str, ...] = ()) -> list[WatchMessage]:
        """Everything there is, kind by kind, those about volumes if they are listed; what has not been shown is shown by this."""
        self.unseen = []
        shown: list[WatchMessage] = []
        for kind in (*volume_kinds, *KINDS):
            objects = [obj for (one, _), obj in self.objects.items() if one == kind]
            shown += [ObjectSeen(msgspec.json.encode(obj)) for obj in objects]
            shown.append(ListCompleted(kind, str(self._version), len(objects)))
        return shown
