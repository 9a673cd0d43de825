"""Whole lists, page by page (rule K2)."""

from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from daemon.cluster.client.calls import Resource
from daemon.cluster.watching.event import (
    Metadata,
    UnreadableEventError,
    read_head,
)
from daemon.cluster.watching.pace import Pace
from daemon.cluster.watching.server import Server, Watched
from events.errors import ClusterError
from events.limits import DEPTH_MAX, UNDECODABLE, decode_hostile
from events.revision import is_newer
from events.sighting import Known

PAGE_OBJECTS: Final = 500
"""Objects asked for at a time."""

PAGES_MAX: Final = 2_000
"""A list with more than a million objects is no list: its server goes round in circles."""

PAGE_SECONDS: Final = 60.0
"""Seconds within which a page must have come."""


class BrokenListError(ClusterError):
    """The pages of a list do not fit together."""


class Whole(Struct, frozen=True):
    """Everything of a kind as it was at one revision, each object with its kind."""

    resource_version: str
    raws: list[bytes]
    newest: Known | None = None
    """The object that changed last."""


class _Page(Struct):
    class Metadata(Struct):
        resourceVersion: str  # noqa: N815
        next: str | None = msgspec.field(default=None, name="continue")

    metadata: Metadata
    items: list[Raw] | None = None


_page: Final = msgspec.json.Decoder(_Page)


async def fetch(server: Server, watched: Watched, pace: Pace) -> Whole:
    """All objects at one revision, the most recent one: no revision is asked for (K2.2).

    Any failure ends the list, and what came of it is thrown away. That holds for an expired token too:
    the one that the server offers in its stead leads to an inconsistent list (K2.3).
    """
    await pace.admit()
    page = await _ask(server, watched, "")
    first = page.metadata.resourceVersion
    raws = [with_kind(item, watched.resource) for item in page.items or ()]
    tokens: set[str] = set()
    while token := page.metadata.next:
        if token in tokens or len(tokens) >= PAGES_MAX:
            pace.count()
            raise BrokenListError(f"{watched.list.what}: the pages of the list have no end")
        tokens.add(token)
        try:
            page = await _ask(server, watched, token)
        except ClusterError:
            pace.count()
            raise
        if page.metadata.resourceVersion != first:
            pace.count()
            found = page.metadata.resourceVersion
            raise BrokenListError(f"{watched.list.what}: a page of revision {found} after {first}")
        raws += [with_kind(item, watched.resource) for item in page.items or ()]
    return Whole(first, raws, _newest(raws))


async def pages_at(
    server: Server, watched: Watched, pace: Pace, revision: str
) -> AsyncGenerator[list[bytes], None]:
    """All objects as they were at a revision, page by page. ExpiredError where it is no longer kept."""
    query = {
        "limit": str(PAGE_OBJECTS),
        "resourceVersion": revision,
        "resourceVersionMatch": "Exact",
    }
    tokens: set[str] = set()
    while True:
        await pace.admit()
        body = await server.request(watched.list, query=query, deadline_seconds=PAGE_SECONDS)
        page = _read(body, watched)
        yield [with_kind(item, watched.resource) for item in page.items or ()]
        token = page.metadata.next
        if not token:
            return
        if token in tokens or len(tokens) >= PAGES_MAX:
            raise BrokenListError(f"{watched.list.what}: the pages of the list have no end")
        tokens.add(token)
        query = {"limit": str(PAGE_OBJECTS), "continue": token}


async def glimpse(
    server: Server, watched: Watched, pace: Pace, known: Known, revision: str = ""
) -> Metadata | None:
    """An object's metadata as it was at a revision, or as it is now; None where there is none of its name."""
    query = {"fieldSelector": f"metadata.name={known.name}", "limit": "1"}
    if revision:
        query |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    await pace.admit()
    body = await server.request(
        watched.list, query=query, namespace=known.namespace, deadline_seconds=PAGE_SECONDS
    )
    heads = [read_head(item).metadata for item in _read(body, watched).items or ()]
    return next((one for one in heads if one.name == known.name), None)


def _newest(raws: list[bytes]) -> Known | None:
    found: Metadata | None = None
    for raw in raws:
        one = read_head(raw).metadata
        if found is None or is_newer(one.resourceVersion, found.resourceVersion):
            found = one
    return None if found is None else known_by(found)


def known_by(metadata: Metadata, *, is_gone: bool = False) -> Known:
    """An object as its metadata says."""
    return Known(metadata.namespace, metadata.name, metadata.uid, metadata.resourceVersion, is_gone)


async def current_revision(server: Server, watched: Watched, pace: Pace) -> str:
    """How far the server is with a kind, from the shortest list there is."""
    await pace.admit()
    body = await server.request(watched.list, query={"limit": "1"}, deadline_seconds=PAGE_SECONDS)
    return _read(body, watched).metadata.resourceVersion


async def _ask(server: Server, watched: Watched, token: str) -> _Page:
    query = {"limit": str(PAGE_OBJECTS)}
    if token:
        query["continue"] = token
    return _read(
        await server.request(watched.list, query=query, deadline_seconds=PAGE_SECONDS), watched
    )


def _read(body: bytes, watched: Watched) -> _Page:
    try:
        return decode_hostile(body, _page.decode, DEPTH_MAX + 2)
    except UNDECODABLE as error:
        raise UnreadableEventError(f"{watched.list.what}: not a list: {error}") from error


def with_kind(item: Raw, resource: Resource) -> bytes:
    """An object of a list with what only single objects carry (K1.4), as bytes with bytes put in front.

    Objects of custom resources carry both in lists too.
    """
    head = read_head(item)
    raw = bytes(item)
    missing = ""
    if not head.apiVersion:
        missing += f'"apiVersion":"{resource.api_version}",'
    if not head.kind:
        missing += f'"kind":"{resource.kind}",'
    return raw.replace(b"{", b"{" + missing.encode(), 1) if missing else raw
