"""Kubernetes manifests: the kinds that the simulated cluster reads, and their validation.

`count: N` makes N objects of one manifest, with `{i}` (from 1) replaced in every text. Quantities, numbers of
replicas and the simulated kubelet's annotations are checked here, where an error can name the line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self, TypeAlias

from msgspec import Struct

from events.normalize import Json, JsonObject
from events.yaml_document import YamlValue
from features.table import KINDS as OBSERVED
from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.workload import VOLCANO_JOBS
from projections.quantity import QuantityError, parse
from simulator.experiment_validation import (
    check_experiment,
    check_experiment_patch,
    check_seconds,
)
from simulator.volcano_job_validation import check_command, check_volcano_job
from simulator.workload_validation import (
    WANTED_REPLICAS,
    check_autoscaler,
    check_deployment,
    check_job,
    check_stateful_set,
)

RUN_SECONDS: Final = "muster.sh/run-seconds"
STOP_SECONDS: Final = "muster.sh/stop-seconds"
WORK_SLOT_SECONDS: Final = "muster.sh/work-slot-seconds"
"""Work of a trial pod: one with s slots does s slot-seconds of it in a second."""
WORK_SLOTS: Final = "muster.sh/work-slots"
"""Slots of a trial pod; without it, its requests of cards, at least 1."""
CHECKPOINT_EVERY_SECONDS: Final = "muster.sh/checkpoint-every-seconds"
CHECKPOINT_SECONDS: Final = "muster.sh/checkpoint-seconds"
"""How long a pod writes a checkpoint before it exits, when it is asked to release its resources."""
_SECONDS: Final = (
    *(RUN_SECONDS, STOP_SECONDS, WORK_SLOT_SECONDS),
    *(CHECKPOINT_EVERY_SECONDS, CHECKPOINT_SECONDS),
)
COUNT_MAX: Final = 1_000_000

Manifest: TypeAlias = dict[str, Json]


class Kind(Struct, frozen=True):
    """A kind of object that the simulated cluster reads."""

    kind: str
    group: str
    """API group; empty for the core group."""
    version: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, resource: Resource) -> Self:
        """Return the kind of the objects of a resource."""
        return cls(resource.kind, resource.group, resource.version, resource.is_namespaced)


VOLCANO_JOB: Final = Kind.of(VOLCANO_JOBS)
COMMAND: Final = Kind("Command", "bus.volcano.sh", "v1alpha1")
AUTOSCALER: Final = Kind("HorizontalPodAutoscaler", "autoscaling", "v2")
EXPERIMENT: Final = Kind("Experiment", "simulator.muster.sh", "v1")
"""Only in scenarios: no API server has it, and muster does not observe it."""

_NOT_SIMULATED: Final = ("DaemonSet",)
"""Observed kinds that no controller is simulated for."""

KINDS: Final = (
    *(
        Kind.of(one.resource)
        for name, one in OBSERVED.items()
        if name not in (*_NOT_SIMULATED, PODS.name) and one.resource.selection is None
    ),
    COMMAND,
    AUTOSCALER,
    EXPERIMENT,
    Kind.of(PODS),
)
"""In the order of the first lists."""

_RESOURCE_LISTS: Final = (
    *("allocatable", "capacity", "requests", "limits", "overhead"),
    *("capability", "deserved", "resource", "minResources"),
)
"""Keys of mappings from resource to quantity; `resource` is the one inside `guarantee`."""
_COUNTS: Final = (
    *("backoffLimit", "completions", "maxRetry", "minAvailable", "minMember", "minSuccess"),
    *("activeDeadlineSeconds", "parallelism", "replicas", "ttlSecondsAfterFinished"),
)


_CHECKS: Final[dict[Kind, Callable[[Mapping[str, YamlValue]], None]]] = {
    VOLCANO_JOB: check_volcano_job,
    Kind("Deployment", "apps", "v1"): check_deployment,
    Kind("StatefulSet", "apps", "v1"): check_stateful_set,
    Kind("Job", "batch", "v1"): check_job,
    EXPERIMENT: check_experiment_patch,
}
"""Checks of objects of a kind, and of patches of them."""
_WHOLE_CHECKS: Final[dict[Kind, Callable[[YamlValue, Mapping[str, YamlValue]], None]]] = {
    COMMAND: check_command,
    AUTOSCALER: check_autoscaler,
    EXPERIMENT: check_experiment,
}
"""Checks of whole objects of a kind."""


class LocatedManifest(Struct, frozen=True):
    """A manifest with the file and line that it came from."""

    kind: Kind
    manifest: Manifest
    place: str

    @property
    def namespace(self) -> str:
        """Empty for cluster-wide objects."""
        return str(metadata_of(self.manifest).get("namespace", ""))

    @property
    def name(self) -> str:
        """`metadata.name`"""
        return str(metadata_of(self.manifest)["name"])


def kind_of(manifest: Manifest) -> Kind:
    """Return the kind of a manifest that was read here."""
    return next(
        kind
        for kind in KINDS
        if (kind.api_version, kind.kind) == (manifest["apiVersion"], manifest["kind"])
    )


def metadata_of(manifest: Manifest) -> JsonObject:
    """Return the metadata of a manifest that was read here."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return metadata


