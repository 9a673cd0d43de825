"""Change the status of a custom resource: read, change, and write only if it was not changed meanwhile.

A uid in a merge patch protects built-in kinds (K13.1), but not the status of a custom resource: there the server
takes all metadata from the stored object. A resourceVersion protects both. It also allows changes of lists, which a
merge replaces whole, without losing the entries of other writers.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.request_budget import MERGE_PATCH, RequestBudget
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import UnansweredError
from events.limits import UNDECODABLE, decode_hostile
from events.messages import Accepted, OutcomeUnknown, Rejected, Reply

READS_MAX: Final = 5
"""How often an object that others write at the same time is read before giving up."""

Status = dict[str, object]
"""A status, or the part of one that a merge changes."""

Change = Callable[[Status], Status | None]
"""Returns the merge for a status; None if nothing has to change."""

Write = Callable[[bytes, Change], Awaitable[Reply]]
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
    reply: Reply = OutcomeUnknown(message="nothing was asked")
    for _ in range(READS_MAX):
        raw = await answered(budget, read)
        if not isinstance(raw, bytes):
            return raw
        try:
            found = decoded(read.what, raw, _OBJECT)
        except UnansweredError as error:
            reply = OutcomeUnknown(message=str(error))
            if await budget.pause(error):
                continue
            return reply
        if found.metadata.uid != uid:
            return Rejected(code="Conflict", message=f"it was created again: its uid is not {uid}")
        changed = change(found.status or {})
        if changed is None:
            return Accepted()
        version = {"uid": uid, "resourceVersion": found.metadata.resourceVersion}
        reply = await write(msgspec.json.encode({"metadata": version, "status": changed}), change)
        if not isinstance(reply, Rejected) or reply.code != "Conflict":
            return reply
    return reply


def writes_to(budget: RequestBudget, call: Call) -> Write:
    """Return a function that sends patches to one path."""

    async def write(body: bytes, _: Change) -> Reply:
        reply = await answered(budget, call, body, MERGE_PATCH)
        return Accepted() if isinstance(reply, bytes) else reply

    return write


def says_all(raw: bytes, change: Change) -> bool:
    """Return True if an object, as returned by the server, has the changes."""
    try:
        return change(decode_hostile(raw, _OBJECT.decode).status or {}) is None
    except UNDECODABLE:
        return False
