"""Tenants ask `why` with their own token, and learn nothing of what they may not get."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.tenant_client import ask_daemon
from daemon.cluster.client.tenant_reviews import TenantReviews, User
from daemon.cluster.server.simulated_api_server import running_server
from daemon.health import Health
from daemon.metrics.export import Metrics
from daemon.serving import tenants
from daemon.serving.pages import application
from daemon.serving.tenants import TOKEN_HEADER, TenantPages
from daemon.tenant_process import answer_for_tenant
from events.errors import ClusterError, UsageError
from simulator.api_server import access_control
from simulator.scenario import Scenario
from tests.daemon.cli.builders import logged
from tests.daemon.cluster.client.builders import connected

Client = TestClient[web.Request, web.Application]
PATH = "/v1/why/Pod/team-a/p1"
SECOND = 1_000_000_000


class Reviews:
    """Knows alice, who may get what is in team-a, and bob, who may get nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False

    async def user_of(self, token: str) -> User | None:
        self.asked.append(token)
        if self.is_away:
            raise ClusterError("away")
        return User(token, groups=("people",)) if token in ("alice", "bob", "carol") else None

    async def may_get(self, user: User, kind: str, namespace: str, name: str) -> bool:
        self.asked.append(f"{user.username} {kind} {namespace}/{name}")
        return user.username in ("alice", "carol") and namespace == "team-a"


class Pages:
    """The pages of tenants, with a clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.reviews = Reviews()
        self.tenants = TenantPages(lambda: self.now_ns)
        self.subjects: list[str] = []

    async def ask(self, subject: str) -> bytes:
        self.subjects.append(subject)
        if subject.endswith("/gone"):
            raise UsageError("not in the log")
        return b'{"it": "waits"}'

    @asynccontextmanager
    async def client(
        self, ask: Callable[[str], Awaitable[bytes]] | None = None
    ) -> AsyncIterator[Client]:
        """Someone who asks over HTTP. Another token guards the other pages."""
        self.tenants.connect(self.reviews, ask or self.ask)
        async with TestClient(TestServer(served(self.tenants))) as client:
            yield client


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two pods of which one waits for quota."""
    return logged(tmp_path)


def served(pages: TenantPages) -> web.Application:
    """All pages of a daemon."""
    health = Health(lambda: 0)
    metrics = Metrics(health, "1", 1)
    return application(health, metrics, token="other", is_loopback=False, tenants=pages)  # noqa: S106


def bearer(token: str) -> dict[str, str]:
    """The header of a caller."""
    return {"Authorization": f"Bearer {token}"}


async def status(client: Client, path: str, headers: dict[str, str]) -> int:
    """The status of an answer."""
    async with client.get(path, headers=headers) as answer:
        return answer.status


async def test_only_a_caller_who_may_get_the_object_is_answered() -> None:
    pages = Pages()
    async with pages.client() as client:
        assert await status(client, PATH, bearer("alice")) == 200
        assert await status(client, PATH, {TOKEN_HEADER: "Bearer alice"}) == 200
        assert await status(client, PATH, bearer("bob")) == 403
        assert await status(client, PATH, bearer("mallory")) == 401
        assert await status(client, PATH, bearer("other")) == 401
        assert await status(client, PATH, {}) == 401
        assert await status(client, "/v1/why/PodGroup/team-b/g", bearer("alice")) == 403
    assert pages.subjects == ["Pod/team-a/p1"] * 2


async def test_whether_an_object_exists_is_said_only_to_those_who_may_get_it() -> None:
    pages = Pages()
    async with pages.client() as client:
        assert await status(client, "/v1/why/Pod/team-a/gone", bearer("alice")) == 404
        assert await status(client, "/v1/why/Pod/team-a/gone", bearer("bob")) == 403
    assert pages.subjects == ["Pod/team-a/gone"]


