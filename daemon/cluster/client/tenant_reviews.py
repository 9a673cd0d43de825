"""Who a tenant is and what they may read, asked of the API server with their bearer token.

A TokenReview names the user; a SubjectAccessReview answers whether this user may `get` an object.
"""

from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import REVIEW_SUBJECT, REVIEW_TOKEN
from daemon.cluster.client.http_client import Client
from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS

REVIEW_SECONDS: Final = 5.0
"""Deadline of one review."""

RESOURCES: Final[dict[str, Resource]] = {"Pod": PODS, "PodGroup": POD_GROUPS}
"""The kinds that a tenant may ask about, and the resource whose `get` is reviewed."""


class User(Struct, frozen=True):
    """A user as a TokenReview names it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(Struct):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = _AccessStatus()


_TOKEN: Final = msgspec.json.Decoder(_TokenReview)
_ACCESS: Final = msgspec.json.Decoder(_AccessReview)


class TenantReviews:
    """Reviews by one API server. Each raises ClusterError if the server does not answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None if the API server does not accept it."""
        body = _document(REVIEW_TOKEN.resource, {"token": token})
        answer = await self._client.request(
            REVIEW_TOKEN, body=body, deadline_seconds=REVIEW_SECONDS
        )
        status = decoded(REVIEW_TOKEN.what, answer, _TOKEN).status
        return status.user if status.authenticated and status.user.username else None

    async def may_get(self, user: User, kind: str, namespace: str, name: str) -> bool:
        """Return True if the user may get this object."""
        resource = RESOURCES[kind]
        attributes = {
            "verb": "get",
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "namespace": namespace,
            "name": name,
        }
        spec: dict[str, object] = {
            "resourceAttributes": attributes,
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        }
        body = _document(REVIEW_SUBJECT.resource, spec)
        answer = await self._client.request(
            REVIEW_SUBJECT, body=body, deadline_seconds=REVIEW_SECONDS
        )
        status = decoded(REVIEW_SUBJECT.what, answer, _ACCESS).status
        return status.allowed and not status.denied


def _document(resource: Resource, spec: dict[str, object]) -> bytes:
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    return msgspec.json.encode(document)
