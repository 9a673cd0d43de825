"""Kubeconfigs (K15.2): contexts, certificates, plug-ins, proxies, and what is wrong with them."""

import asyncio
import base64
import os
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
import yaml
from aiohttp import web

from daemon.cluster.client import kubeconfig as kubeconfig_module
from daemon.cluster.client import plugin
from daemon.cluster.client.credentials import Access, Identity
from daemon.cluster.client.environment import proxy_for
from daemon.cluster.client.errors import UnreachableError, UntrustedError
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.kubeconfig import Kubeconfig
from events.errors import MusterError, SettingsError
from tests.daemon.cluster.client.given import Authority, connected, kubeconfig, served

PLUGIN = """
import json, os, pathlib, sys
count = pathlib.Path(sys.argv[1])
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
pathlib.Path(sys.argv[1] + ".asked").write_text(json.dumps(asked))
status = {"token": f"run-{runs}"}
status.update(json.loads(os.environ.get("STATUS", "{}")))
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""

HERE = "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Gate:
    """Remembers who came; knows which authorization is good."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.seen: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """401 to whoever is not known, if anyone is."""
        self.seen.append(request.headers.get("Authorization", ""))
        is_good = not self.good or self.seen[-1] in self.good
        return web.json_response({}, status=200 if is_good else 401)


def exec_user(folder: Path, **more: object) -> dict[str, object]:
    """A user whose credentials come from the plug-in above."""
    script = folder / "plugin.py"
    script.write_text(PLUGIN)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script), str(folder / "runs")],
            "interactiveMode": "Never",
            **more,
        }
    }


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


async def test_a_plug_in_is_run_once_until_its_token_expires(tmp_path: Path) -> None:
    """K15.2: cache until `expirationTimestamp`."""
    env = [{"name": "STATUS", "value": '{"expirationTimestamp": "2099-01-01T00:00:00Z"}'}]
    path = kubeconfig(tmp_path / "config", "http://x:1", exec_user(tmp_path, env=env))
    source = Kubeconfig((path,), None, os.environ)
    first = await source.load(None, is_refused=False)
    assert first.authorization == "Bearer run-1"
    assert await source.load(first, is_refused=False) is first


async def test_a_plug_in_is_run_again_when_its_token_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K15.2: and not more often than the bound, even if what it gives is always old."""
    env = [{"name": "STATUS", "value": '{"expirationTimestamp": "2020-01-01T00:00:00Z"}'}]
    path = kubeconfig(tmp_path / "config", "http://x:1", exec_user(tmp_path, env=env))
    source = Kubeconfig((path,), None, os.environ)
    first = await source.load(None, is_refused=False)
    assert await source.load(first, is_refused=True) is first
    monkeypatch.setattr(kubeconfig_module, "REFUSED_SECONDS_MIN", 0.0)
    assert (await source.load(first, is_refused=False)).authorization == "Bearer run-2"


async def test_a_plug_in_is_run_again_when_its_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3.9: re-read credentials on a 401, those of a plug-in too."""
    monkeypatch.setattr(kubeconfig_module, "REFUSED_SECONDS_MIN", 0.0)
    gate = Gate("Bearer run-2")
    async with served(gate.answer) as url:
        path = kubeconfig(tmp_path / "config", url, exec_user(tmp_path))
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == ["Bearer run-1", "Bearer run-2"]


async def test_a_plug_in_is_told_the_cluster_only_if_it_wants_to_know(tmp_path: Path) -> None:
    told: list[object] = []
    for wanted in (False, True):
        user = exec_user(tmp_path, provideClusterInfo=wanted)
        await load(kubeconfig(tmp_path / "config", "http://x:1", user))
        asked = msgspec.json.decode((tmp_path / "runs.asked").read_bytes())
        told.append(asked["spec"])
    cluster = {"server": "http://x:1"}
    assert told == [{"interactive": False}, {"interactive": False, "cluster": cluster}]


async def test_a_plug_in_may_give_a_certificate(tmp_path: Path, authority: Authority) -> None:
    """K15.2: exec plug-ins and client certificates."""
    certificate, key = authority.client_pair(tmp_path, "plugged")
    status = {
        "clientCertificateData": certificate.read_text(),
        "clientKeyData": key.read_text(),
    }
    env = [{"name": "STATUS", "value": msgspec.json.encode(status).decode()}]
    context = authority.server_context("127.0.0.1")
    authority.asks_for_certificates(context)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    gate = Gate()
    async with served(gate.answer, context) as url:
        path = kubeconfig(
            tmp_path / "config",
            url,
            exec_user(tmp_path, env=env),
            {"certificate-authority": "ca.crt"},
        )
        async with connected(path) as client:
            await client.get("/version")
    assert gate.seen == ["Bearer run-1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"command": "no-such-plugin", "installHint": "fetch it"}, "No such file.*fetch it"),
        ({"args": ["-c", "raise SystemExit('not logged in')"]}, "exit code 1: not logged in"),
        ({"args": ["-c", "print('hello')"]}, "cannot be read"),
        ({"args": ["-c", "print('{}')"]}, "cannot be read"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1 is not known"),
        ({"command": None}, "command"),
        ({"env": [{"name": "STATUS", "value": '{"token": ""}'}]}, "neither a token nor"),
        ({"env": [{"name": "STATUS", "value": '{"clientKeyData": "k"}'}]}, "without the other"),
        ({"args": ["-c", "import time; time.sleep(60)"]}, "no answer within"),
    ],
)
async def test_what_is_wrong_with_a_plug_in_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], told: str
) -> None:
    monkeypatch.setattr(plugin, "PLUGIN_SECONDS", 1.0)
    path = kubeconfig(tmp_path / "config", "http://x:1", exec_user(tmp_path, **change))
    with pytest.raises(MusterError, match=told):
        await Kubeconfig((path,), None, os.environ).load(None, is_refused=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not as a kubeconfig"),
        ("{", "while parsing a flow node"),
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


async def test_reading_a_kubeconfig_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://x:1", exec_user(tmp_path))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(tick())
        await Kubeconfig((path,), None, os.environ).load(None, is_refused=False)
        ticking.cancel()
    assert ticks > 10
