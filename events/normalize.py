"""Kubernetes objects in the one form that enters the log (rule K1.5).

Left out: what tells nothing (the other managed fields, the last applied configuration, self links), and what
may hold a secret (environment values, commands, arguments, headers of probes, the annotations that the
settings name). Moved into the event: the resource version, the newest change that the managed fields tell (`events/field_manager.py`), the
heartbeats of conditions and the update times of device reports (`events/normalize_config_map.py`), so that equal content has an equal digest. Everything else stays, unknown fields included; keys are sorted.
"""

from hashlib import sha256

import msgspec
from msgspec import Struct

from events.errors import ManifestError
from events.field_manager import FieldChange, newest_change
from events.json_value import Json as Json
from events.json_value import JsonObject as JsonObject
from events.limits import (
    decode_deep,
    is_nested_too_deep,
    may_be_too_deep,
    name_problem,
    tame,
)
from events.long_fields import without_long_fields
from events.normalize_config_map import (
    CONFIG_MAP,
    REPORTS,
    Selection,
    normalize_data,
    selection_of,
)
from events.record import StoredObject

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VOLCANO_BATCH = "batch.volcano.sh"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder()


class Normalized(Struct, frozen=True, gc=False):
    """An object as it enters the log, and what was moved out of it."""

    stored: StoredObject
    kind: str
    """The kind, with its group where two kinds share a name: `Job.batch.volcano.sh`; a ConfigMap with reports of
    devices, with the name of its selection: `ConfigMap.device-info`."""
    namespace: str
    name: str
    uid: str
    resource_version: str
    heartbeats: dict[str, str]
    subject: str
    """`Kind/namespace/name`"""
    changed_by: FieldChange | None = None


def normalize(
    raw: bytes,
    *,
    secret_annotations: frozenset[str] = frozenset(),
    selections: tuple[Selection, ...] = REPORTS,
) -> Normalized:
    """The normalized object of raw JSON. The object is not kept: it may be changed freely.

    Raises ManifestError where there is no object with a kind and a name. What is nested too deep is left out.
    """
    return decode_deep(
        without_long_fields(raw),
        lambda one: normalize_manifest(
            _decoded(one), secret_annotations=secret_annotations, selections=selections
        ),
    )


def _decoded(raw: bytes) -> JsonObject:
    try:
        manifest = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            manifest = _DECODER.decode(tame(raw))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ManifestError(f"an object is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise ManifestError("an object is not a JSON object")
    return manifest


def normalize_manifest(
    manifest: JsonObject,
    *,
    secret_annotations: frozenset[str] = frozenset(),
    selections: tuple[Selection, ...] = REPORTS,
) -> Normalized:
    """The normalized form of a decoded object, which is changed in place and must not be used again. A ConfigMap of one of the
    selections has the kind of that selection."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise ManifestError(f"{manifest.get('kind', 'object')!s:.100} without metadata")
    kind, name = _text(manifest.get("kind")), _text(metadata.get("name"))
    namespace, uid = _text(metadata.get("namespace")), _text(metadata.get("uid"))
    if not kind or not name:
        raise ManifestError(f"{kind or 'object'} {name}: kind and metadata.name must be given")
    for part in (kind, namespace, name, uid):
        if problem := name_problem(part):
            raise ManifestError(f"an object of kind {kind:.100}: {problem}")
    if kind == "Job" and str(manifest.get("apiVersion", "")).startswith(_VOLCANO_BATCH):
        kind = f"{kind}.{_VOLCANO_BATCH}"
    reports: dict[str, str] = {}
    selection = selection_of(namespace, name, selections) if kind == CONFIG_MAP else None
    if selection is not None:
        kind, reports = selection.kind, normalize_data(selection, name, manifest)
    changed_by = newest_change(metadata.pop("managedFields", None))
    metadata.pop("selfLink", None)
    resource_version = _text(metadata.pop("resourceVersion", None))
    strip_annotations(metadata, secret_annotations)
    spec = manifest.get("spec")
    if isinstance(spec, dict):
        strip_pod_spec(spec)
        strip_templates(spec)
    heartbeats = {**take_heartbeats(manifest.get("status")), **reports}
    content = _ENCODER.encode(manifest)
    if may_be_too_deep(content) and is_nested_too_deep(manifest):
        content = tame(content)
    return Normalized(
        stored=StoredObject(digest=sha256(content).hexdigest(), content=content),
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=resource_version,
        heartbeats=heartbeats,
        subject=f"{kind}/{namespace}/{name}",
        changed_by=changed_by,
    )


def _text(value: Json) -> str:
    """A name; a number in its place is read as text, anything else as nothing."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def strip_annotations(metadata: JsonObject, secret: frozenset[str]) -> None:
    """Remove the last applied configuration and the annotations that the settings name."""
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        annotations.pop(_LAST_APPLIED, None)
        for key in secret & annotations.keys() if secret else ():
            del annotations[key]


def take_heartbeats(status: Json) -> dict[str, str]:
    """Remove the heartbeat times from the conditions of a status; return them by type."""
    conditions = status.get("conditions") if isinstance(status, dict) else None
    heartbeats: dict[str, str] = {}
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and "lastHeartbeatTime" in condition:
            at = condition.pop("lastHeartbeatTime")
            if at is not None:
                heartbeats[str(condition.get("type", ""))] = str(at)
    return heartbeats


def strip_templates(spec: JsonObject) -> None:
    """Pod templates of workloads: `spec.template`, `spec.tasks[].template`, `spec.jobTemplate`."""
    if not ("template" in spec or "tasks" in spec or "jobTemplate" in spec):
        return
    tasks = spec.get("tasks")
    holders: list[Json] = [spec, *(tasks if isinstance(tasks, list) else ())]
    for holder in holders:
        for key in ("template", "jobTemplate"):
            template = holder.get(key) if isinstance(holder, dict) else None
            inner = template.get("spec") if isinstance(template, dict) else None
            if isinstance(inner, dict):
                strip_pod_spec(inner)
                strip_templates(inner)


def strip_pod_spec(spec: JsonObject) -> None:
    """Remove commands, arguments, environment values and probe headers from a pod's spec."""
    for key in _CONTAINERS:
        containers = spec.get(key)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict):
                _strip_container(container)


def _strip_container(container: JsonObject) -> None:
    container.pop("command", None)
    container.pop("args", None)
    environment = container.get("env")
    for variable in environment if isinstance(environment, list) else ():
        if isinstance(variable, dict):
            variable.pop("value", None)
    for key in _PROBES:
        if key in container:
            _strip_handler(container[key])
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, dict):
        _strip_handler(lifecycle.get("postStart"))
        _strip_handler(lifecycle.get("preStop"))


def _strip_handler(handler: Json) -> None:
    if not isinstance(handler, dict):
        return
    if isinstance(command := handler.get("exec"), dict):
        command.pop("command", None)
    if isinstance(request := handler.get("httpGet"), dict):
        request.pop("httpHeaders", None)
