"""Credential plug-ins of a kubeconfig (K15.2): when they are run, what they may give, what goes wrong."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from daemon.cluster.client import exec_credential
from daemon.cluster.client import kubeconfig as kubeconfig_module
from daemon.cluster.client.kubeconfig import Kubeconfig
from events.errors import MusterError
from tests.daemon.cluster.client.builders import Authority, Gate, connected, kubeconfig, served

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
OLDER = '{"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "t"}}'


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


async def test_provide_cluster_info_passes_the_cluster_to_the_exec_plugin(tmp_path: Path) -> None:
    told: list[object] = []
    for wanted in (False, True):
        user = exec_user(tmp_path, provideClusterInfo=wanted)
        path = kubeconfig(tmp_path / "config", "http://x:1", user)
        await Kubeconfig((path,), None, os.environ).load(None, is_refused=False)
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


async def test_a_new_certificate_counts_though_the_token_is_the_same(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig_module, "REFUSED_SECONDS_MIN", 0.0)
    certificate, key = authority.client_pair(tmp_path, "plugged")
    data = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    status = msgspec.json.encode({"token": "same", **data}).decode()
    user = exec_user(tmp_path, env=[{"name": "STATUS", "value": status}])
    path = kubeconfig(tmp_path / "config", "https://x:1", user)
    source = Kubeconfig((path,), None, os.environ)
    first = await source.load(None, is_refused=False)
    assert await source.load(first, is_refused=False) is first
    assert (await source.load(first, is_refused=True)).tls is not first.tls


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"command": "no-such-plugin", "installHint": "fetch it"}, "No such file.*fetch it"),
        ({"args": ["-c", "raise SystemExit('not logged in')"]}, "exit code 1: not logged in"),
        ({"args": ["-c", "print('hello')"]}, "cannot be read"),
        ({"args": ["-c", "print('{}')"]}, "cannot be read"),
        ({"args": ["-c", f"print('{OLDER}')"]}, "answered client.authentication.k8s.io/v1beta1"),
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
    monkeypatch.setattr(exec_credential, "PLUGIN_SECONDS", 1.0)
    path = kubeconfig(tmp_path / "config", "http://x:1", exec_user(tmp_path, **change))
    # One that is too slow is ended, and not waited for.
    async with asyncio.timeout(20):
        with pytest.raises(MusterError, match=told):
            await Kubeconfig((path,), None, os.environ).load(None, is_refused=False)


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
