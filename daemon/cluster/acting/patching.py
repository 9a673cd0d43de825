"""Patches that are safe to repeat: with the uid of the object as precondition (K13.1), or with the version that was read."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from daemon.cluster.acting.error_classification import refusal_of
from daemon.cluster.acting.request_budget import JSON, MERGE_PATCH, RequestBudget
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import UnansweredError
from events.errors import ClusterError
from events.messages import Accepted, OutcomeUnknown, Rejected, Reply

READS_MAX: Final = 5
"""How often an object that others write at the same time is read before giving up."""


class _Metadata(Protocol):
    @property
    def uid(self) -> str:
        """The UID."""

    @property
    def resourceVersion(self) -> str:  # noqa: N802  # as Kubernetes spells it
        """The version."""


class _Object(Protocol):
    @property
    def metadata(self) -> _Metadata:
        """UID and version at least."""


T = TypeVar("T", bound=_Object)

Merge = dict[str, dict[str, object]]
"""A merge patch: fields of `metadata`, and the other parts of the object that it changes."""


async def answered(
    budget: RequestBudget, call: Call, body: bytes | None = None, content_type: str = JSON
) -> bytes | Rejected | OutcomeUnknown:
    """Return the body of the answer, or the outcome of a failed request."""
    while True:
        try:
            return await budget.request(call, body=body, content_type=content_type)
        except ClusterError as error:
            failure = error
        if (refused := refusal_of(failure)) is not None:
            return refused
        if not await budget.pause(failure):
            return OutcomeUnknown(message=str(failure))


async def patch_unchanged(
    budget: RequestBudget,
    read: Call,
    decoder: msgspec.json.Decoder[T],
    uid: str,
    change: Callable[[T], Merge | Reply],
    write: Callable[[bytes], Awaitable[Reply]],
) -> Reply:
    """Read the object with this uid, and write what `change` returns unless the object has changed since; then again.

    `change` returns an outcome if nothing is to be written.
    """
    reply: Reply = OutcomeUnknown(message="nothing was asked")
    for _ in range(READS_MAX):
        raw = await answered(budget, read)
        if not isinstance(raw, bytes):
            return raw
        try:
            found = decoded(read.what, raw, decoder)
        except UnansweredError as error:
            reply = OutcomeUnknown(message=str(error))
            if await budget.pause(error):
                continue
            return reply
        if found.metadata.uid != uid:
            return Rejected(code="Conflict", message=f"it was created again: its uid is not {uid}")
        merge = change(found)
        if not isinstance(merge, dict):
            return merge
        version = {"uid": uid, "resourceVersion": found.metadata.resourceVersion}
        body = {**merge, "metadata": {**merge.get("metadata", {}), **version}}
        reply = await write(msgspec.json.encode(body))
        if not isinstance(reply, Rejected) or reply.code != "Conflict":
            return reply
    return reply


def patches(budget: RequestBudget, call: Call) -> Callable[[bytes], Awaitable[Reply]]:
    """Return a function that sends merge patches to one path."""

    async def write(body: bytes) -> Reply:
        reply = await answered(budget, call, body, MERGE_PATCH)
        return Accepted() if isinstance(reply, bytes) else reply

    return write
