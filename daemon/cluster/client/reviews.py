"""Whose a bearer token is, and what that user may get: TokenReview and SubjectAccessReview."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import REVIEW_SUBJECT, REVIEW_TOKEN, Call
from daemon.cluster.client.http_client import Client
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS

TOKEN_HEADER: Final = "X-Muster-Token"  # noqa: S105
"""Header with the token of a caller behind the API server's service proxy, which keeps `Authorization` for itself."""

DEADLINE_SECONDS: Final = 5.0
"""A review that takes longer is none, and the question is refused."""

RESOURCES: Final = {"Pod": PODS, "PodGroup": POD_GROUPS}
"""What tenants may ask about."""


class ReviewedUser(Struct, frozen=True):
    """The user of a token, as the API server names it."""

    username: str = ""
    """Empty for a token that is not accepted."""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct):
    authenticated: bool = False
    user: ReviewedUser | None = None


class _TokenReview(Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_TOKEN: Final = msgspec.json.Decoder(_TokenReview)
_ACCESS: Final = msgspec.json.Decoder(_AccessReview)


class Reviews:
    """Asks one API server. Raises ClusterError where it does not answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def user_of(self, token: str) -> ReviewedUser | None:
        """Return the user of a token; None if the API server does not accept it."""
        body = {
            "apiVersion": REVIEW_TOKEN.resource.api_version,
            "kind": REVIEW_TOKEN.resource.kind,
            "spec": {"token": token},
        }
        answer = await self._ask(REVIEW_TOKEN, body)
        status = decoded(REVIEW_TOKEN.what, answer, _TOKEN).status
        if not status.authenticated or status.user is None or not status.user.username:
            return None
        return status.user

    async def may_get(self, user: ReviewedUser, kind: str, namespace: str, name: str) -> bool:
        """Return True if the user may `get` a pod or pod group."""
        resource = RESOURCES[kind]
        spec: dict[str, object] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {
                "verb": "get",
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace,
                "name": name,
            },
        }
        body = {
            "apiVersion": REVIEW_SUBJECT.resource.api_version,
            "kind": REVIEW_SUBJECT.resource.kind,
            "spec": {key: value for key, value in spec.items() if value},
        }
        answer = await self._ask(REVIEW_SUBJECT, body)
        status = decoded(REVIEW_SUBJECT.what, answer, _ACCESS).status
        return status.allowed and not status.denied

    async def _ask(self, call: Call, body: Mapping[str, object]) -> bytes:
        return await self._client.request(
            call, body=msgspec.json.encode(body), deadline_seconds=DEADLINE_SECONDS
        )
