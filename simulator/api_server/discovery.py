"""API discovery: `/version`, `/api`, `/apis` and the resources of each group."""

from typing import Final

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import NO_SUCH_PATH, Response, json_response
from simulator.api_server.served_resources import ResourceCatalogue, ServedResource

VERSION: Final[JsonObject] = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.4-muster-simulated",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PART_VERBS: Final = {"binding": ("create",), "eviction": ("create",), "finalize": ("update",)}
_PART_KINDS: Final = {
    "binding": ("Binding", "", "v1"),
    "eviction": ("Eviction", "policy", "v1"),
}


def discovery_response(path: str, catalogue: ResourceCatalogue) -> Response | None:
    """Answer a path of discovery; None for any other path."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return json_response(VERSION)
        case ["api"]:
            return json_response({"kind": "APIVersions", "versions": ["v1"]})
        case ["apis"]:
            groups: list[Json] = [_group(name, found) for name, found in _groups(catalogue)]
            return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["apis", group]:
            known = dict(_groups(catalogue))
            return json_response(_group(group, known[group])) if group in known else NO_SUCH_PATH
        case ["api", version]:
            return _resources("", version, catalogue)
        case ["apis", group, version]:
            return _resources(group, version, catalogue)
        case _:
            return None


def _groups(catalogue: ResourceCatalogue) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for served in catalogue.all():
        if served.kind.group:
            versions = groups.setdefault(served.kind.group, [])
            if served.kind.version not in versions:
                versions.append(served.kind.version)
    return list(groups.items())


def _group(name: str, versions: list[str]) -> JsonObject:
    discovery_response: list[Json] = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in versions
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": discovery_response,
        "preferredVersion": discovery_response[0],
    }


def _resources(group: str, version: str, catalogue: ResourceCatalogue) -> Response:
    found = [
        one for one in catalogue.all() if (one.kind.group, one.kind.version) == (group, version)
    ]
    if not found:
        return NO_SUCH_PATH
    resources: list[Json] = []
    for served in found:
        resources.append(_resource(served))
        resources.extend(_part(served, part) for part in sorted(served.parts))
    group_version = f"{group}/{version}" if group else version
    return json_response(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }
    )


def _resource(served: ServedResource) -> JsonObject:
    document: JsonObject = {
        "name": served.plural,
        "singularName": served.kind.kind.lower(),
        "namespaced": served.kind.is_namespaced,
        "kind": served.kind.kind,
        "verbs": ["create"] if served.is_virtual else list(_VERBS),
    }
    if served.short_names:
        document["shortNames"] = list(served.short_names)
    if served.categories:
        document["categories"] = list(served.categories)
    return document


def _part(served: ServedResource, part: str) -> JsonObject:
    kind, group, version = _PART_KINDS.get(part, (served.kind.kind, "", ""))
    document: JsonObject = {
        "name": f"{served.plural}/{part}",
        "singularName": "",
        "namespaced": served.kind.is_namespaced,
        "kind": kind,
        "verbs": list(_PART_VERBS.get(part, ("get", "patch", "update"))),
    }
    if group:
        document |= {"group": group, "version": version}
    return document
