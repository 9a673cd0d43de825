"""The OpenAPI schemas from which objects are generated, as a real API server serves them.

`schemas.json` is what `/openapi/v3` of the tests' own control plane (its version is in
`tests/control_plane/go.mod`) says of the kinds that muster watches, without descriptions. To write it again
after a change of a definition or of the control plane: `.venv/bin/python -m tests.fuzz.schemas`.
"""

import asyncio
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from daemon.cluster.client.calls import WATCHED
from projections.api_resource import Resource
from tests.control_plane.api import Api
from tests.control_plane.cluster import own_plane

Schema = dict[str, Any]

FILE: Final = Path(__file__).with_name("schemas.json")

KEPT: Final = (
    *("type", "format", "enum", "required", "default", "minimum", "maximum", "pattern"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
)
"""Keywords of a schema that say which values the API server takes."""

PUBLISHED_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2
REFERENCE: Final = "#/components/schemas/"


@lru_cache(maxsize=1)
def stored() -> dict[str, Schema]:
    """Schemas by name. A kind's own schema stands under the kind's name, as records call it."""
    schemas: dict[str, Schema] = json.loads(FILE.read_text(encoding="utf-8"))
    return schemas


async def served(api: Api) -> dict[str, Schema]:
    """The same, asked of an API server."""
    found: dict[str, Schema] = {}
    for resource in WATCHED:
        document = await _document(api, resource)
        components = document["components"]["schemas"]
        name = next(one for one, schema in components.items() if _is_of(schema, resource))
        found[resource.name] = {"$ref": name}
        _collect(name, components, found)
    return dict(sorted(found.items()))


async def _document(api: Api, resource: Resource) -> Schema:
    """A definition's schema is published some time after its objects are served."""
    async with asyncio.timeout(PUBLISHED_SECONDS):
        while (answer := await api.get(_path(resource))).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
    return answer.object


def _path(resource: Resource) -> str:
    return f"/openapi/v3/{'apis' if resource.group else 'api'}/{resource.api_version}"


def _is_of(schema: Schema, resource: Resource) -> bool:
    kinds = schema.get("x-kubernetes-group-version-kind", [])
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return wanted in kinds


def _collect(name: str, components: dict[str, Schema], found: dict[str, Schema]) -> None:
    """Add a schema and those it refers to."""
    if name in found:
        return
    found[name] = {}
    found[name] = _trimmed(components[name], components, found)


def _trimmed(schema: Schema, components: dict[str, Schema], found: dict[str, Schema]) -> Schema:
    references = [schema, *schema.get("allOf", [])]
    for one in references:
        if "$ref" in one:
            name = str(one["$ref"]).removeprefix(REFERENCE)
            _collect(name, components, found)
            return {"$ref": name}
    kept: Schema = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        kept["properties"] = {
            key: _trimmed(value, components, found)
            for key, value in sorted(schema["properties"].items())
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = _trimmed(schema[key], components, found)
    if "oneOf" in schema or "anyOf" in schema:
        kept["oneOf"] = [one.get("type", "") for one in schema.get("oneOf") or schema["anyOf"]]
    return kept


async def _write() -> None:
    with own_plane(has_controllers=False) as cluster:
        async with Api.of(cluster.admin) as api:
            schemas = await served(api)
    lines = [f"{json.dumps(name)}:{_compact(schema)}" for name, schema in schemas.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _compact(schema: Schema) -> str:
    return json.dumps(schema, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    asyncio.run(_write())
