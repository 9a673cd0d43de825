"""Kubeconfigs (K15.2): contexts, certificates, proxies, and what is wrong with them."""

import base64
import os
import tempfile
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from daemon.cluster.client.credentials import Access, Identity
from daemon.cluster.client.environment import proxy_for
from daemon.cluster.client.errors import UnreachableError, UntrustedError
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.kubeconfig import Kubeconfig
from events.errors import SettingsError
from tests.daemon.cluster.client.builders import Authority, Gate, connected, kubeconfig, served

HERE = "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"


def in_base64(path: Path) -> str:
    """A file's content, as a kubeconfig holds it."""
    return base64.b64encode(path.read_bytes()).decode()


async def load(path: Path) -> Identity:
    """What a kubeconfig makes of us."""
    return await Kubeconfig((path,), None, {}).load(None, is_refused=False)


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """K15.2: and white space around the token is no part of it."""
    (tmp_path / "token").write_text("one\n")
    gate = Gate("Bearer one")
    async with served(gate.answer) as url:
        user: dict[str, object] = {"tokenFile": "token"}
        async with connected(kubeconfig(tmp_path / "config", url, user)) as client:
            await client.get("/version")
            gate.good = {"Bearer two"}
            (tmp_path / "token").write_text("two")
            await client.get("/version")
    assert gate.seen == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_client_certificate_in_the_kubeconfig_lets_us_in(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K15.2: client certificates; no key is left on the disk."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    certificate, key = authority.client_pair(tmp_path, "someone")
    context = authority.server_context("127.0.0.1")
    authority.asks_for_certificates(context)
    user: dict[str, object] = {
        "client-certificate-data": in_base64(certificate),
        "client-key-data": in_base64(key),
    }
    trust: dict[str, object] = {
        "certificate-authority-data": base64.b64encode(authority.pem).decode()
    }
    gate = Gate()
    async with served(gate.answer, context) as url:
        path = kubeconfig(tmp_path / "config", url, user, trust)
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == [""]
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_a_client_certificate_that_is_replaced_is_shown_from_then_on(
    tmp_path: Path, authority: Authority
) -> None:
    """K15.2: client certificates expire."""
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    first = authority.client_pair(tmp_path, "first")
    user: dict[str, object] = {"client-certificate": "me.crt", "client-key": "me.key"}
    for made, name in zip(first, ("me.crt", "me.key"), strict=True):
        made.rename(tmp_path / name)
    path = kubeconfig(
        tmp_path / "config", "https://127.0.0.1:1", user, {"certificate-authority": "ca.crt"}
    )
    source = Kubeconfig((path,), None, {})
    before = await source.load(None, is_refused=False)
    assert await source.load(before, is_refused=False) is before
    for made, name in zip(authority.client_pair(tmp_path, "b"), ("me.crt", "me.key"), strict=True):
        made.rename(tmp_path / name)
    after = await source.load(before, is_refused=False)
    assert after.tls is not before.tls


async def test_a_server_name_that_the_kubeconfig_states_is_the_one_that_counts(
    tmp_path: Path, authority: Authority
) -> None:
    """K15.2: `tls-server-name`."""
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    gate = Gate()
    async with served(gate.answer, authority.server_context("kube.example")) as url:
        cluster: dict[str, object] = {"certificate-authority": "ca.crt"}
        path = kubeconfig(tmp_path / "config", url, None, cluster)
        async with connected(path) as client:
            with pytest.raises(UntrustedError):
                await client.get("/version")
        kubeconfig(path, url, None, {**cluster, "tls-server-name": "kube.example"})
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == ["Bearer first"]


async def test_a_server_is_not_checked_where_the_kubeconfig_says_so(
    tmp_path: Path, authority: Authority
) -> None:
    gate = Gate()
    async with served(gate.answer, authority.server_context("other.example")) as url:
        path = kubeconfig(tmp_path / "config", url, None, {"insecure-skip-tls-verify": True})
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == ["Bearer first"]


async def test_a_cluster_without_a_user_is_spoken_to_without_credentials(
    tmp_path: Path, authority: Authority
) -> None:
    """The client library alone fails here, with a TypeError."""
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    gate = Gate()
    async with served(gate.answer, authority.server_context("127.0.0.1")) as url:
        path = kubeconfig(tmp_path / "config", url, None, {"certificate-authority": "ca.crt"})
        document = yaml.safe_load(path.read_text())
        del document["users"], document["contexts"][0]["context"]["user"]
        path.write_text(yaml.safe_dump(document))
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == [""]


async def test_requests_go_through_the_proxy_that_the_kubeconfig_names(tmp_path: Path) -> None:
    """K15.2: `proxy-url`."""
    asked: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers["Host"])
        return web.json_response({})

    async with served(proxy) as url:
        path = kubeconfig(tmp_path / "config", "http://kube.example:1", None, {"proxy-url": url})
        async with connected(path) as client:
            await client.get("/version")
    assert asked == ["kube.example:1"]


