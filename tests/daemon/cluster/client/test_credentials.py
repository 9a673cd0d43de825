"""Credentials that change while we run (K15.1), and servers that are not to be trusted."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from daemon.cluster.client import credentials
from daemon.cluster.client.calls import GET_POD
from daemon.cluster.client.connection_pool import ConnectionPool
from daemon.cluster.client.credentials import Access, Credentials, Identity
from daemon.cluster.client.errors import UnauthorizedError, UntrustedError
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.in_cluster import InCluster
from daemon.cluster.client.transport import new_session
from events.errors import SettingsError
from tests.daemon.cluster.client.builders import (
    USER_AGENT,
    Authority,
    connected,
    kubeconfig,
    served,
)


class Account:
    """A service account's volume, and a server that knows which tokens are good."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.good = {"Bearer one"}
        self.seen: list[str] = []
        self.write("token", b"one\n")
        self.write("namespace", b"muster-system")
        self.write("ca.crt", authority.pem)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, as the kubelet does: whole, and with another inode."""
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        new.rename(self.folder / name)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """401 for any other token."""
        authorization = request.headers["Authorization"]
        self.seen.append(authorization)
        status = 200 if authorization in self.good else 401
        return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=status)


@asynccontextmanager
async def in_cluster(account: Account, url: str) -> AsyncIterator[Client]:
    """A client that runs as this service account."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    source = InCluster(environment, account.folder)
    loaded = await Credentials.load(source)
    client = Client(loaded, new_session(USER_AGENT), ConnectionPool(USER_AGENT), lambda: 0.0)
    try:
        yield client
    finally:
        await client.close()


async def test_a_pod_speaks_as_its_service_account(tmp_path: Path, authority: Authority) -> None:
    """K15.1: token, CA and namespace from the volume; white space is stripped."""
    account = Account(tmp_path, authority)
    async with (
        served(account.answer, authority.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        await client.get("/version")
        assert client.namespace == "muster-system"
    assert account.seen == ["Bearer one"]


async def test_a_token_that_was_replaced_is_read_again_on_a_401(
    tmp_path: Path, authority: Authority
) -> None:
    """K15.1: re-read on any 401, and the same request is made once more."""
    account = Account(tmp_path, authority)
    async with (
        served(account.answer, authority.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        await client.get("/version")
        account.good = {"Bearer two"}
        account.write("token", b"two")
        await client.request(GET_POD, name="a", namespace="ns")
    assert account.seen == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_token_is_read_again_each_minute_before_it_expires(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K15.1: re-read at least each minute; a minute is made short here."""
    account = Account(tmp_path, authority)
    account.good = {"Bearer one", "Bearer two"}
    assert credentials.RENEW_SECONDS <= 60
    async with (
        served(account.answer, authority.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        account.write("token", b"two")
        await client.get("/version")
        monkeypatch.setattr(credentials, "RENEW_SECONDS", 0.0)
        await client.get("/version")
    assert account.seen == ["Bearer one", "Bearer two"]


async def test_many_requests_refused_at_once_renew_the_credentials_once() -> None:
    """K15.1: on any 401, but not once for each of them: a plug-in may stand behind it."""
    loads: list[bool] = []

    class Source:
        async def load(self, known: Identity | None, *, is_refused: bool) -> Identity:
            loads.append(is_refused)
            await asyncio.sleep(0)
            return Identity(server="http://x", authorization=f"Bearer {len(loads)}")

    loaded = await Credentials.load(Source())
    used = await loaded.current()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loaded.refused(used)) for _ in range(20)]
    assert loads == [False, True]
    assert {task.result().authorization for task in tasks} == {"Bearer 2"}


async def test_an_expired_token_that_was_not_rotated_is_unauthorized(
    tmp_path: Path, authority: Authority
) -> None:
    """K3.9: one retry with what the file says, then the caller is told."""
    account = Account(tmp_path, authority)
    account.good = set()
    async with (
        served(account.answer, authority.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        with pytest.raises(UnauthorizedError, match="get pods: 401 Unauthorized"):
            await client.request(GET_POD, name="a", namespace="ns", tries=5)
    assert len(account.seen) == 2


async def test_a_token_file_that_is_away_for_a_moment_leaves_the_old_token(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(tmp_path, authority)
    async with (
        served(account.answer, authority.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        monkeypatch.setattr(credentials, "RENEW_SECONDS", 0.0)
        (tmp_path / "token").unlink()
        with capture_logs() as logs:
            await client.get("/version")
            await client.get("/version")
    assert account.seen == ["Bearer one"] * 2
    assert [(log["event"], str(tmp_path / "token") in log["error"]) for log in logs] == [
        ("credentials cannot be renewed", True)
    ]


async def test_a_ca_that_rotates_is_trusted_without_a_restart(
    tmp_path: Path, authority: Authority
) -> None:
    """K15.1: the CA bundle can rotate: its file is watched, and the TLS context is rebuilt."""
    account, successor = Account(tmp_path, authority), Authority()
    async with (
        served(account.answer, successor.server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        with pytest.raises(UntrustedError):
            await client.get("/version")
        account.write("ca.crt", authority.pem + successor.pem)
        await client.get("/version")
    assert account.seen == ["Bearer one"]


async def test_a_certificate_of_another_authority_is_refused_and_named(
    tmp_path: Path, authority: Authority
) -> None:
    """K15: the token never reaches a server that cannot prove who it is."""
    account = Account(tmp_path, authority)
    async with (
        served(account.answer, Authority().server_context("127.0.0.1")) as url,
        in_cluster(account, url) as client,
    ):
        with pytest.raises(UntrustedError, match=f"certificate of {url} is not trusted: unable"):
            await client.get("/version")
    assert account.seen == []


async def test_a_certificate_for_another_host_is_refused_and_named(
    tmp_path: Path, authority: Authority
) -> None:
    account = Account(tmp_path, authority)
    async with (
        served(account.answer, authority.server_context("elsewhere.example")) as url,
        in_cluster(account, url) as client,
    ):
        with pytest.raises(UntrustedError, match="IP address mismatch"):
            await client.get("/version")
    assert account.seen == []


async def test_an_ipv6_address_stands_in_brackets(tmp_path: Path, authority: Authority) -> None:
    """K15.1: bracket IPv6."""
    account = Account(tmp_path, authority)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    identity = await InCluster(environment, account.folder).load(None, is_refused=False)
    assert identity.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("name", ["token", "namespace", "ca.crt"])
@pytest.mark.parametrize("is_empty", [True, False])
async def test_what_a_service_account_lacks_is_named(
    tmp_path: Path, authority: Authority, name: str, is_empty: bool
) -> None:
    account = Account(tmp_path, authority)
    (tmp_path / name).unlink()
    if is_empty:
        (tmp_path / name).touch()
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(SettingsError, match=name):
        await InCluster(environment, account.folder).load(None, is_refused=False)


async def test_the_cluster_we_are_in_comes_before_the_users_kubeconfig(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    (tmp_path / "token").write_text("t")
    assert InCluster(environment, tmp_path).is_present
    assert not InCluster({}, tmp_path).is_present
    assert not isinstance(source_for(Access(tmp_path / "config"), environment), InCluster)


async def test_a_server_over_plain_http_needs_no_trust(tmp_path: Path) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    async with (
        served(answer) as url,
        connected(kubeconfig(tmp_path / "config", url + os.sep)) as client,
    ):
        assert await client.get("/version") == b"{}"
