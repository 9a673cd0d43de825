"""A plain client for tests: sends the given request, and returns the whole reply.

It is not muster's own client, so that a fault there cannot hide here.
"""

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import yaml
from msgspec import Struct

from projections.api_resource import Resource

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, decoded."""

REPLY_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 0.02
"""A cut TLS connection is gone some turns of the loop after it was closed."""
LARGE_BYTES: Final = 1024 * 1024
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
GONE: Final = (OSError, TimeoutError, aiohttp.ClientError)
"""What is raised when the server is away, or leaves in the middle."""
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"


class Answer(Struct, frozen=True):
    """A whole reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def object(self) -> Object:
        """The body, which is expected to be one JSON object."""
        decoded: Object = json.loads(self.body)
        return decoded

    @property
    def reason(self) -> str:
        """`Status.reason`"""
        return str(self.object.get("reason", ""))

    @property
    def causes(self) -> list[str]:
        """The reasons in `Status.details.causes`."""
        details = self.object.get("details") or {}
        return [cause.get("reason", "") for cause in details.get("causes") or []]

    def expect(self, *statuses: int) -> Object:
        """The body, when the status is one of these."""
        assert self.status in statuses, f"{self.status}: {self.body.decode(errors='replace')}"
        return self.object


class Line(Struct, frozen=True):
    """One event of a watch."""

    type: str
    object: Object

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["name"])

    @property
    def revision(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["resourceVersion"])


class Watch:
    """The lines of an open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """The HTTP status it was opened with."""
        return self._response.status

    async def next(self, seconds: float = 10.0) -> Line | None:
        """The next event; None at the end. `TimeoutError` when nothing comes."""
        async with asyncio.timeout(seconds):
            line = await self._response.content.readline()
        return _line(line) if line else None

    async def until(self, kind: str, name: str = "", seconds: float = 20.0) -> list[Line]:
        """All events up to and with the first of a type, and of a name if one is given."""
        seen: list[Line] = []
        async with asyncio.timeout(seconds):
            while (line := await self.next(seconds)) is not None:
                seen.append(line)
                if line.type == kind and (not name or line.name == name):
                    return seen
        raise AssertionError(f"the watch ended before {kind} {name}; it showed {seen}")

    async def raw(self) -> AsyncIterator[bytes]:
        """The lines as they come, to the end."""
        async for line in self._response.content:
            yield line

    async def silence(self, seconds: float) -> bool:
        """Whether it stays open, and silent, for as long as this."""
        try:
            return await self.next(seconds) is not None and False
        except TimeoutError:
            return True


class Api:
    """A server and someone who asks it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        kubeconfig: Path,
        token: str | None = None,
        impersonated: str = "",
        groups: tuple[str, ...] = (),
    ) -> AsyncIterator["Api"]:
        """The server that a kubeconfig names, asked with its credentials or with another token.

        With `impersonated` it is asked as that user of these groups, which the credentials must allow.
        """
        _, user = _entries(kubeconfig)
        url, context = trusted(kubeconfig)
        token = user.get("token") if token is None else token
        connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
        headers = [("Authorization", f"Bearer {token}")] if token else []
        if impersonated:
            named = ("system:authenticated", *groups)
            headers.append(("Impersonate-User", impersonated))
            headers += [("Impersonate-Group", one) for one in named]
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=limits, read_bufsize=LINE_BYTES_MAX
        ) as session:
            yield cls(url, session)
        await asyncio.sleep(CLOSE_SECONDS)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """Ask once. `body` is bytes, or something to encode as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        async with (
            asyncio.timeout(REPLY_SECONDS),
            self._session.request(
                method,
                self.url + path,
                # In one piece, aiohttp says, a large body would hold up the event loop.
                data=data if data is None or len(data) < LARGE_BYTES else io.BytesIO(data),
                params=dict(query or {}),
                headers={
                    "Accept": accept,
                    **({"Content-Type": content_type} if data is not None else {}),
                },
            ) as response,
        ):
            return Answer(response.status, dict(response.headers), await response.read())

    async def get(self, path: str, **query: str) -> Answer:
        """Read an object or a list."""
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: object, **query: str) -> Answer:
        """Create an object, or ask for a binding or an eviction."""
        return await self.ask("POST", path, body, query)

    async def put(self, path: str, body: object, **query: str) -> Answer:
        """Replace an object."""
        return await self.ask("PUT", path, body, query)

    async def patch(self, path: str, body: object, kind: str = MERGE, **query: str) -> Answer:
        """Patch an object, with one of the four kinds of patch."""
        return await self.ask("PATCH", path, body, query, kind)

    async def delete(self, path: str, body: object = None, **query: str) -> Answer:
        """Delete an object or a collection."""
        return await self.ask("DELETE", path, body, query)

    async def create(self, resource: Resource, manifest: Object) -> Object:
        """Create an object where it belongs; it must succeed."""
        return (await self.post(_collection(resource, manifest), manifest)).expect(201)

    async def apply(self, resource: Resource, manifest: Object) -> Object:
        """Create an object, or make it what it shall be; it must succeed."""
        metadata = manifest["metadata"]
        path = resource.object_path(metadata["name"], metadata.get("namespace", ""))
        query = {"fieldManager": "tests", "force": "true"}
        return (await self.patch(path, manifest, APPLY, **query)).expect(200, 201)

    async def items(self, path: str, **query: str) -> list[Object]:
        """The objects of a list, which must succeed."""
        items: list[Object] = (await self.get(path, **query)).expect(200)["items"]
        return items

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watch]:
        """Open a watch, whatever comes of it."""
        asked = {"watch": "1", **query}
        async with self._session.get(self.url + path, params=asked) as response:
            yield Watch(response)


def trusted(kubeconfig: Path) -> tuple[str, ssl.SSLContext | None]:
    """The address of a server and its TLS context; None for plain HTTP."""
    cluster, user = _entries(kubeconfig)
    url = cluster["server"]
    return url, _trust(cluster, user) if url.startswith("https") else None


def token_of(kubeconfig: Path) -> str:
    """The bearer token of its user."""
    return _entries(kubeconfig)[1]["token"]


def _collection(resource: Resource, manifest: Object) -> str:
    if not resource.is_namespaced:
        return resource.path
    return resource.collection_path(manifest["metadata"]["namespace"])


def _line(line: bytes) -> Line:
    event = json.loads(line)
    if (
        event.get("kind") == "Status"
    ):  # The server gave the watch up, and says so without an event around it.
        return Line("ERROR", event)
    return Line(event["type"], event["object"])


def _entries(kubeconfig: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The cluster and the user of the context in use."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    named = {kind: {one["name"]: one for one in config[kind]} for kind in ("contexts",)}
    context = named["contexts"][config["current-context"]]["context"]
    clusters = {one["name"]: one["cluster"] for one in config["clusters"]}
    users = {one["name"]: one["user"] for one in config.get("users") or []}
    return clusters[context["cluster"]], users.get(context.get("user", ""), {})


def _trust(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    """The CA to trust, and the client certificate if there is one in files."""
    given = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=base64.b64decode(given).decode() if given else None,
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context
