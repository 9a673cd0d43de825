"""Requests: where they go, what they carry, how often they are made, and what comes of them."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from daemon.cluster.client.calls import (
    BIND_POD,
    CALLS,
    CREATE_EVENT,
    GET_LEASE,
    GET_POD,
    LIST,
    PATCH_QUEUE_STATUS,
    READING,
    UPDATE_LEASE,
    Call,
)
from daemon.cluster.client.errors import (
    BudgetError,
    ConflictError,
    InvalidError,
    ServerError,
    ThrottledError,
    UnansweredError,
    UnauthorizedError,
)
from daemon.cluster.client.http_client import call_path
from events.errors import ClusterError
from tests.daemon.cluster.client.builders import USER_AGENT, connected, kubeconfig, served, talking

LIST_PODS = LIST["Pod"]


class Script:
    """Answers requests one after the other as the script says, the last line for ever."""

    def __init__(self, *answers: web.Response | tuple[int, str]) -> None:
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self._answers = answers

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """One request."""
        self.bodies.append(await request.read())
        self.asked.append(request)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if isinstance(answer, web.Response):
            # Each can be sent only once.
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        status, reason = answer
        return web.json_response({"kind": "Status", "reason": reason}, status=status)


def throttled(retry_after: str) -> web.Response:
    """429 as the API server's fairness gives it: plain text."""
    return web.Response(status=429, text="Too many requests", headers={"Retry-After": retry_after})


@pytest.mark.parametrize(
    ("call", "name", "namespace", "path"),
    [
        (LIST_PODS, "", "", "/api/v1/pods"),
        (GET_POD, "a", "ns", "/api/v1/namespaces/ns/pods/a"),
        (BIND_POD, "a", "ns", "/api/v1/namespaces/ns/pods/a/binding"),
        (CREATE_EVENT, "", "ns", "/apis/events.k8s.io/v1/namespaces/ns/events"),
        (GET_LEASE, "m", "ns", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/m"),
        (
            PATCH_QUEUE_STATUS,
            "q",
            "",
            "/apis/scheduling.volcano.sh/v1beta1/queues/q/status",
        ),
        (GET_POD, "a/../b", "ns", "/api/v1/namespaces/ns/pods/a%2F..%2Fb"),
    ],
)
def test_a_call_goes_where_its_resource_is(
    call: Call, name: str, namespace: str, path: str
) -> None:
    assert call_path(call, name, namespace) == path


async def test_a_request_has_user_agent_and_content_type(tmp_path: Path) -> None:
    """A request names its sender in `User-Agent`, and a patch its content type."""
    script = Script(web.json_response({"ok": True}))
    async with talking(script.answer, tmp_path) as client:
        body = await client.request(
            PATCH_QUEUE_STATUS,
            name="q",
            query={"fieldManager": "muster"},
            body=b"{}",
            content_type="application/merge-patch+json",
        )
        assert msgspec.json.decode(body) == {"ok": True}
        assert client.namespace == "ours"
    (asked,) = script.asked
    assert (asked.method, asked.query["fieldManager"]) == ("PATCH", "muster")
    assert asked.headers["User-Agent"] == USER_AGENT
    assert asked.headers["Authorization"] == "Bearer first"
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    assert script.bodies == [b"{}"]


async def test_every_verb_of_the_table_is_a_method_of_http(tmp_path: Path) -> None:
    script = Script(web.json_response({}))
    async with talking(script.answer, tmp_path) as client:
        for call in CALLS:
            await client.request(call, name="a" if call.verb != "list" else "", namespace="ns")
    methods = {(call.verb, asked.method) for call, asked in zip(CALLS, script.asked, strict=True)}
    assert methods == {
        *(("list", "GET"), ("get", "GET"), ("watch", "GET")),
        *(("create", "POST"), ("update", "PUT"), ("patch", "PATCH"), ("delete", "DELETE")),
    }


async def test_a_client_that_only_reads_sends_no_call_that_could_write(tmp_path: Path) -> None:
    script = Script(web.json_response({}))
    async with (
        served(script.answer) as url,
        connected(kubeconfig(tmp_path / "config", url), is_read_only=True) as client,
    ):
        for call in CALLS:
            if call.verb in READING:
                await client.request(call, name="a", namespace="ns")
                continue
            with pytest.raises(ClusterError, match=r"not sent, a shadow only reads"):
                await client.request(call, name="a", namespace="ns", body=b"{}")
    assert {asked.method for asked in script.asked} == {"GET"}


async def test_a_safe_read_is_made_again_until_it_is_answered(tmp_path: Path) -> None:
    """K12.2: 429, 500, 502, 503 and 504 are retried."""
    failures = [(code, "") for code in (500, 502, 503, 504)]
    script = Script(*failures, throttled("0"), web.json_response({}))
    async with talking(script.answer, tmp_path) as client:
        assert await client.request(LIST_PODS, tries=6) == b"{}"
    assert len(script.asked) == 6


async def test_a_request_is_sent_once_by_default(tmp_path: Path) -> None:
    """K12.2: a write is not retried blindly; a PUT that aiohttp would send again is not either."""
    script = Script((500, "InternalError"))
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(ServerError):
            await client.request(UPDATE_LEASE, name="m", namespace="ns", body=b"{}")
    assert len(script.asked) == 1


@pytest.mark.parametrize("answer", [(409, "Conflict"), (501, ""), (422, "Invalid"), (403, "")])
async def test_what_is_answered_for_good_is_not_asked_again(
    tmp_path: Path, answer: tuple[int, str]
) -> None:
    script = Script(answer)
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(Exception, match=str(answer[0])):
            await client.request(GET_POD, name="a", namespace="ns", tries=5)
    assert len(script.asked) == 1


async def test_a_disruption_budget_is_not_waited_for(tmp_path: Path) -> None:
    """K9.2: the caller of the eviction decides when to retry."""
    causes = {"details": {"causes": [{"reason": "DisruptionBudget"}]}}
    script = Script(web.json_response({"kind": "Status", **causes}, status=429))
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(BudgetError):
            await client.request(GET_POD, name="a", namespace="ns", tries=5)
    assert len(script.asked) == 1


async def test_retry_after_is_waited_for_before_the_next_try(tmp_path: Path) -> None:
    """K12.3: the client waits as long as the server says, in real seconds."""
    script = Script(throttled("1"), web.json_response({}))
    async with talking(script.answer, tmp_path) as client:
        began = asyncio.get_running_loop().time()
        await client.request(LIST_PODS, tries=2)
        assert asyncio.get_running_loop().time() - began >= 1.0


async def test_a_silence_beyond_the_deadline_is_not_waited_for(tmp_path: Path) -> None:
    """Each request has a deadline, which all of its tries share."""
    script = Script(throttled("100"))
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(ThrottledError) as caught:
            await client.request(LIST_PODS, tries=5, deadline_seconds=5.0)
    assert caught.value.retry_after_seconds == 100.0
    assert len(script.asked) == 1


async def test_a_server_that_never_answers_ends_with_the_deadline(tmp_path: Path) -> None:
    """What the lost request did is not known."""
    never = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.Response:
        await never.wait()
        return web.json_response({})

    async with talking(wait, tmp_path) as client:
        with pytest.raises(UnansweredError, match="no answer in time"):
            await client.request(BIND_POD, name="a", namespace="n", deadline_seconds=0.1, body=b"")
        never.set()


async def test_after_a_401_the_same_is_asked_once_more_at_once(tmp_path: Path) -> None:
    """K3.9: one immediate retry, of a write too: 401 means that nothing was done."""
    script = Script((401, "Unauthorized"), web.json_response({}))
    async with talking(script.answer, tmp_path) as client:
        await client.request(BIND_POD, name="a", namespace="ns", body=b'{"kind":"Binding"}')
    assert script.bodies == [b'{"kind":"Binding"}'] * 2


async def test_a_second_401_is_the_answer(tmp_path: Path) -> None:
    """K3.9: one retry, not a loop."""
    script = Script((401, "Unauthorized"))
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(UnauthorizedError):
            await client.request(BIND_POD, name="a", namespace="ns", body=b"{}", tries=9)
    assert len(script.asked) == 2


async def test_a_list_that_is_refused_again_and_again_is_repeated_once_a_minute(
    tmp_path: Path,
) -> None:
    """K3.11: a repetition after a 401 must not double what a reflector counts."""
    script = Script((401, "Unauthorized"))
    async with talking(script.answer, tmp_path) as client:
        for _ in range(10):
            with pytest.raises(UnauthorizedError):
                await client.request(LIST_PODS)
    assert len(script.asked) == 11


async def test_a_conflict_keeps_the_reason_that_the_server_gave(tmp_path: Path) -> None:
    script = Script((409, "Conflict"))
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(ConflictError, match="update leases: 409 Conflict"):
            await client.request(UPDATE_LEASE, name="m", namespace="ns", body=b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(text="<html>log in</html>", content_type="text/html"),
        web.Response(body=b""),
        web.Response(status=204),
    ],
    ids=["html", "nothing", "no content"],
)
async def test_a_success_that_is_no_json_answers_nothing(
    tmp_path: Path, answer: web.Response
) -> None:
    """K3.10: the content type is checked before anything is parsed."""
    script = Script(answer)
    async with talking(script.answer, tmp_path) as client:
        with pytest.raises(UnansweredError, match="for JSON"):
            await client.get("/version")


