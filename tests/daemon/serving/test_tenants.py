"""Questions of tenants: who may ask what, and how much."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from daemon.cluster.client.reviews import ReviewedUser
from daemon.serving.tenants import TenantLimits, TenantQuestions
from events.errors import ClusterError

Client = TestClient[web.Request, web.Application]


class Rig:
    """A reviewer and a log, in memory. Tokens are names of users, and each may get what is in its own namespace."""

    def __init__(self, limits: TenantLimits | None = None) -> None:
        self.now = 0.0
        self.tokens = {"ann", "bob"}
        self.reviews = 0
        self.asked: list[str] = []
        self.is_down = False
        self.under_way = asyncio.Semaphore(0)
        self.gate = asyncio.Event()
        self.gate.set()
        self.questions = TenantQuestions(
            self, self.answer, lambda: self.now, limits, tenant_of=lambda name: name[0]
        )

    async def user_of(self, token: str) -> ReviewedUser | None:
        """Part of Reviewer."""
        self.reviews += 1
        if self.is_down:
            raise ClusterError("create tokenreviews: 10.0.0.1 is down")
        return ReviewedUser(token) if token in self.tokens else None

    async def may_get(self, user: ReviewedUser, kind: str, namespace: str, name: str) -> bool:
        """Part of Reviewer."""
        if self.is_down:
            raise ClusterError("create subjectaccessreviews: 10.0.0.1 is down")
        return user.username == namespace

    async def answer(self, subject: str) -> bytes | None:
        """The log has no object called `none`."""
        self.asked.append(subject)
        self.under_way.release()
        await self.gate.wait()
        return None if subject.endswith("/none") else b'{"subject":"%s"}' % subject.encode()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client."""
        async with TestClient(TestServer(self.questions.application())) as client:
            yield client


async def _ask(
    client: Client, user: str | None, path: str = "ann/pods/a", header: str = "Authorization"
) -> tuple[int, dict[str, str]]:
    headers = {}
    if user is not None:
        headers[header] = f"Bearer {user}" if header == "Authorization" else user
    async with client.get(f"/v1/namespaces/{path}/why", headers=headers) as answer:
        return answer.status, msgspec.json.decode(await answer.read(), type=dict[str, str])


async def test_who_may_get_the_object_gets_the_answer_directly_and_behind_the_service_proxy() -> (
    None
):
    rig = Rig()
    async with rig.client() as client:
        assert await _ask(client, "ann") == (200, {"subject": "Pod/ann/a"})
        through = await _ask(client, "ann", "ann/podgroups/g", "X-Muster-Token")
        assert through == (200, {"subject": "PodGroup/ann/g"})


async def test_without_the_right_nothing_tells_whether_the_object_exists() -> None:
    rig = Rig()
    async with rig.client() as client:
        there = await _ask(client, "bob", "ann/pods/a")
        absent = await _ask(client, "bob", "ann/pods/none")
    assert there[0] == absent[0] == 403
    assert there[1]["error"].replace("ann/a", "") == absent[1]["error"].replace("ann/none", "")
    assert rig.asked == []


async def test_a_token_is_needed_that_the_api_server_accepts() -> None:
    rig = Rig()
    async with rig.client() as client:
        assert (await _ask(client, None))[0] == 401
        assert (await _ask(client, "eve"))[0] == 401
    assert rig.asked == []


async def test_an_api_server_that_does_not_answer_refuses_and_its_error_stays_here() -> None:
    rig = Rig()
    rig.is_down = True
    async with rig.client() as client:
        status, body = await _ask(client, "ann")
        assert (status, body) == (503, {"error": "cannot be answered now"})
        rig.is_down = False
        assert (await _ask(client, "ann"))[0] == 200
    assert rig.asked == ["Pod/ann/a"]


async def test_a_review_is_kept_for_seconds_only() -> None:
    rig = Rig()
    async with rig.client() as client:
        await _ask(client, "ann")
        await _ask(client, "ann")
        assert rig.reviews == 1
        rig.tokens.remove("ann")
        rig.now = 11.0
        assert (await _ask(client, "ann"))[0] == 401


async def test_names_that_no_object_can_have_are_asked_of_nothing() -> None:
    rig = Rig()
    async with rig.client() as client:
        for path in ("ann/pods/..%2Fb", "ann/nodes/n1", "ann/pods/A", "ann/pods/-a"):
            assert (await _ask(client, "ann", path))[0] == 404, path
    assert (rig.reviews, rig.asked) == (0, [])


async def test_one_user_has_one_question_under_way_and_does_not_hold_up_another() -> None:
    rig = Rig()
    rig.gate.clear()
    async with rig.client() as client, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_ask(client, "ann"))
        await rig.under_way.acquire()
        assert (await _ask(client, "ann"))[0] == 429
        other = tasks.create_task(_ask(client, "bob", "bob/pods/b"))
        await rig.under_way.acquire()
        rig.gate.set()
    assert (first.result()[0], other.result()[0]) == (200, 200)


async def test_a_user_asks_so_often_in_a_minute() -> None:
    rig = Rig(TenantLimits(per_minute=2))
    async with rig.client() as client:
        found = [(await _ask(client, "ann"))[0] for _ in range(3)]
        assert found == [200, 200, 429]
        assert (await _ask(client, "bob", "bob/pods/b"))[0] == 200
        rig.now = 61.0
        assert (await _ask(client, "ann"))[0] == 200


async def test_what_is_not_in_the_log_is_404_for_who_may_get_it() -> None:
    rig = Rig()
    async with rig.client() as client:
        status, body = await _ask(client, "ann", "ann/pods/none")
    assert (status, body) == (404, {"error": "Pod/ann/none is not in the log"})


async def test_many_users_of_one_tenant_do_not_take_the_places_of_another() -> None:
    rig = Rig(TenantLimits(answers_at_once=2, under_way_of_tenant=2))
    crowd = ["ann", "amy", "ada"]
    rig.tokens = {*crowd, "bob"}
    rig.gate.clear()
    async with rig.client() as client, asyncio.TaskGroup() as tasks:
        first = [tasks.create_task(_ask(client, one, f"{one}/pods/a")) for one in crowd[:2]]
        await rig.under_way.acquire()
        await rig.under_way.acquire()
        status, body = await _ask(client, "ada", "ada/pods/a")
        assert (status, body["error"]) == (429, "too many questions about this tenant at a time")
        other = tasks.create_task(_ask(client, "bob", "bob/pods/b"))
        rig.gate.set()
        assert [(await one)[0] for one in (*first, other)] == [200, 200, 200]
        assert (await _ask(client, "ada", "ada/pods/a"))[0] == 200


async def test_the_users_of_a_tenant_share_a_rate() -> None:
    rig = Rig(TenantLimits(per_minute_of_tenant=3))
    rig.tokens = {"ann", "amy", "bob"}
    async with rig.client() as client:
        for user in ("ann", "amy", "ann"):
            assert (await _ask(client, user, f"{user}/pods/a"))[0] == 200
        assert (await _ask(client, "amy", "amy/pods/a"))[0] == 429
        assert (await _ask(client, "bob", "bob/pods/a"))[0] == 200
        rig.now = 60.0
        assert (await _ask(client, "amy", "amy/pods/a"))[0] == 200
