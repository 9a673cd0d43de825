"""Probes, metrics, and who may see what, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from daemon.address import Address, parse_address
from daemon.health import Health
from daemon.metrics.export import Metrics
from daemon.serving.listening import ListenError, listening
from daemon.serving.pages import application
from events.errors import SettingsError

Client = TestClient[web.Request, web.Application]


class Served:
    """What is behind the pages."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.health = Health(lambda: self.now_ns)
        self.metrics = Metrics(self.health, "1.2.3", 4)

    @asynccontextmanager
    async def client(
        self, token: str | None = None, *, is_loopback: bool = True
    ) -> AsyncIterator[Client]:
        """A client."""
        app = application(self.health, self.metrics, token=token, is_loopback=is_loopback)
        app.router.add_get("/private", _private)
        async with TestClient(TestServer(app)) as client:
            yield client


async def _private(_request: web.Request) -> web.Response:
    return web.Response(text="for some")


@pytest.fixture
def served() -> Served:
    return Served()


async def test_readyz_says_why_not_as_json(served: Served) -> None:
    served.health.clear("start")
    served.health.role = "leader"
    served.health.set("watch/Pod", "forbidden: watch pods")
    async with served.client() as client, client.get("/readyz") as answer:
        assert answer.status == 503
        assert answer.content_type == "application/json"
        assert await answer.json() == {
            "ready": False,
            "role": "leader",
            "reasons": {"watch/Pod": "forbidden: watch pods"},
        }


async def test_readyz_is_true_on_a_standby_by_rule_k14_8(served: Served) -> None:
    served.health.clear("start")
    served.health.role = "standby"
    async with served.client() as client, client.get("/readyz") as answer:
        assert answer.status == 200
        assert await answer.json() == {"ready": True, "role": "standby", "reasons": {}}


async def test_livez_follows_the_loop_and_not_the_readiness(served: Served) -> None:
    served.health.beat()
    async with served.client() as client:
        async with client.get("/livez") as answer:
            assert (answer.status, await answer.json()) == (200, {"live": True, "still": {}})
        served.now_ns = 90_000_000_000
        async with client.get("/livez") as answer:
            assert answer.status == 503
            assert await answer.json() == {"live": False, "still": {"loop": 90.0}}


async def test_metrics_are_text_that_prometheus_reads(served: Served) -> None:
    async with served.client() as client, client.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'muster_build_info{decider="4",version="1.2.3"} 1.0' in await answer.text()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
async def test_probes_and_metrics_ask_for_no_token(path: str, served: Served) -> None:
    served.health.clear("start")
    async with (
        served.client("secret", is_loopback=False) as client,
        client.get(path) as answer,
        client.head(path) as head,
    ):
        assert (answer.status, head.status) == (200, 200)


@pytest.mark.parametrize(
    ("token", "is_loopback", "given", "status"),
    [
        (None, True, None, 200),
        (None, False, None, 403),
        (None, False, "Bearer None", 403),
        ("secret", True, None, 401),
        ("secret", False, None, 401),
        ("secret", False, "Bearer secret", 200),
        ("secret", False, "Bearer secret2", 401),
        ("secret", False, "secret", 401),
        ("secret", False, "Basic c2VjcmV0", 401),
        ("secret", False, "Bearer \u00fc", 401),
    ],
)
async def test_everything_else_asks_for_a_token_unless_on_loopback(
    token: str | None, is_loopback: bool, given: str | None, status: int, served: Served
) -> None:
    headers = {} if given is None else {"Authorization": given}
    async with (
        served.client(token, is_loopback=is_loopback) as client,
        client.get("/private", headers=headers) as answer,
    ):
        assert answer.status == status


async def test_a_request_without_a_token_gets_401_for_every_path(served: Served) -> None:
    async with served.client("secret", is_loopback=False) as client:
        async with client.get("/nothing") as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        async with client.get("/livez/../private") as answer:
            assert answer.status == 401


async def test_nothing_can_be_changed_over_http(served: Served) -> None:
    async with served.client() as client:
        for path in ("/livez", "/readyz", "/metrics"):
            async with client.post(path, data=b"x") as answer:
                assert answer.status == 405


async def test_it_listens_for_as_long_as_the_block_lasts(served: Served) -> None:
    app = application(served.health, served.metrics, token=None, is_loopback=True)
    async with aiohttp.ClientSession() as session:
        async with (
            listening(Address("127.0.0.1", 0), app) as address,
            session.get(f"http://{address}/livez") as answer,
        ):
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"http://{address}/livez")


async def test_an_address_that_is_taken_is_named(served: Served) -> None:
    def app() -> web.Application:
        return application(served.health, served.metrics, token=None, is_loopback=True)

    async with listening(Address("127.0.0.1", 0), app()) as address:
        with pytest.raises(ListenError, match=f"127.0.0.1:{address.port}"):
            async with asyncio.timeout(5), listening(address, app()):
                pass


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.9.9.9:1", "127.9.9.9", 1, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:8080", "::1", 8080, True),
        ("0.0.0.0:8080", "0.0.0.0", 8080, False),  # noqa: S104  # only parsed
        ("[::]:8080", "::", 8080, False),
        ("muster.example:80", "muster.example", 80, False),
    ],
)
def test_an_address_is_a_host_and_a_port(
    text: str, host: str, port: int, is_loopback: bool
) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, is_loopback)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "::1:8080", "a:b", "a:99999", "http://a:80", "a:80/x", "a:80\n"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_address(text)
