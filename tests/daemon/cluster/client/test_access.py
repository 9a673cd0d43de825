"""What we may do, asked at the start (K15.3)."""

from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from daemon.cluster.client.access import missing_calls
from daemon.cluster.client.calls import (
    BIND_POD,
    CALLS,
    CREATE_LEASE,
    EVICT_POD,
    GET_LEASE,
    REVIEW_ACCESS,
)
from daemon.cluster.client.errors import ForbiddenError
from tests.daemon.cluster.client.builders import talking


class Reviews:
    """Answers access reviews; refuses those of some subresources."""

    def __init__(self, *refused: str) -> None:
        self.asked: list[dict[str, str]] = []
        self._refused = refused

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """One review."""
        assert request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        document = msgspec.json.decode(await request.read())
        attributes = document["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        is_allowed = attributes.get("subresource") not in self._refused
        return web.json_response({**document, "status": {"allowed": is_allowed}}, status=201)


async def test_the_calls_that_are_not_allowed_are_named(tmp_path: Path) -> None:
    """K15.3: a self-subject access review at start names what is missing."""
    reviews = Reviews("binding", "eviction")
    async with talking(reviews.answer, tmp_path) as client:
        assert await missing_calls(client, "muster") == (BIND_POD, EVICT_POD)


async def test_each_call_but_the_review_itself_is_asked_about_once(tmp_path: Path) -> None:
    reviews = Reviews()
    async with talking(reviews.answer, tmp_path) as client:
        assert await missing_calls(client, "muster") == ()
    told = [(one["verb"], one["resource"], one.get("subresource", "")) for one in reviews.asked]
    calls = [call for call in CALLS if call != REVIEW_ACCESS]
    assert sorted(told) == sorted((c.verb, c.resource.plural, c.subresource) for c in calls)


async def test_only_our_own_lease_in_our_own_namespace_is_asked_about(tmp_path: Path) -> None:
    """K15.3: leases in our namespace; get and update for our name."""
    reviews = Reviews()
    async with talking(reviews.answer, tmp_path) as client:
        await missing_calls(client, "muster", (GET_LEASE, CREATE_LEASE, BIND_POD))
    by_verb = {(one["verb"], one["resource"]): one for one in reviews.asked}
    assert by_verb["get", "leases"]["name"] == "muster"
    assert by_verb["get", "leases"]["namespace"] == "ours"
    assert "name" not in by_verb["create", "leases"]
    assert "namespace" not in by_verb["create", "pods"]


async def test_a_refused_review_is_an_error_and_not_a_missing_call(tmp_path: Path) -> None:
    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)

    async with talking(refuse, tmp_path) as client:
        with pytest.raises(ForbiddenError):
            await missing_calls(client, "muster")