async def test_a_proxy_that_refuses_proves_that_nothing_was_asked(tmp_path: Path) -> None:
    async def proxy(_: web.BaseRequest) -> web.Response:
        return web.Response(status=407)

    async with served(proxy) as url:
        path = kubeconfig(tmp_path / "config", "https://kube.example:1", None, {"proxy-url": url})
        async with connected(path) as client:
            with pytest.raises(UnreachableError, match="407"):
                await client.get("/version")


@pytest.mark.parametrize(
    ("no_proxy", "is_used"),
    [
        ("", True),
        ("*", False),
        ("example", False),
        (".kube.example", False),
        ("other.example, 10.0.0.0/8", True),
        ("kube.example", False),
    ],
)
def test_the_environments_proxy_is_used_unless_it_exempts_the_host(
    no_proxy: str, is_used: bool
) -> None:
    environment = {"HTTPS_PROXY": "proxy.example:3128", "NO_PROXY": no_proxy}
    expected = "http://proxy.example:3128" if is_used else None
    assert proxy_for("https://a.kube.example:6443", environment) == expected
    assert proxy_for("http://a.kube.example", environment) is None


def test_a_range_of_addresses_may_be_exempt_from_the_proxy() -> None:
    environment = {"https_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}
    assert proxy_for("https://10.1.2.3:443", environment) is None
    assert proxy_for("https://11.1.2.3:443", environment) == "http://p:1"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]"])
def test_this_machine_is_never_reached_through_the_environments_proxy(host: str) -> None:
    assert proxy_for(f"https://{host}:6443", {"https_proxy": "http://p:1"}) is None


async def test_a_proxy_of_a_kind_that_we_cannot_use_is_named(tmp_path: Path) -> None:
    """K15.2: said at the start, without the password that its address may hold."""
    named: dict[str, object] = {"proxy-url": "socks5://me:secret@p:1"}
    with pytest.raises(SettingsError, match=r"proxy-url: .* not socks5://$"):
        await load(kubeconfig(tmp_path / "config", "https://x:1", None, named))
    with pytest.raises(SettingsError, match="https_proxy"):
        proxy_for("https://x:1", {"HTTPS_PROXY": "socks5://p:1"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not as a kubeconfig"),
        ("{", "not YAML: did not find expected node content"),
        ("[1]", "not as a kubeconfig"),
        ("current-context: x\ncontexts: []\n", "object with name x"),
        ("contexts: 7\n", "not as a kubeconfig"),
        (HERE + "clusters: []\n", "object with name c"),
        (HERE + "clusters: [{name: c, cluster: {tls-server-name: x}}]\n", "server is not given"),
        (HERE + "clusters: [{name: c, cluster: {server: x:6443}}]\n", "server is not given"),
        (HERE + "clusters: [{name: c, cluster: {server: 7}}]\n", "not as a kubeconfig"),
        (
            HERE + "clusters: [{name: c, cluster: {server: https://x, certificate-authority: y}}]",
            "File does not exist",
        ),
    ],
)
async def test_a_malformed_kubeconfig_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(SettingsError, match=str(path)) as caught:
        await load(path)
    assert told in str(caught.value)


async def test_a_kubeconfig_with_a_broken_certificate_is_named(tmp_path: Path) -> None:
    trust: dict[str, object] = {"certificate-authority-data": base64.b64encode(b"no").decode()}
    path = kubeconfig(tmp_path / "config", "https://x:1", None, trust)
    with pytest.raises(SettingsError, match="no CA certificates"):
        await load(path)


async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere.*no such file"):
        await Client.connect(Access(tmp_path / "nowhere"), lambda: 0.0, "muster/0")


async def test_a_context_can_be_chosen_by_name(tmp_path: Path) -> None:
    """K15.2: and one that does not exist is named."""
    path = kubeconfig(tmp_path / "config", "http://x:1")
    document = yaml.safe_load(path.read_text())
    document["contexts"].append({"name": "there", "context": {"cluster": "c", "user": "u"}})
    path.write_text(yaml.safe_dump(document))
    chosen = await Kubeconfig((path,), "there", {}).load(None, is_refused=False)
    assert chosen.namespace == "default"
    with pytest.raises(SettingsError, match="elsewhere"):
        await Kubeconfig((path,), "elsewhere", {}).load(None, is_refused=False)


async def test_several_kubeconfigs_are_merged_as_the_environment_names_them(tmp_path: Path) -> None:
    """K15.2: the first that names a thing wins, as kubectl has it."""
    one = kubeconfig(tmp_path / "one", "http://one:1")
    two = kubeconfig(tmp_path / "two", "http://two:1")
    environment = {"KUBECONFIG": f"{one}{os.pathsep}{two}"}
    source = source_for(Access(), environment)
    assert (await source.load(None, is_refused=False)).server == "http://one:1"
