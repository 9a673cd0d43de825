"""JSON merge patch, strategic merge patch and JSON patch (rules of K13).

The strategic merge is written here: it depends on which lists of Kubernetes' types are merged by which
key, and only a few of them matter.
"""

from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import StatusError
from simulator.api_server.status_errors import bad_request
from simulator.manifest_fields import merged

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

MERGE_KEYS: Final = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "envFrom": "",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "ownerReferences": "uid",
}
"""Lists of built-in types that a strategic merge joins, with the key of their items."""
_SETS: Final = ("finalizers",)
_OPERATIONS_MAX: Final = 10_000


def patched(found: JsonObject, body: bytes, content_type: str, *, is_custom: bool) -> Json:
    """Return the object with a patch applied. Raises StatusError for an invalid patch."""
    if content_type == MERGE:
        return merged(found, _mapping(body))
    if content_type == STRATEGIC and not is_custom:
        return _strategic(found, _mapping(body))
    if content_type == JSON_PATCH:
        return _json_patched(found, _decoded(body))
    if is_custom:
        raise StatusError(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml",
        )
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _decoded(body: bytes) -> Json:
    try:
        decoded: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    return decoded


def _mapping(body: bytes) -> JsonObject:
    decoded = _decoded(body)
    if not isinstance(decoded, dict):
        raise bad_request("error decoding patch: a patch must be an object")
    return decoded


def _strategic(target: JsonObject, patch: JsonObject) -> JsonObject:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result: JsonObject = dict(target)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            _take_out(result, key.partition("/")[2], value)
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _joined(key, result.get(key), value)
    return result


def _take_out(result: JsonObject, key: str, gone: Json) -> None:
    there = result.get(key)
    if isinstance(there, list) and isinstance(gone, list):
        result[key] = [one for one in there if one not in gone]


def _joined(key: str, there: Json, value: Json) -> Json:
    if isinstance(value, dict):
        if value.get("$patch") == "delete":
            return {}
        return _strategic(there if isinstance(there, dict) else {}, value)
    if isinstance(value, list) and key in _SETS:
        known = there if isinstance(there, list) else []
        return [*known, *(one for one in value if one not in known)]
    if isinstance(value, list) and MERGE_KEYS.get(key):
        return _merged_list(MERGE_KEYS[key], there if isinstance(there, list) else [], value)
    return value


def _merged_list(by: str, there: list[Json], items: list[Json]) -> list[Json]:
    """New items come first, as in kube-apiserver."""
    patch = [one for one in items if isinstance(one, dict)]
    if any(set(one) == {"$patch"} and one["$patch"] == "replace" for one in patch):
        return [one for one in patch if "$patch" not in one]
    changes: dict[Json, JsonObject] = {}
    for one in patch:
        if by not in one:
            raise bad_request(f"map: {sorted(one)} does not contain declared merge key: {by}")
        changes[str(one[by])] = one
    kept: list[Json] = []
    for item in there:
        change = changes.pop(str(item.get(by)), None) if isinstance(item, dict) else None
        if change is None or not isinstance(item, dict):
            kept.append(item)
        elif change.get("$patch") != "delete":
            kept.append(_strategic(item, change))
    new: list[Json] = [_strategic({}, one) for one in changes.values() if "$patch" not in one]
    return [*new, *kept]


def _json_patched(found: JsonObject, operations: Json) -> Json:
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch must be a list")
    if len(operations) > _OPERATIONS_MAX:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_OPERATIONS_MAX}, "
            f"got {len(operations)}",
        )
    # A copy: operations change it in place.
    document: Json = msgspec.json.decode(msgspec.json.encode(found))
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("error decoding patch: an operation must be an object")
        try:
            document = _operated(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _rejected() from error
    return document


def _rejected() -> StatusError:
    """A `test` that fails, or a missing path (rule K13: 422)."""
    text = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", text, {})


def _operated(document: Json, operation: JsonObject) -> Json:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "test":
            if _at(document, path) != operation.get("value"):
                raise ValueError("a test does not hold")
            return document
        case "remove":
            _pop(document, path)
            return document
        case "add":
            return _put(document, path, operation["value"], is_new=True)
        case "replace":
            _at(document, path)
            return _put(document, path, operation["value"], is_new=False)
        case "move":
            value = _pop(document, _pointer(operation.get("from")))
            return _put(document, path, value, is_new=True)
        case "copy":
            value = _at(document, _pointer(operation.get("from")))
            return _put(document, path, value, is_new=True)
        case _:
            raise ValueError("an operation that is not known")


def _pointer(text: Json) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise ValueError("a path must begin with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Json, path: list[str]) -> Json:
    for part in path:
        if isinstance(document, dict):
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part)]
        else:
            raise KeyError(part)
    return document


def _put(document: Json, path: list[str], value: Json, *, is_new: bool) -> Json:
    if not path:
        return value
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        index = len(parent) if last == "-" else _index(last)
        if index > len(parent):
            raise IndexError(last)
        if is_new:
            parent.insert(index, value)
        else:
            parent[index] = value
    else:
        raise KeyError(last)
    return document


def _pop(document: Json, path: list[str]) -> Json:
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        return parent.pop(last)
    if isinstance(parent, list):
        return parent.pop(_index(last))
    raise KeyError(last)


def _index(part: str) -> int:
    if not part.isdecimal():
        raise ValueError("an index must be a number")
    return int(part)
