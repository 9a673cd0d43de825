"""Defaults that an API server sets when an object is created (rules K5.7, K7.2)."""

from collections.abc import Mapping
from typing import Final

from events.normalize import Json, JsonObject
from projections.volumes.facts import CLAIM, VOLUME
from simulator.manifest import Kind, Manifest
from simulator.manifest_fields import name_of, section, text_at, whole_at

OUR_SCHEDULER: Final = "muster"
_SYSTEM_CLASSES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class Defaulting:
    """Defaults of new pods; it keeps track of the priority classes."""

    def __init__(self) -> None:
        self._classes: dict[str, Manifest] = {}

    def on_change(self, resource: str, before: Manifest | None, after: Manifest | None) -> None:
        """Keep track of a changed object."""
        if resource != "PriorityClass":
            return
        if after is not None:
            self._classes[name_of(after)] = after
        elif before is not None:
            self._classes.pop(name_of(before), None)

    def with_defaults(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Return the object as the server stores it. Only pods, and the phases of claims and volumes, are changed."""
        if kind.kind in (CLAIM, VOLUME):
            phase = "Pending" if kind.kind == CLAIM else "Available"
            return {**manifest, "status": {"phase": phase, **section(manifest, "status")}}
        if kind.kind != "Pod":
            return manifest
        spec: JsonObject = dict(section(manifest, "spec"))
        if not spec.get("schedulerName"):
            spec["schedulerName"] = OUR_SCHEDULER
        if spec.get("priority") is None:
            self._prioritize(spec)
        for key in ("containers", "initContainers"):
            containers = spec.get(key)
            if isinstance(containers, list):
                spec[key] = _with_requests(containers)
        status: JsonObject = {"phase": "Pending", **section(manifest, "status")}
        return {**manifest, "spec": spec, "status": status}

    def _prioritize(self, spec: JsonObject) -> None:
        """An unknown class gives no priority; a real server would refuse the pod."""
        name = text_at(spec, "priorityClassName") or self._default_class()
        chosen = self._classes.get(name)
        if chosen is not None:
            spec["priorityClassName"] = name
            spec["priority"] = whole_at(chosen, "value", 0)
            spec.setdefault(
                "preemptionPolicy", chosen.get("preemptionPolicy") or "PreemptLowerPriority"
            )
        elif name in _SYSTEM_CLASSES:
            spec["priority"] = _SYSTEM_CLASSES[name]

    def _default_class(self) -> str:
        """Of several defaults the lowest value applies, as in Kubernetes; then the first by name."""
        defaults = [one for one in self._classes.values() if one.get("globalDefault") is True]
        ranked = sorted((whole_at(one, "value", 0), name_of(one)) for one in defaults)
        return ranked[0][1] if ranked else ""


def _with_requests(containers: list[Json]) -> list[Json]:
    """Set missing requests to the limits; return the list itself if none is missing."""
    if not any(isinstance(one, dict) and _lacking(one) for one in containers):
        return containers
    return [
        {
            **one,
            "resources": {
                **section(one, "resources"),
                "requests": {**_lacking(one), **section(one, "resources", "requests")},
            },
        }
        if isinstance(one, dict) and _lacking(one)
        else one
        for one in containers
    ]


def _lacking(container: Mapping[str, Json]) -> JsonObject:
    requests = section(container, "resources", "requests")
    limits = section(container, "resources", "limits")
    return {name: limit for name, limit in limits.items() if name not in requests}
