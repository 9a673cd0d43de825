"""Create objects (POST), and decode the bodies of requests."""

from hashlib import sha256
from typing import Final

import msgspec
import yaml

from events.normalize import Json, JsonObject
from simulator.api_server.admission import admit
from simulator.api_server.http_message import Request
from simulator.api_server.request_target import Target
from simulator.api_server.served_resources import NAMESPACE, ResourceCatalogue, ServedResource
from simulator.api_server.status_errors import (
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    required_field,
)
from simulator.api_server.validation import check_times, validation_errors
from simulator.api_server.version_store import VersionStore
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import is_terminating, name_of, section, text_at
from simulator.object_store import resource_of

BODY_MAX: Final = 3 * 1024 * 1024
"""In bytes; a longer body is refused with 413, as by kube-apiserver."""

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_ASSIGNED: Final = (
    *("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "generation", "selfLink", "managedFields"),
)
"""Metadata that only the server sets."""


def decode_body(request: Request, served: ServedResource) -> JsonObject:
    """Decode the object in a body, JSON or YAML."""
    kind = served.kind.kind
    try:
        if "yaml" in request.content_type:
            document: Json = yaml.safe_load(request.body)
        else:
            document = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: {error}"
        ) from error
    if not isinstance(document, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return document


def check_kind(document: JsonObject, served: ServedResource, *, kind: str = "") -> None:
    """Raise StatusError unless the object is of the kind that the path serves."""
    wanted, stated = kind or served.kind.kind, text_at(document, "kind")
    if stated not in (wanted, ""):
        version = text_at(document, "apiVersion").rpartition("/")[2]
        raise bad_request(
            f'{stated} in version "{version}" cannot be handled as a {wanted}: unknown conversion'
        )


class Creator:
    """Creates objects."""

    def __init__(
        self, simulated: SimulatedCluster, versions: VersionStore, catalogue: ResourceCatalogue
    ) -> None:
        self._simulated = simulated
        self._versions = versions
        self._catalogue = catalogue
        self._generated = 0

    def create(self, target: Target, request: Request) -> tuple[Manifest, bool]:
        """Create an object; returns it and whether it is stored (False: a dry run)."""
        served = target.served
        document = decode_body(request, served)
        check_kind(document, served)
        manifest = self._named(document, target)
        self.check_namespace(served, name_of(manifest), target.namespace)
        return self.make(target, manifest, is_dry="dryRun" in request.query)

    def make(self, target: Target, manifest: Manifest, *, is_dry: bool) -> tuple[Manifest, bool]:
        """Return the object validated, with its defaults and identity."""
        served, name = target.served, name_of(manifest)
        key = (served.resource, target.namespace if served.kind.is_namespaced else "", name)
        check_times(served, manifest)
        if name and self._versions.find(key) is not None:
            raise already_exists(served, name)
        if faults := validation_errors(served, manifest, None):
            raise invalid(served, name, faults)
        manifest = admit(served, manifest, self._simulated.store)
        if is_dry:
            return manifest, False
        return self._simulated.put(served.kind, manifest), True

    def check_namespace(self, served: ServedResource, name: str, namespace: str) -> None:
        """Raise StatusError (403) unless the namespace exists and is not being deleted (rule K8)."""
        if not served.kind.is_namespaced:
            return
        found = self._simulated.find(resource_of(NAMESPACE), "", namespace)
        if found is None:
            namespaces = self._catalogue.of_kind("Namespace")
            assert namespaces is not None, "namespaces are built in"
            raise not_found(namespaces, namespace)
        if is_terminating(found):
            causes: list[Json] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            raise forbidden(served, name, why, causes)

    def _named(self, document: JsonObject, target: Target) -> Manifest:
        served = target.served
        metadata: JsonObject = {
            key: value
            for key, value in section(document, "metadata").items()
            if key not in _ASSIGNED and value is not None
        }
        if served.kind.is_namespaced:
            if metadata.setdefault("namespace", target.namespace) != target.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        else:
            metadata.pop("namespace", None)
        prefix = text_at(metadata, "generateName")
        if not metadata.get("name") and prefix:
            metadata["name"] = self._generate(prefix)
        rest = {
            key: value
            for key, value in document.items()
            if key not in ("kind", "apiVersion", "metadata")
        }
        return {
            "apiVersion": served.kind.api_version,
            "kind": served.kind.kind,
            "metadata": metadata,
            **rest,
        }

    def _generate(self, prefix: str) -> str:
        """Return an unused name; the same calls give the same names."""
        self._generated += 1
        digest = sha256(f"{prefix}/{self._generated}".encode()).digest()
        return prefix + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])


def check_name(document: JsonObject, target: Target) -> None:
    """Raise StatusError unless the name in the body is the one in the path."""
    name = name_of(document)
    if not name:
        raise invalid(target.served, "", [required_field("metadata.name")])
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