@pytest.mark.parametrize("path", ["Node/a/b", "Pod/team-a/..%2Fx", "Pod/-a/b", "Pod/A/b"])
async def test_other_subjects_are_refused_before_any_review(path: str) -> None:
    pages = Pages()
    async with pages.client() as client:
        assert await status(client, f"/v1/why/{path}", bearer("alice")) in (400, 404)
    assert pages.reviews.asked == []


async def test_a_review_is_asked_again_only_after_a_while() -> None:
    pages = Pages()
    async with pages.client() as client:
        for _ in range(3):
            await status(client, PATH, bearer("alice"))
        assert pages.reviews.asked == ["alice", "alice Pod team-a/p1"]
        pages.now_ns = round(tenants.CACHE_SECONDS) * SECOND
        await status(client, PATH, bearer("alice"))
        assert len(pages.reviews.asked) == 4


async def test_without_an_answer_of_the_api_server_all_are_refused() -> None:
    pages = Pages()
    pages.reviews.is_away = True
    async with pages.client() as client:
        assert await status(client, PATH, bearer("alice")) == 503
    assert pages.subjects == []


async def test_a_user_who_asks_too_often_delays_no_other() -> None:
    pages = Pages()
    async with pages.client() as client:
        found = [await status(client, PATH, bearer("alice")) for _ in range(12)]
        assert found == [200] * 10 + [429] * 2
        assert await status(client, PATH, bearer("carol")) == 200
        pages.now_ns = 2 * SECOND
        assert await status(client, PATH, bearer("alice")) == 200


async def test_unknown_tokens_cost_a_bounded_number_of_reviews() -> None:
    pages = Pages()
    async with pages.client() as client:
        found = [await status(client, PATH, bearer(f"guess-{n}")) for n in range(50)]
    assert found == [401] * 40 + [429] * 10
    assert len(pages.reviews.asked) == 40


async def test_a_user_has_one_answer_under_way() -> None:
    pages = Pages()
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_subject: str) -> bytes:
        begun.set()
        await may_end.wait()
        return b"{}"

    async with pages.client(slow) as client, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(status(client, PATH, bearer("alice")))
        await begun.wait()
        assert await status(client, PATH, bearer("alice")) == 429
        may_end.set()
        assert await first == 200


async def test_the_token_of_a_kubeconfig_is_reviewed_by_the_api_server(
    log: Path, tmp_path: Path
) -> None:
    """The whole way: kubeconfig, page, TokenReview, SubjectAccessReview, a log read in a process of its own."""
    rule = access_control.Rule(("get",), ("",), ("pods",), namespace="default")
    async with running_server(Scenario(name="tenants")) as server:
        server.access.tokens |= {
            "muster": access_control.User("muster"),
            "a": access_control.User("a", (rule,)),
            "b": access_control.User("b", ()),
        }
        pages = TenantPages(lambda: 0)
        async with (
            connected(server.kubeconfig(tmp_path / "muster.yaml", "muster")) as client,
            TestServer(served(pages)) as daemon,
        ):
            pages.connect(TenantReviews(client), lambda one: answer_for_tenant(str(log), one))
            url = str(daemon.make_url(""))
            allowed = Access(kubeconfig=server.kubeconfig(tmp_path / "a.yaml", "a"))
            refused = Access(kubeconfig=server.kubeconfig(tmp_path / "b.yaml", "b"))
            answer = json.loads(await ask_daemon("Pod/default/p2", allowed, url))
            assert answer["subject"] == "Pod/default/p2"
            assert answer["waiting"]["code"] == "InsufficientScalarQuota"
            assert answer["waiting"]["held"] == []
            with pytest.raises(UsageError, match="the log has no Pod/default/nix"):
                await ask_daemon("Pod/default/nix", allowed, url)
            with pytest.raises(ClusterError, match="403: user b may not get pods default/p2"):
                await ask_daemon("Pod/default/p2", refused, url)


async def test_an_answer_that_takes_too_long_is_given_up(log: Path) -> None:
    with pytest.raises(TimeoutError):
        await answer_for_tenant(str(log), "Pod/default/p2", seconds=0.01)