def read_manifest(value: YamlValue) -> Iterator[LocatedManifest]:
    """Yield the objects of one manifest: `count` of them."""
    fields = value.mapping("a manifest")
    kind = read_kind(value, fields)
    count = fields["count"].whole("count", 1) if "count" in fields else None
    if count is not None and count > COUNT_MAX:
        raise fields["count"].error(f"count is larger than {COUNT_MAX}")
    manifest = {name: field.plain() for name, field in fields.items() if name != "count"}
    manifest["apiVersion"], manifest["kind"] = kind.api_version, kind.kind
    manifest["metadata"] = _read_metadata(value, fields, kind)
    for name, field in fields.items():
        check_field(name, field)
    check_kind(kind, fields)
    if check := _WHOLE_CHECKS.get(kind):
        check(value, fields)
    if count is None:
        yield LocatedManifest(kind, manifest, value.place)
        return
    for index in range(1, count + 1):
        filled = _filled(manifest, str(index))
        assert isinstance(filled, dict)
        yield LocatedManifest(kind, filled, value.place)


def read_manifests(documents: Iterable[YamlValue]) -> tuple[list[LocatedManifest], list[str]]:
    """Return the objects of whole documents (lists of kind List included), and the places of kinds that are not
    read."""
    found: list[LocatedManifest] = []
    left_out: list[str] = []
    for document in documents:
        fields = document.mapping("a manifest")
        name = fields["kind"].plain() if "kind" in fields else None
        if name == "List" and "items" in fields:
            objects, others = read_manifests(fields["items"].items("items"))
            found += objects
            left_out += others
        elif name is not None and all(kind.kind != name for kind in KINDS):
            left_out.append(f"{document.place}: {name}")
        else:
            found += read_manifest(document)
    return found, left_out


def read_kind(value: YamlValue, fields: dict[str, YamlValue]) -> Kind:
    """Return the kind that `kind` and, if given, `apiVersion` name."""
    if "kind" not in fields:
        raise value.error("a manifest must name its kind")
    name = fields["kind"].text("kind")
    api_version = fields["apiVersion"].text("apiVersion") if "apiVersion" in fields else None
    group = None if api_version is None else api_version.rpartition("/")[0]
    for kind in KINDS:
        if kind.kind == name and group in (None, kind.group):
            return kind
    shown = name if api_version is None else f"{api_version} {name}"
    raise fields["kind"].error(f"the simulated cluster does not read objects of kind {shown}")


def _read_metadata(value: YamlValue, fields: dict[str, YamlValue], kind: Kind) -> JsonObject:
    if "metadata" not in fields:
        raise value.error(f"a {kind.kind} without metadata.name")
    entries = fields["metadata"].mapping("metadata")
    if "name" not in entries:
        raise fields["metadata"].error(f"a {kind.kind} without metadata.name")
    metadata = {name: entry.plain() for name, entry in entries.items()}
    metadata["name"] = entries["name"].text("metadata.name")
    for name in ("namespace", "uid", "creationTimestamp", "deletionTimestamp"):
        if name in entries:
            metadata[name] = entries[name].text(f"metadata.{name}")
    if kind.is_namespaced:
        metadata.setdefault("namespace", "default")
    else:
        metadata.pop("namespace", None)
    for name in ("labels", "annotations"):
        if metadata.get(name) is None:
            metadata.pop(name, None)
        else:
            metadata[name] = read_texts(entries[name], f"metadata.{name}")
    return metadata


