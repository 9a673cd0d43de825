"""Change the status of a custom resource: read, change, and write only if it was not changed meanwhile.

A uid in a merge patch protects built-in kinds (K13.1), but not the status of a custom resource: there the server
takes all metadata from the stored object. A resourceVersion protects both. It also allows changes of lists, which a
merge replaces whole, without losing the entries of other writers.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.acting.patching import Merge, patch_unchanged
from daemon.cluster.acting.request_budget import RequestBudget
from daemon.cluster.client.calls import Call
from events.limits import UNDECODABLE, decode_hostile
from events.messages import Accepted, Reply

Status = dict[str, object]
"""A status, or the part of one that a merge changes."""

Change = Callable[[Status], Status | None]
"""Returns the merge for a status; None if nothing has to change."""

Write = Callable[[bytes], Awaitable[Reply]]
"""Sends a merge patch, and returns its outcome."""


class _Metadata(Struct):
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Object(Struct):
    metadata: _Metadata
    status: Status | None = None


_OBJECT: Final = msgspec.json.Decoder(_Object)


async def change_status(
    budget: RequestBudget, read: Call, uid: str, change: Change, write: Write
) -> Reply:
    """Change the status of an object that has this uid, unless it is already as wanted."""

    def merge(found: _Object) -> Merge | Reply:
        changed = change(found.status or {})
        return Accepted() if changed is None else {"status": changed}

    return await patch_unchanged(budget, read, _OBJECT, uid, merge, write)


def says_all(raw: bytes, change: Change) -> bool:
    """Return True if an object, as returned by the server, has the changes."""
    try:
        return change(decode_hostile(raw, _OBJECT.decode).status or {}) is None
    except UNDECODABLE:
        return False