async def test_a_warning_is_logged_once_for_each_text(tmp_path: Path) -> None:
    """K12.5: deprecations are logged once."""
    warned = web.json_response({}, headers={"Warning": '299 - "v1beta1 is deprecated"'})
    other = web.json_response({}, headers={"Warning": '299 - "something else"'})
    script = Script(warned, warned, other)
    async with talking(script.answer, tmp_path) as client:
        with capture_logs() as logs:
            for _ in range(3):
                await client.get("/version")
    assert [log["text"] for log in logs] == [
        '299 - "v1beta1 is deprecated"',
        '299 - "something else"',
    ]


async def test_the_observer_gets_each_try_of_a_request(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def observe(what: str, status: int, seconds: float) -> None:
        assert seconds >= 0.0
        seen.append((what, status))

    script = Script((500, ""), web.json_response({}))
    async with talking(script.answer, tmp_path, observe=observe) as client:
        await client.request(LIST_PODS, tries=2)
    assert seen == [("list pods", 500), ("list pods", 200)]


async def test_no_cookie_is_kept_and_no_redirect_followed(tmp_path: Path) -> None:
    moved = web.Response(status=302, headers={"Location": "/login", "Set-Cookie": "a=b"})
    script = Script(moved, web.json_response({}))
    async with served(script.answer) as url:
        # No client keeps a cookie of a bare address.
        path = kubeconfig(tmp_path / "config", url.replace("127.0.0.1", "localhost"))
        async with connected(path) as client:
            with pytest.raises(InvalidError, match="redirects to /login"):
                await client.get("/version")
            await client.get("/version")
    assert [asked.path for asked in script.asked] == ["/version", "/version"]
    assert "Cookie" not in script.asked[1].headers
