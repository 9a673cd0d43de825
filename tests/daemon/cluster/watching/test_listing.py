"""Whole lists, page by page (K2), with what only single objects carry (K1.4)."""

import asyncio
import json
from collections.abc import Mapping

import pytest
from msgspec import Raw

from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import ExpiredError, ServerError
from daemon.cluster.watching.client_protocol import watched_kind
from daemon.cluster.watching.listing import (
    PAGE_BYTES,
    TURN_BYTES,
    BrokenListError,
    Whole,
    fetch,
    with_kind,
)
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_event import UnreadableEventError, read_head
from events.errors import ClusterError
from projections.api_resource import Resource
from projections.kinds.disruption_budget import BUDGETS
from projections.kinds.pod import PODS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import Object
from tests.daemon.cluster.watching.api import Api
from tests.daemon.cluster.watching.builders import middling
from tests.daemon.cluster.watching.virtual import virtual


def listed(api: Api) -> Whole:
    """What a list of pods comes to."""
    return virtual(fetch(api, watched_kind(PODS), RateLimit(middling)))


def paged(count: int, page: int) -> Api:
    """A server with so many pods, that gives so many at a time."""
    api = Api()
    api.page = page
    for index in range(count):
        api.put(f"p{index}")
    return api


def test_a_list_follows_its_pages_at_the_revision_of_the_first() -> None:
    """K2.2: RV unset, limit=500, follow metadata.continue; K2.1: no revision, so no match."""
    api = paged(1201, 500)
    whole = listed(api)
    assert whole.resource_version == str(api.revision)
    names = [json.loads(raw)["metadata"]["name"] for raw in whole.raws]
    assert names == [f"p{index}" for index in range(1201)]
    first, *others = api.requests("list pods")
    assert first == {"limit": "500"}
    assert all(set(query) == {"limit", "continue"} for query in others)
    assert len(others) == 2


def test_an_expired_token_ends_the_list_and_its_replacement_is_not_used() -> None:
    """K2.3: 410 while paging: the replacement token gives an inconsistent list and must not be used."""
    api = paged(5, 2)
    expired = ExpiredError("list pods", 410, "Expired", "continue with token 'other'")
    api.spoil = lambda what, query: expired if "continue" in query else None
    with pytest.raises(ExpiredError):
        listed(api)
    assert "other" not in str(api.asked)


def test_a_server_that_lags_is_an_error_that_is_asked_again_without_a_revision() -> None:
    """K2.4: 504 too-large RV: retry with RV unset after back-off."""
    api = paged(1, 5)
    late = ServerError("list pods", 504, "Timeout", "Too large resource version")
    api.spoil = lambda what, query: late
    with pytest.raises(ServerError):
        listed(api)
    assert api.requests("list pods") == [{"limit": "500"}]


@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        ([("5", "t"), ("5", "t")], "have no end"),
        ([("5", "t"), ("6", "")], "a page of revision 6 after 5"),
    ],
)
def test_pages_that_do_not_fit_together_are_no_list(
    pages: list[tuple[str, str]], problem: str
) -> None:
    """K2.2: the revision is equal on all pages."""
    api = Api()
    bodies = iter(
        json.dumps({"metadata": {"resourceVersion": revision, "continue": token}, "items": []})
        for revision, token in pages
    )
    api.spoil = lambda what, query: next(bodies).encode()
    with pytest.raises(BrokenListError, match=problem):
        listed(api)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"OK",
        b'{"kind":"Status"}',
        b'{"metadata":{"resourceVersion":"1"},"items":[{}]}',
        b'{"metadata":{"resourceVersion":"1"},"items":',
    ],
)
def test_a_body_that_is_no_list_is_named_so(body: bytes) -> None:
    """K3.10: bodies may be plain text."""
    api = Api()
    api.spoil = lambda what, query: body
    with pytest.raises(UnreadableEventError, match=r"not a list|not an object"):
        listed(api)


def test_a_list_without_items_is_empty() -> None:
    api = Api()
    api.spoil = lambda what, query: b'{"metadata":{"resourceVersion":"7"},"items":null}'
    assert listed(api) == Whole("7", [])


def test_an_object_of_five_mebibytes_passes_in_a_list() -> None:
    api = Api()
    api.put("big", size=5 * 2**20)
    [raw] = listed(api).raws
    assert len(raw) > 5 * 2**20


def test_fewer_large_objects_are_asked_for_at_a_time() -> None:
    """K2.2: but a page of large objects would be hundreds of megabytes, and hold up everything for as long."""
    api = paged(0, 3)
    for index in range(8):
        api.put(f"p{index}", size=PAGE_BYTES // 2)
    assert len(listed(api).raws) == 8
    assert [query["limit"] for query in api.requests("list pods")] == [
        "500",
        "1",
        "1",
        "1",
        "1",
        "1",
    ]


def test_the_first_page_is_as_large_as_objects_were_lately() -> None:
    api = paged(5, 500)
    whole = virtual(fetch(api, watched_kind(PODS), RateLimit(middling), PAGE_BYTES // 2))
    assert len(whole.raws) == 5
    assert [query["limit"] for query in api.requests("list pods")] == ["2", "500"]


class AtOnce(Api):
    """A server that answers without a pause."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float, namespace: str = ""
    ) -> bytes:
        return self.body


def test_a_list_has_no_long_fields_and_everything_else_has_its_turn_between_objects() -> None:
    spec = {"tolerations": ["x" * TURN_BYTES]}
    items = [
        {"metadata": {"name": f"p{index}", "resourceVersion": "1"}, "spec": spec}
        for index in range(4)
    ]
    server = AtOnce(json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())

    async def story() -> None:
        turns = 0
        loop = asyncio.get_running_loop()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        loop.call_soon(turn)
        whole = await fetch(server, watched_kind(PODS), RateLimit(middling))
        assert max(map(len, whole.raws)) < 1_000
        assert turns >= 4

    asyncio.run(story())


def kinded(item: Object, resource: Resource) -> bytes:
    """An item of a list as it is handed on."""
    raw = Raw(json.dumps(item).encode())
    return with_kind(raw, resource, read_head(raw))


def test_items_carry_kind_and_version_before_they_are_looked_at() -> None:
    """K1.4: restore both on list items before hashing or diffing."""
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1"}
    plain = {"metadata": metadata, "spec": {"x": "{"}}
    got = json.loads(kinded(plain, BUDGETS))
    assert got == {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", **plain}
    custom = {"kind": "Queue", "apiVersion": "scheduling.volcano.sh/v1beta1", **plain}
    assert kinded(custom, QUEUES) == json.dumps(custom).encode()


def test_good_pages_are_not_counted_and_bad_ones_are() -> None:
    """K3.11: a list of many pages is one request of the budget; a failed page is one more."""

    async def story() -> None:
        api, rate_limit = paged(1000, 2), RateLimit(middling)
        await fetch(api, watched_kind(PODS), rate_limit)
        assert (len(api.asked), rate_limit.requests) == (500, 1)

        def spoil(what: str, query: Mapping[str, str]) -> ClusterError | None:
            failed = ServerError(what, 500)
            return failed if "continue" in query else None

        api.spoil = spoil
        with pytest.raises(ServerError):
            await fetch(api, watched_kind(PODS), rate_limit)
        assert rate_limit.requests == 3
        began = asyncio.get_running_loop().time()
        for _ in range(60):
            with pytest.raises(ServerError):
                await fetch(api, watched_kind(PODS), rate_limit)
        assert asyncio.get_running_loop().time() - began > 120

    virtual(story())
