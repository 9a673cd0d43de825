"""Whole lists, page by page (rule K2)."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from daemon.cluster.watching.client_protocol import ApiClient, WatchedKind
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_event import (
    Head,
    Metadata,
    UnreadableEventError,
    read_head,
)
from events.errors import ClusterError
from events.limits import DEPTH_MAX, UNDECODABLE, decode_hostile
from events.long_fields import without_long_fields
from events.messages import ObjectRevision
from events.revision import is_newer
from projections.api_resource import Resource

PAGE_OBJECTS: Final = 500
"""Objects asked for at a time."""

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes that a page should have. Fewer objects are asked for at a time where they are large."""

TURN_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a page after which everything else in the event loop has its turn."""

PAGES_MAX: Final = 2_000
"""A list with so many pages is no list: its server goes round in circles."""

PAGE_SECONDS: Final = 60.0
"""Seconds within which a page must have come."""


class BrokenListError(ClusterError):
    """The pages of a list do not fit together."""


class Whole(Struct, frozen=True):
    """Everything of a kind as it was at one revision, each object with its kind."""

    resource_version: str
    raws: list[bytes]
    newest: ObjectRevision | None = None
    """The object that changed last."""


class _Page(Struct):
    class Metadata(Struct):
        resourceVersion: str  # noqa: N815
        next: str | None = msgspec.field(default=None, name="continue")

    metadata: Metadata
    items: list[Raw] | None = None


_page: Final = msgspec.json.Decoder(_Page)


def page_objects(object_bytes: int) -> int:
    """How many objects of an average size to ask for at a time."""
    return max(1, min(PAGE_OBJECTS, PAGE_BYTES // max(1, object_bytes)))


async def fetch(
    server: ApiClient, watched: WatchedKind, rate_limit: RateLimit, object_bytes: int = 0
) -> Whole:
    """All objects at one revision, the most recent one: no revision is asked for (K2.2).

    `object_bytes` is how large objects of the kind were lately; the pages themselves correct it.

    Any failure ends the list, and what came of it is thrown away. That holds for an expired token too:
    the one that the server offers in its stead leads to an inconsistent list (K2.3).
    """
    await rate_limit.admit()
    limit = page_objects(object_bytes)
    body = await _ask(server, watched, "", limit)
    page = _read(body, watched)
    limit = _next_limit(body, page)
    first = page.metadata.resourceVersion
    whole = await _gathered(page, watched.resource)
    tokens: set[str] = set()
    while token := page.metadata.next:
        if token in tokens or len(tokens) >= PAGES_MAX:
            rate_limit.count()
            raise BrokenListError(f"{watched.list.what}: the pages of the list have no end")
        tokens.add(token)
        try:
            body = await _ask(server, watched, token, limit)
            page = _read(body, watched)
        except ClusterError:
            rate_limit.count()
            raise
        if page.metadata.resourceVersion != first:
            rate_limit.count()
            found = page.metadata.resourceVersion
            raise BrokenListError(f"{watched.list.what}: a page of revision {found} after {first}")
        limit = _next_limit(body, page)
        more = await _gathered(page, watched.resource)
        whole.raws += more.raws
        whole.newest = _newer(whole.newest, more.newest)
    newest = None if whole.newest is None else revision_of(whole.newest)
    return Whole(first, whole.raws, newest)


async def pages_at(
    server: ApiClient,
    watched: WatchedKind,
    rate_limit: RateLimit,
    revision: str,
    object_bytes: int = 0,
) -> AsyncGenerator[list[bytes], None]:
    """All objects as they were at a revision, page by page. ExpiredError where it is no longer kept."""
    limit = page_objects(object_bytes)
    query = {**watched.query, "resourceVersion": revision, "resourceVersionMatch": "Exact"}
    tokens: set[str] = set()
    while True:
        await rate_limit.admit()
        query["limit"] = str(limit)
        body = await server.request(watched.list, query=query, deadline_seconds=PAGE_SECONDS)
        page = _read(body, watched)
        limit = _next_limit(body, page)
        del body
        token = page.metadata.next
        gathered = await _gathered(page, watched.resource)
        del page
        yield gathered.raws
        if not token:
            return
        if token in tokens or len(tokens) >= PAGES_MAX:
            raise BrokenListError(f"{watched.list.what}: the pages of the list have no end")
        tokens.add(token)
        query = {**watched.query, "continue": token}


class _Gathered(Struct):
    """Objects of a page, each with its kind and without long fields."""

    raws: list[bytes] = []
    newest: Metadata | None = None
    """Of the object that changed last."""


async def _gathered(page: _Page, resource: Resource) -> _Gathered:
    gathered, read_bytes = _Gathered(), 0
    for item in page.items or ():
        head = read_head(item)
        raw = with_kind(item, resource, head)
        gathered.raws.append(without_long_fields(raw))
        gathered.newest = _newer(gathered.newest, head.metadata)
        read_bytes += len(raw)
        if read_bytes >= TURN_BYTES:
            read_bytes = 0
            await asyncio.sleep(0)
    return gathered


def _newer(one: Metadata | None, other: Metadata | None) -> Metadata | None:
    if one is None or other is None:
        return one or other
    return other if is_newer(other.resourceVersion, one.resourceVersion) else one


def _next_limit(body: bytes, page: _Page) -> int:
    """Return how many objects to ask for after a page."""
    return page_objects(len(body) // max(1, len(page.items or ())))


async def read_object_at(
    server: ApiClient,
    watched: WatchedKind,
    rate_limit: RateLimit,
    known: ObjectRevision,
    revision: str = "",
) -> Metadata | None:
    """Return the metadata of an object at a revision, or now; None if no object has its name."""
    query = {"fieldSelector": f"metadata.name={known.name}", "limit": "1"}
    if revision:
        query |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    await rate_limit.admit()
    body = await server.request(
        watched.list, query=query, namespace=known.namespace, deadline_seconds=PAGE_SECONDS
    )
    heads = [read_head(item).metadata for item in _read(body, watched).items or ()]
    return next((one for one in heads if one.name == known.name), None)


def revision_of(metadata: Metadata, *, is_gone: bool = False) -> ObjectRevision:
    """Return the name, UID and revision of an object."""
    return ObjectRevision(
        metadata.namespace, metadata.name, metadata.uid, metadata.resourceVersion, is_gone
    )


async def current_revision(server: ApiClient, watched: WatchedKind, rate_limit: RateLimit) -> str:
    """How far the server is with a kind, from the shortest list there is."""
    await rate_limit.admit()
    query = {**watched.query, "limit": "1"}
    body = await server.request(watched.list, query=query, deadline_seconds=PAGE_SECONDS)
    return _read(body, watched).metadata.resourceVersion


async def _ask(server: ApiClient, watched: WatchedKind, token: str, limit: int) -> bytes:
    query = {**watched.query, "limit": str(limit)}
    if token:
        query["continue"] = token
    return await server.request(watched.list, query=query, deadline_seconds=PAGE_SECONDS)


def _read(body: bytes, watched: WatchedKind) -> _Page:
    try:
        return decode_hostile(body, _page.decode, DEPTH_MAX + 2)
    except UNDECODABLE as error:
        raise UnreadableEventError(f"{watched.list.what}: not a list: {error}") from error


def with_kind(item: Raw, resource: Resource, head: Head) -> bytes:
    """An object of a list with what only single objects carry (K1.4), as bytes with bytes put in front.

    Objects of custom resources carry both in lists too.
    """
    raw = bytes(item)
    missing = ""
    if not head.apiVersion:
        missing += f'"apiVersion":"{resource.api_version}",'
    if not head.kind:
        missing += f'"kind":"{resource.kind}",'
    return raw.replace(b"{", b"{" + missing.encode(), 1) if missing else raw
