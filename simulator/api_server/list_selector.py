"""Label and field selectors of lists, watches and deletions of collections (rule K3.4)."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from events.normalize import Json
from features.table import KINDS
from simulator.api_server.status_errors import bad_request
from simulator.manifest import Kind, Manifest
from simulator.manifest_fields import list_at, name_of, namespace_of, section, text_at

_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_PLAIN: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)")
_BARE: Final = re.compile(r"(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)")
_SPLIT: Final = re.compile(r",(?![^()]*\))")

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "Event": (
        *("reason", "type", "reportingController", "regarding.kind", "regarding.name"),
        *("regarding.namespace", "regarding.uid"),
    ),
    **{one.resource.name: one.resource.field_selectors for one in KINDS.values()},
}
_CORE_EVENT_FIELDS: Final = (
    *("reason", "type", "reportingComponent", "source"),
    *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name"),
    *("involvedObject.uid", "involvedObject.apiVersion"),
    *("involvedObject.resourceVersion", "involvedObject.fieldPath"),
)


class Requirement(Struct, frozen=True):
    """One requirement of a selector."""

    key: str
    operator: str
    """`in`, `notin`, `exists`, `absent`"""
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Return True if a value (None: missing) meets the requirement."""
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case _:
                return value is None


class Selector(Struct, frozen=True):
    """Requirements on objects. Without any, all objects match."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return True if all objects match."""
        return not self.namespace and not self.labels and not self.fields

    def matches(self, manifest: Manifest) -> bool:
        """Return True if an object matches."""
        if self.namespace and namespace_of(manifest) != self.namespace:
            return False
        if self.labels and not labels_match(self.labels, manifest):
            return False
        return all(one.holds(_field(manifest, one.key)) for one in self.fields)


def labels_match(labels: tuple[Requirement, ...], manifest: Manifest) -> bool:
    """Return True if the labels of an object meet the requirements."""
    there = section(manifest, "metadata", "labels")
    return all(one.holds(_text(there.get(one.key))) for one in labels)


def selector_of(query: Mapping[str, str], kind: Kind, namespace: str) -> Selector:
    """Return the selector of a request. Raises StatusError for an invalid one."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return Selector(
        namespace,
        tuple(_label(part) for part in _parts(labels)),
        tuple(_field_requirement(part, kind) for part in _parts(fields)),
    )


def label_selector(selector: Mapping[str, Json]) -> tuple[Requirement, ...]:
    """Return a `LabelSelector` object, such as that of a budget, as requirements."""
    pairs = section(selector, "matchLabels")
    found = [Requirement(key, "in", (str(value),)) for key, value in pairs.items()]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for one in list_at(selector, "matchExpressions"):
        values = one.get("values")
        found.append(
            Requirement(
                text_at(one, "key"),
                operators.get(text_at(one, "operator"), "absent"),
                tuple(map(str, values)) if isinstance(values, list) else (),
            )
        )
    return tuple(found)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _SPLIT.split(text)] if text.strip() else []


def _label(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(value.strip() for value in found[3].split(","))
        return Requirement(found[1], found[2], values)
    if found := _PLAIN.fullmatch(part):
        return Requirement(found[1], "notin" if found[2] == "!=" else "in", (found[3],))
    if found := _BARE.fullmatch(part):
        return Requirement(found[2], "absent" if found[1] else "exists")
    raise bad_request(f"unable to parse requirement: {part!r} is no requirement on a label")


def _field_requirement(part: str, kind: Kind) -> Requirement:
    found = _PLAIN.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    known = ("metadata.name", *(("metadata.namespace",) if kind.is_namespaced else ()))
    is_core_event = kind.kind == "Event" and not kind.group
    fields = _CORE_EVENT_FIELDS if is_core_event else _FIELDS.get(kind.kind, ())
    if found[1] not in (*known, *fields):
        raise bad_request(f"field label not supported: {found[1]}")
    return Requirement(found[1], "notin" if found[2] == "!=" else "in", (found[3],))


def _field(manifest: Manifest, path: str) -> str:
    """Return a field's value for a selector; a missing field is empty."""
    if (read := _COMMON.get(path)) is not None:
        return read(manifest)
    *way, last = path.split(".")
    value = section(manifest, *way).get(last)
    if path == "spec.unschedulable":
        return "true" if value is True else "false"
    if path == "source":
        return text_at(section(manifest, "source"), "component")
    return _text(value) or ""


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) or value is None else str(value)


_COMMON: Final[dict[str, Callable[[Manifest], str]]] = {
    "metadata.name": name_of,
    "metadata.namespace": namespace_of,
}
