"""Create and delete objects for controllers: pods from templates, other owned objects."""

from collections.abc import Callable, Mapping
from typing import Final

from events.normalize import Json, JsonObject
from simulator.job_events import TASK_SPEC
from simulator.manifest import Kind, Manifest, kind_of
from simulator.manifest_fields import (
    changed,
    list_at,
    name_of,
    namespace_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_store import Key, Store, key_of, resource_of
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.recorded_children import RecordedChildren
from simulator.scenario import kind_named

_POD: Final = kind_named("Pod")


class ObjectFactory:
    """Creates and deletes the objects of workloads."""

    def __init__(
        self,
        store: Store,
        delete_pod: Callable[[Key], None],
        wake: Callable[[str, int], None],
        recorded: RecordedChildren | None = None,
    ) -> None:
        self.store = store
        self.wake = wake
        """Reconcile the workload with this uid again at that time."""
        self._delete_pod = delete_pod
        self._recorded = recorded
        """Objects of a recorded past, which are created again before any new one."""

    def delete_owner(self, owner: Manifest) -> None:
        """Delete a workload with everything that it owns."""
        kind = kind_of(owner)
        self.store.remove(key_of(kind, owner))

    def delete(self, key: Key) -> None:
        """Delete any object; a pod takes its time to stop."""
        if key[0] == "Pod":
            self._delete_pod(key)
        else:
            self.store.remove(key)

    def delete_unwanted(self, key: Key, children: OwnedObjects) -> None:
        """Delete a surplus pod."""
        children.expect_deletion(key)
        self._delete_pod(key)

    def make_pod(
        self,
        owner: Manifest,
        children: OwnedObjects,
        template: Mapping[str, Json],
        name: str,
        *,
        marks: "PodOverrides",
    ) -> None:
        """Create a pod from a template, unless its name is still in use."""
        if self.store.find(("Pod", namespace_of(owner), name)) is not None:
            return
        again = self._recorded_one(owner, "Pod", name, marks.annotations)
        name = name if again is None else name_of(again)
        key: Key = ("Pod", namespace_of(owner), name)
        children.made += 1
        children.update(key, ChildState.ACTIVE, marks.annotations.get(TASK_SPEC, ""))
        if again is not None:
            given = {**section(again, "metadata", "annotations"), **marks.annotations}
            self.store.put(_POD, changed(again, "metadata", annotations=given) if given else again)
            return
        metadata: JsonObject = {
            "name": name,
            "namespace": namespace_of(owner),
            "labels": {**section(template, "metadata", "labels"), **marks.labels},
            "annotations": {**section(template, "metadata", "annotations"), **marks.annotations},
            "ownerReferences": [owner_reference(owner)],
        }
        spec: JsonObject = {**section(template, "spec"), **marks.spec}
        self.store.put(
            _POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )

    def number(self, owner: Manifest, children: OwnedObjects, prefix: str = "") -> str:
        """Return a name for the next pod: its number, skipping names in use."""
        namespace, start = namespace_of(owner), f"{name_of(owner)}-{prefix}"
        while self.store.find(("Pod", namespace, f"{start}{children.made}")) is not None:
            children.made += 1
        return f"{start}{children.made}"

    def revision(self, simulated: str) -> str:
        """Return the name of a revision of a template: as recorded, if the template is in the record."""
        return simulated if self._recorded is None else self._recorded.revision(simulated)

    def make(self, owner: Manifest, kind: Kind, name: str, body: JsonObject) -> Manifest:
        """Create an owned object of another kind; its metadata may bring labels and annotations."""
        again = self._recorded_one(owner, resource_of(kind), name, {})
        if again is not None:
            given: JsonObject = dict(section(body, "spec"))
            kept = {key: given[key] for key in ("replicas",) if key in given}
            again = {**again, "spec": {**section(again, "spec"), **kept}}
            if "status" in body:
                again["status"] = body["status"]
            return self.store.put(kind, again)
        metadata: JsonObject = {
            **section(body, "metadata"),
            "name": name,
            "namespace": namespace_of(owner),
            "ownerReferences": [owner_reference(owner)],
        }
        manifest: Manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            **body,
            "metadata": metadata,
        }
        return self.store.put(kind, manifest)

    def _recorded_one(
        self, owner: Manifest, resource: str, name: str, marks: Mapping[str, str]
    ) -> Manifest | None:
        """Return the recorded object to create for a workload instead of a new one; None if there is none, or an object
        with its name exists."""
        if self._recorded is None:
            return None
        of = resource_of(kind_of(owner))
        child = self._recorded.pop_next(uid_of(owner), of, resource, name, marks)
        if child is None:
            return None
        metadata = dict(section(child.manifest, "metadata"))
        metadata.pop("creationTimestamp", None)
        manifest = {key: value for key, value in child.manifest.items() if key != "status"}
        again: Manifest = {**manifest, "metadata": metadata}
        key: Key = (resource, namespace_of(owner), name_of(again))
        return again if self.store.find(key) is None else None


class PodOverrides:
    """What a controller sets on a pod in addition to its template."""

    def __init__(
        self,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        spec: dict[str, Json] | None = None,
    ) -> None:
        self.labels = labels or {}
        self.annotations = annotations or {}
        self.spec: JsonObject = spec or {}


def owner_reference(owner: Manifest) -> JsonObject:
    """Return the reference by which an object names its controller."""
    return {
        "apiVersion": text_at(owner, "apiVersion"),
        "kind": text_at(owner, "kind"),
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_finished(owner: Manifest) -> bool:
    """Return True if a Job has ended, Complete or Failed."""
    conditions = list_at(section(owner, "status"), "conditions")
    return any(
        one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
        for one in conditions
    )
