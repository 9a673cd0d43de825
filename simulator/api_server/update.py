"""Update objects: PUT, PATCH, and which parts each subresource may change (rules K13.1, K13.2)."""

from typing import Final

from events.normalize import JsonObject
from simulator.api_server.creation import Creator, check_kind, check_name, decode_body
from simulator.api_server.http_message import Request
from simulator.api_server.patch import APPLY, patched
from simulator.api_server.request_target import Target
from simulator.api_server.server_side_apply import FieldOwners, manager_of
from simulator.api_server.status_errors import (
    FieldError,
    bad_request,
    conflict,
    invalid,
    invalid_field,
    invalid_options,
    modified,
    not_found,
)
from simulator.api_server.validation import check_times, validation_errors
from simulator.api_server.version_store import VersionStore
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import changed, is_terminating, section, text_at, uid_of

_KEPT: Final = (
    *("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "generation", "resourceVersion", "generateName"),
)
"""Metadata that no update changes."""


class Updater:
    """Replaces and patches objects."""

    def __init__(
        self, simulated: SimulatedCluster, versions: VersionStore, creator: Creator
    ) -> None:
        self._simulated = simulated
        self._versions = versions
        self._creator = creator
        self._owners = FieldOwners()

    def replace(self, target: Target, request: Request) -> Manifest:
        """PUT: return the object after it."""
        document = decode_body(request, target.served)
        check_kind(document, target.served)
        check_name(document, target)
        found = self._found(target)
        uid = uid_of(document)
        if uid and uid != uid_of(found):
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise conflict(target.served, target.name, why + uid_of(found))
        if not text_at(section(document, "metadata"), "resourceVersion") and (
            target.served.needs_revision
        ):
            fault = FieldError(
                "metadata.resourceVersion",
                "Invalid",
                "Invalid value: 0: must be specified for an update",
            )
            error = invalid(target.served, target.name, [fault])
            error.message = error.message.replace(
                f"{target.served.kind.kind}.{target.served.kind.group}", target.served.qualified
            )
            assert error.details is not None
            error.details["kind"] = target.served.plural
            raise error
        new: Manifest = {**document, **_type_of(found)}
        return self._write(target, request, found, new)

    def patch(self, target: Target, request: Request) -> tuple[Manifest, bool]:
        """PATCH: return the object after it, and whether it was created (only by apply)."""
        served = target.served
        if request.content_type == APPLY:
            return self._apply(target, request)
        found = self._found(target)
        new = patched(dict(found), request.body, request.content_type, is_custom=served.is_custom)
        if not isinstance(new, dict):
            raise bad_request("a patch must leave an object")
        uid = uid_of(new)
        # Metadata sent to the status of a custom object is ignored.
        is_looked_at = not (served.is_custom and target.part == "status")
        if uid != uid_of(found) and is_looked_at:
            fault = invalid_field("metadata.uid", uid, "field is immutable")
            raise invalid(served, target.name, [fault])
        return self._write(target, request, found, {**new, **_type_of(found)}), False

    def _apply(self, target: Target, request: Request) -> tuple[Manifest, bool]:
        served = target.served
        manager = request.query.get("fieldManager", "")
        if not manager:
            why = "Required value: is required for apply patch"
            raise invalid_options("PatchOptions", [FieldError("fieldManager", "Required", why)])
        document = decode_body(request, served)
        check_kind(document, served)
        version = self._versions.find(target.key)
        found = None if version is None else version.manifest
        applied = self._owners.apply(found, document, manager, is_forced=request.flag("force"))
        is_dry = "dryRun" in request.query
        if found is None:
            self._creator.check_namespace(served, target.name, target.namespace)
            metadata: JsonObject = {**section(applied, "metadata"), "name": target.name}
            if served.kind.is_namespaced:
                metadata["namespace"] = target.namespace
            made: Manifest = {
                **applied,
                "apiVersion": served.kind.api_version,
                "kind": served.kind.kind,
                "metadata": metadata,
            }
            written, is_there = self._creator.make(target, made, is_dry=is_dry)
            if is_there:
                self._owners.note_applied(found, written, document, manager)
            return written, True
        uid = uid_of(document)
        if uid and uid != uid_of(found):
            raise conflict(served, target.name, f"uid mismatch: {uid}")
        written = self._write(target, request, found, {**applied, **_type_of(found)})
        if not is_dry:
            self._owners.note_applied(found, written, document, manager)
        return written, False

    def _found(self, target: Target) -> Manifest:
        version = self._versions.find(target.key)
        if version is None:
            raise not_found(target.served, target.name)
        return version.manifest

    def _write(self, target: Target, request: Request, found: Manifest, new: Manifest) -> Manifest:
        served = target.served
        revision = text_at(section(new, "metadata"), "resourceVersion")
        there = text_at(section(found, "metadata"), "resourceVersion")
        if revision and revision != there:
            raise modified(served, target.name)
        check_times(served, new)
        result = _allowed(target, found, new)
        if served.has_generation and _has_new_spec(found, result):
            generation = section(found, "metadata").get("generation")
            number = generation if isinstance(generation, int) else 1
            result = changed(result, "metadata", generation=number + 1)
        if faults := validation_errors(served, result, found):
            raise invalid(served, target.name, faults)
        if result == found or "dryRun" in request.query:
            return result
        if is_terminating(found) and _is_free(target, result):
            self._simulated.remove(target.key)
            return result
        if request.content_type != APPLY:
            self._owners.note_written(found, result, manager_of(request))
        return self._simulated.put(served.kind, result)


def _allowed(target: Target, found: Manifest, new: Manifest) -> Manifest:
    """The part of a change that takes effect: spec and status are written separately."""
    metadata = _metadata(found, new)
    if target.part == "status":
        if target.served.is_custom:
            metadata = dict(section(found, "metadata"))
        result: Manifest = {**found, "metadata": metadata}
        _take(result, new, "status")
        return result
    result = {**new, "metadata": metadata}
    if "status" in target.served.parts:
        _take(result, found, "status")
    if target.served.kind.kind == "Namespace":
        _take(result, found, "spec")
    return result


def _take(result: Manifest, source: Manifest, name: str) -> None:
    if name in source:
        result[name] = source[name]
    else:
        result.pop(name, None)


def _metadata(found: Manifest, new: Manifest) -> JsonObject:
    before, after = section(found, "metadata"), section(new, "metadata")
    metadata: JsonObject = {key: before[key] for key in _KEPT if key in before}
    for key, value in after.items():
        if key not in _KEPT and key != "managedFields" and value not in (None, {}, []):
            metadata[key] = value
    return metadata


def _has_new_spec(found: Manifest, new: Manifest) -> bool:
    apart = ("metadata", "status", "apiVersion", "kind")
    return any(found.get(key) != new.get(key) for key in {*found, *new} if key not in apart)


def _is_free(target: Target, manifest: Manifest) -> bool:
    """Return True if an object that is being deleted has no finalizer left."""
    metadata = section(manifest, "metadata")
    if metadata.get("finalizers"):
        return False
    if target.served.kind.kind == "Namespace":
        return not section(manifest, "spec").get("finalizers")
    return metadata.get("deletionGracePeriodSeconds") in (0, None)


def _type_of(found: Manifest) -> JsonObject:
    return {"apiVersion": found["apiVersion"], "kind": found["kind"]}
