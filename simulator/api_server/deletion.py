"""Delete objects: preconditions, grace periods, finalizers, and whole collections (rules of K9)."""

import msgspec
from msgspec import Struct

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.api_server.http_message import Request, Response, json_response, success
from simulator.api_server.list_selector import selector_of
from simulator.api_server.request_target import Target
from simulator.api_server.served_resources import CRD, ResourceCatalogue, ServedResource
from simulator.api_server.status_errors import bad_request, conflict, details_of, not_found
from simulator.api_server.version_store import VersionStore
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    is_terminal,
    is_terminating,
    list_at,
    name_of,
    node_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.object_store import Key

GRACE_SECONDS = 30


class Preconditions(Struct, frozen=True):
    """Preconditions on the object to be deleted."""

    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815  # as Kubernetes spells it


class DeleteOptions(Struct, frozen=True):
    """DeleteOptions."""

    preconditions: Preconditions | None = None
    gracePeriodSeconds: int | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    dryRun: tuple[str, ...] | None = None  # noqa: N815


def options_of(request: Request) -> DeleteOptions:
    """Return the options of a request: the body first, then query parameters."""
    try:
        body = request.body.strip()
        options = msgspec.json.decode(body, type=DeleteOptions) if body else DeleteOptions()
        grace = options.gracePeriodSeconds
        if grace is None and (text := request.query.get("gracePeriodSeconds")):
            grace = int(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise bad_request(f"the options cannot be read: {error}") from error
    policy = options.propagationPolicy or request.query.get("propagationPolicy")
    dry = options.dryRun or (("All",) if "dryRun" in request.query else None)
    return DeleteOptions(options.preconditions, grace, policy, dry)


class Deleter:
    """Deletes objects."""

    def __init__(
        self, simulated: SimulatedCluster, versions: VersionStore, catalogue: ResourceCatalogue
    ) -> None:
        self._simulated = simulated
        self._versions = versions
        self._catalogue = catalogue

    def delete(self, target: Target, request: Request) -> Response:
        """DELETE one object; the response holds the pod, for most other kinds a Status."""
        served = target.served
        version = self._versions.find(target.key)
        if version is None:
            raise not_found(served, target.name)
        options = options_of(request)
        found = version.manifest
        check_preconditions(served, found, options)
        left = self.carry_out(served, target.key, found, options)
        if left is not None:
            return json_response(left)
        if served.kind.kind == "Pod":
            revision = str(self._versions.revision)
            return json_response(
                changed(self._marked(served, found, 0), "metadata", resourceVersion=revision)
            )
        details: JsonObject = {**details_of(served, name_of(found)), "uid": uid_of(found)}
        return success(200, details)

    def delete_all(self, target: Target, request: Request) -> Response:
        """DELETE a collection: each object that the selectors match."""
        served = target.served
        selector = selector_of(request.query, served.kind, target.namespace)
        options = options_of(request)
        versions = [
            one for one in self._versions.now(served.resource) if selector.matches(one.manifest)
        ]
        for version in versions:
            # Deleting one object may have deleted another.
            if self._versions.find(version.key) is version:
                self.carry_out(served, version.key, version.manifest, options)
        items = b",".join([one.raw if served.is_custom else one.body for one in versions])
        head = (
            f'{{"kind":"{served.kind.kind}List","apiVersion":"{served.kind.api_version}",'
            f'"metadata":{{"resourceVersion":"{self._versions.revision}"}},"items":['
        )
        return Response(200, head.encode() + items + b"]}")

    def carry_out(
        self, served: ServedResource, key: Key, found: Manifest, options: DeleteOptions
    ) -> Manifest | None:
        """Return the object marked for deletion; None if it is removed at once."""
        grace = _grace(served, found, options)
        is_held = bool(section(found, "metadata").get("finalizers"))
        if served.kind.kind == "Namespace":
            is_held = True
        if options.dryRun:
            return found if grace or is_held else None
        if not grace and not is_held:
            if served.kind.kind == "Pod" and not _is_marked(found):
                # A pod is shown as marked before it is removed, even if both happen at once.
                self._simulated.put(served.kind, self._marked(served, found, 0))
            self._remove(served, key, found, options)
            return None
        if is_terminating(found) and not self._is_sooner(found, grace, options):
            return found
        left = self._marked(served, found, grace)
        self._simulated.put(served.kind, left)
        marked = self._versions.find(key)
        if grace and marked is not None:
            left = marked.manifest
            self._simulated.stop(key, grace * SECOND)
        return left if marked is None else marked.manifest

    def _remove(
        self, served: ServedResource, key: Key, found: Manifest, options: DeleteOptions
    ) -> None:
        """Remove an object for good; a definition takes its custom objects with it."""
        if options.propagationPolicy == "Orphan":
            self._orphan(uid_of(found))
        if served.kind == CRD:
            for gone in self._catalogue.withdraw(found):
                for version in self._versions.now(gone.resource):
                    self._simulated.remove(version.key)
        self._simulated.remove(key)

    def _orphan(self, owner: str) -> None:
        """Orphan the dependents: remove the reference to this owner."""
        self._simulated.release(owner)
        for served in self._catalogue.all():
            for version in self._versions.now(served.resource):
                metadata = section(version.manifest, "metadata")
                owners = list_at(metadata, "ownerReferences")
                left: list[Json] = [dict(one) for one in owners if one.get("uid") != owner]
                if len(left) < len(owners):
                    freed = changed(version.manifest, "metadata", ownerReferences=left)
                    self._simulated.put(served.kind, freed)

    def _is_sooner(self, found: Manifest, grace: int, options: DeleteOptions) -> bool:
        """Return True if the object is already being deleted; a second request counts only if it shortens the grace
        period."""
        before = section(found, "metadata").get("deletionGracePeriodSeconds")
        is_asked = options.gracePeriodSeconds is not None
        return is_asked and isinstance(before, int) and grace < before

    def _marked(self, served: ServedResource, found: Manifest, grace: int) -> Manifest:
        at = self._simulated.store.timestamp(grace * SECOND)
        if served.kind.kind == "Namespace":
            marked = changed(found, "metadata", deletionTimestamp=at)
            return changed(marked, "status", phase="Terminating")
        marked = changed(found, "metadata", deletionTimestamp=at, deletionGracePeriodSeconds=grace)
        if served.has_generation:
            number = whole_at(section(found, "metadata"), "generation", 1)
            marked = changed(marked, "metadata", generation=number + 1)
        return marked


def _is_marked(found: Manifest) -> bool:
    return section(found, "metadata").get("deletionGracePeriodSeconds") == 0


def check_preconditions(served: ServedResource, found: Manifest, options: DeleteOptions) -> None:
    """Raise StatusError (409) for another uid or revision."""
    wanted = options.preconditions
    if wanted is None:
        return
    kind, name = served.kind.kind, name_of(found)
    if wanted.uid is not None and wanted.uid != uid_of(found):
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({uid_of(found)}). The object might have been deleted and then recreated"
        )
        raise conflict(served, name, why, kind=kind)
    revision = text_at(section(found, "metadata"), "resourceVersion")
    if wanted.resourceVersion is not None and wanted.resourceVersion != revision:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match "
            f"the ResourceVersion in record ({revision}). The object might have been modified"
        )
        raise conflict(served, name, why, kind=kind)


def _grace(served: ServedResource, found: Manifest, options: DeleteOptions) -> int:
    """The grace period in seconds. Only pods that may be running have one."""
    if served.kind.kind != "Pod" or not node_of(found) or is_terminal(found):
        return 0
    if options.gracePeriodSeconds is not None:
        return max(0, options.gracePeriodSeconds)
    if is_terminating(found):
        return whole_at(section(found, "metadata"), "deletionGracePeriodSeconds", GRACE_SECONDS)
    return whole_at(section(found, "spec"), "terminationGracePeriodSeconds", GRACE_SECONDS)
