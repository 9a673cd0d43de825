"""How the command reaches a daemon with a tenant's token."""

from pathlib import Path

import pytest
from aiohttp import web

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.tenant_client import ask_daemon
from events.errors import ClusterError, SettingsError, UsageError
from tests.daemon.cluster.client.builders import kubeconfig, served


async def test_through_the_api_server_the_token_is_sent_twice(tmp_path: Path) -> None:
    """The API server takes `Authorization` away."""
    seen: list[tuple[str, str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        headers = request.headers
        seen.append((request.path, headers["Authorization"], headers["X-Muster-Authorization"]))
        return web.json_response({}) if len(seen) == 1 else web.json_response({}, status=302)

    async with served(answer) as url:
        access = Access(kubeconfig=kubeconfig(tmp_path / "config", url))
        assert await ask_daemon("Pod/team-a/p", access) == b"{}"
        with pytest.raises(ClusterError, match="302"):
            await ask_daemon("Pod/team-a/p", access)
    path = "/api/v1/namespaces/muster-system/services/http:muster:http/proxy/v1/why/Pod/team-a/p"
    assert seen[0] == (path, "Bearer first", "Bearer first")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"server": "http://10.0.0.1:8080"}, "https only"),
        ({"server": "muster"}, "not a URL"),
        ({"service": "muster"}, "not NAMESPACE/NAME:PORT"),
        ({"service": "a/b/../c:http"}, "not NAMESPACE/NAME:PORT"),
    ],
)
async def test_a_malformed_way_is_an_error(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    access = Access(kubeconfig=kubeconfig(tmp_path / "config", "http://127.0.0.1:1"))
    with pytest.raises(UsageError, match=text):
        await ask_daemon("Pod/team-a/p", access, **options)


async def test_without_a_bearer_token_the_error_says_so(tmp_path: Path) -> None:
    access = Access(kubeconfig=kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user={}))
    with pytest.raises(SettingsError, match="no bearer token"):
        await ask_daemon("Pod/team-a/p", access)
