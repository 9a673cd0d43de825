"""Lists: paged, at the latest or at an older revision (rules of K2)."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import JsonObject
from simulator.api_server.core_events import represented
from simulator.api_server.http_message import Response, StatusError, json_response
from simulator.api_server.list_selector import Selector
from simulator.api_server.served_resources import ServedResource
from simulator.api_server.status_errors import (
    FieldError,
    bad_request,
    expired,
    invalid_options,
    too_large,
)
from simulator.api_server.table import TablePrinter
from simulator.api_server.version_store import Version, VersionStore, place_of

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105  # the name of a format
_LATEST: Final = -1
"""The revision in a token that continues at the latest revision (inconsistent continuation)."""


class _Token(Struct, frozen=True):
    """A continue token: where a list goes on."""

    v: str
    rv: int
    start: str


class _Page(Struct, frozen=True):
    """The list that a request asks for."""

    revision: int | None
    """None: the latest."""
    start: str = ""


def list_response(
    versions: VersionStore,
    served: ServedResource,
    selector: Selector,
    query: Mapping[str, str],
    printer: TablePrinter | None = None,
) -> Response:
    """One page, or the whole list."""
    limit = max(0, _whole(query.get("limit", "")))
    page = _page(versions, query, limit)
    revision = versions.revision if page.revision is None else page.revision
    if page.revision is None:
        there = versions.now(served.resource)
    else:
        there = versions.at(served.resource, page.revision)
    if served.is_core_event:
        there = [represented(served, one) for one in there]
    if not selector.is_whole:
        there = [one for one in there if selector.matches(one.manifest)]
    if page.start:
        there = [one for one in there if place_of(one.key) >= page.start]
    shown = there[:limit] if limit else there
    token, left = "", len(there) - len(shown)
    if left:
        # A NUL is the least character that can follow a name.
        token = _encoded(_Token(_TOKEN_VERSION, revision, place_of(shown[-1].key) + "\0"))
    remaining = left if not selector.labels and not selector.fields else 0
    metadata = _metadata(served, revision, token, remaining)
    if printer is not None:
        return json_response(printer.table([one.manifest for one in shown], metadata))
    return Response(200, _document(served, shown, metadata))


def _metadata(served: ServedResource, revision: int, token: str, remaining: int) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if token or served.is_custom:
        metadata["continue"] = token
    if remaining:
        metadata["remainingItemCount"] = remaining
    return metadata


def _document(served: ServedResource, shown: list[Version], metadata: JsonObject) -> bytes:
    kind = served.kind
    # Items of custom resources keep kind and apiVersion, all others do not have them (rule K1.4).
    items = b",".join([one.raw if served.is_custom else one.body for one in shown])
    head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'.encode()
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}"))


def _page(versions: VersionStore, query: Mapping[str, str], limit: int) -> _Page:
    wanted, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    _check_match(wanted, match, token)
    if token:
        return _continued(versions, token, wanted)
    revision = revision_of(wanted)
    if revision is None or revision == 0:
        return _Page(None)
    if revision > versions.revision:
        raise too_large(revision, versions.revision)
    if match == "Exact" or (not match and limit):
        if revision < versions.list_floor:
            raise expired(f"The resourceVersion for the provided list is too old: {revision}")
        return _Page(revision)
    return _Page(None)


def _check_match(wanted: str, match: str, token: str) -> None:
    field = "resourceVersionMatch"
    why = ""
    if match and not wanted:
        why = f"{field} is forbidden unless resourceVersion is provided"
    elif match and token:
        why = f"{field} is forbidden when continue is provided"
    elif match and match not in ("Exact", "NotOlderThan"):
        message = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise invalid_options("ListOptions", [FieldError(field, "NotSupported", message)])
    elif match == "Exact" and wanted == "0":
        why = f'{field} "exact" is forbidden for resourceVersion "0"'
    if why:
        raise invalid_options("ListOptions", [FieldError(field, "Forbidden", f"Forbidden: {why}")])


def _continued(versions: VersionStore, text: str, wanted: str) -> _Page:
    if wanted not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != _TOKEN_VERSION:
        raise bad_request("continue key is not valid: server does not recognize this version")
    start = token.start.removeprefix("/")
    if token.rv == _LATEST:
        return _Page(None, start)
    if token.rv < versions.list_floor:
        raise _token_expired(start)
    return _Page(token.rv, start)


def _token_expired(start: str) -> StatusError:
    """Return 410 with a token for an inconsistent continuation (rule K2.3)."""
    return expired(
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter, or use the continue token in "
        "this response to retrieve the remainder of the results. Continuing with the provided "
        "token results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list.",
        continue_token=_encoded(_Token(_TOKEN_VERSION, _LATEST, start)),
    )


def _encoded(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def revision_of(text: str) -> int | None:
    """A revision as a query parameter; None if it is missing."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _whole(text: str) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
