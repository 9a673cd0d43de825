"""What we may do, asked of the API server itself at the start (rule K15.3)."""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import CALLS, OWN, REVIEW_ACCESS, Call
from daemon.cluster.client.http_client import Client

AT_ONCE: Final = 8
TRIES: Final = 4


class _Answered(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct):
    status: _Answered = _Answered()


_REVIEW: Final = msgspec.json.Decoder(_Review)


async def missing_calls(
    client: Client, lease: str, calls: Iterable[Call] = CALLS
) -> tuple[Call, ...]:
    """The calls that are not allowed, in their order. `lease` is the name of our Lease."""
    asked = tuple(call for call in calls if call != REVIEW_ACCESS)
    refused: set[Call] = set()
    waiting = iter(asked)

    async def work() -> None:
        for call in waiting:
            if not await _is_allowed(client, call, lease):
                refused.add(call)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(work(), name=f"access review {number}")
    except ExceptionGroup as errors:
        # One error of the cluster's is as good as eight.
        raise errors.exceptions[0] from errors
    return tuple(call for call in asked if call in refused)


def review(call: Call, namespace: str, lease: str) -> dict[str, object]:
    """The question whether a call is allowed, as Kubernetes wants it put."""
    attributes = {
        "verb": call.verb,
        "group": call.resource.group,
        "version": call.resource.version,
        "resource": call.resource.plural,
        "subresource": call.subresource,
        # In all namespaces, but for what is ours alone, or only wanted in one.
        "namespace": namespace if call.scope == OWN else call.namespace,
        # A role that may get and update our Lease needs no right to others; a new one has no name yet.
        "name": lease if call.scope == OWN and call.verb != "create" else call.only,
    }
    given = {key: value for key, value in attributes.items() if value}
    return {
        "apiVersion": REVIEW_ACCESS.resource.api_version,
        "kind": REVIEW_ACCESS.resource.kind,
        "spec": {"resourceAttributes": given},
    }


async def _is_allowed(client: Client, call: Call, lease: str) -> bool:
    body = msgspec.json.encode(review(call, client.namespace, lease))
    answer = await client.request(REVIEW_ACCESS, body=body, tries=TRIES)
    return decoded(REVIEW_ACCESS.what, answer, _REVIEW).status.allowed