def read_texts(value: YamlValue, what: str) -> JsonObject:
    """Labels or annotations; a number or boolean is read as its text."""
    return {name: entry.scalar(f"{what}.{name}") for name, entry in value.mapping(what).items()}


def read_merge(kind: Kind, entries: Mapping[str, YamlValue]) -> JsonObject:
    """Return a JSON merge patch of an object of this kind, checked as far as a part can be."""
    for name, entry in entries.items():
        check_field(name, entry)
    check_kind(kind, entries)
    merge: JsonObject = {name: entry.plain() for name, entry in entries.items()}
    metadata = entries.get("metadata")
    if metadata is None or not metadata.is_mapping:
        return merge
    texts: JsonObject = {}
    for name, entry in metadata.mapping("metadata").items():
        is_texts = name in ("labels", "annotations") and entry.is_mapping
        texts[name] = _merged_texts(name, entry) if is_texts else entry.plain()
    return {**merge, "metadata": texts}


def _merged_texts(what: str, value: YamlValue) -> JsonObject:
    """As in a manifest, a number is read as its text; null removes the entry."""
    return {
        name: None if entry.is_null else entry.scalar(f"{what}.{name}")
        for name, entry in value.mapping(what).items()
    }


def check_kind(kind: Kind, fields: Mapping[str, YamlValue]) -> None:
    """Check an object of this kind, or a patch of one."""
    if check := _CHECKS.get(kind):
        check(fields)


def check_field(name: str, value: YamlValue) -> None:
    """Check the value of the key `name`, and everything inside it."""
    if name in _RESOURCE_LISTS and value.is_mapping:
        _check_quantities(name, value)
    elif name in _COUNTS and value.is_scalar and value.plain() is not None:
        value.whole(name)
    elif name == "annotations" and value.is_mapping:
        _check_annotations(value)
    elif value.is_mapping:
        for key, entry in value.mapping(name).items():
            check_field(key, entry)
    elif not value.is_scalar:
        for item in value.items(name):
            check_field("", item)


def _check_quantities(name: str, value: YamlValue) -> None:
    for resource, quantity in value.mapping(name).items():
        given = quantity.plain()
        if isinstance(given, dict | list) or given is None:
            raise quantity.error(f"{name}.{resource} must be a quantity")
        try:
            number = parse(given)
        except QuantityError as error:
            raise quantity.error(f"{name}.{resource}: {error}") from error
        if number < 0:
            raise quantity.error(f"{name}.{resource}: {given} is negative")


def _check_annotations(value: YamlValue) -> None:
    for name, entry in value.mapping("annotations").items():
        if name in _SECONDS:
            check_seconds(name, entry)
            if name == CHECKPOINT_EVERY_SECONDS and entry.time_ns(name) == 0:
                raise entry.error(f"{name} must be longer than nothing")
        elif name == WORK_SLOTS and not (
            entry.scalar(name).isdecimal() and int(entry.scalar(name)[:9])
        ):
            raise entry.error(f"{name}: {entry.scalar(name)!r} is not a number of slots")
        elif name == WANTED_REPLICAS and not entry.scalar(name).isdecimal():
            raise entry.error(f"{name}: {entry.scalar(name)!r} is not a number of replicas")


def _filled(value: Json, index: str) -> Json:
    """Return the value with `{i}` replaced; parts without it are shared, not copied."""
    if isinstance(value, str):
        return value.replace("{i}", index)
    if isinstance(value, dict):
        filled = {_key(key, index): _filled(entry, index) for key, entry in value.items()}
        same = len(filled) == len(value) and all(
            filled.get(key) is entry for key, entry in value.items()
        )
        return value if same else filled
    if isinstance(value, list):
        items = [_filled(item, index) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _key(key: str, index: str) -> str:
    return key.replace("{i}", index)
