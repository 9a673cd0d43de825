"""Tenants ask the daemon on a real API server: through its service proxy, with tokens of service accounts."""

import asyncio
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
import yaml

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.reviews import Reviews
from projections.api_resource import Resource
from projections.kinds.pod import PODS
from tests.checkout import ROOT
from tests.control_plane.api import MERGE, Object
from tests.control_plane.program import free_ports
from tests.control_plane.setup import ACCOUNTS, BINDINGS, RBAC, ROLES
from tests.e2e.rig import Rig

SERVICES: Final = Resource("Service", "services")
ENDPOINTS: Final = Resource("Endpoints", "endpoints")
PROXY: Final = "https:muster-tenants:tenants"
PROBED: Final = "192.0.2.1"
"""An address of the documentation's: nothing is sent to it."""


def own_address() -> str:
    """The address of this machine that the API server may connect to, which a loopback one is not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((PROBED, 9))
        except OSError:
            pytest.skip("this machine has no address but a loopback one")
        return str(asked.getsockname()[0])


async def account(rig: Rig, name: str, rules: list[Object]) -> str:
    """A service account with some rights in the test's namespace; its token."""
    named = {"metadata": {"name": name, "namespace": rig.namespace}}

    def made(resource: Resource, **fields: Any) -> Object:
        return {"apiVersion": resource.api_version, "kind": resource.kind, **named, **fields}

    await rig.api.apply(ACCOUNTS, made(ACCOUNTS))
    await rig.api.apply(ROLES, made(ROLES, rules=rules))
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": rig.namespace}
    await rig.api.apply(BINDINGS, made(BINDINGS, roleRef=reference, subjects=[subject]))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = ACCOUNTS.object_path(name, rig.namespace, "token")
    return str((await rig.api.post(path, request)).expect(201)["status"]["token"])


async def serve(rig: Rig, address: str, port: int) -> None:
    """A Service in front of the daemon, which is no pod."""
    named = {"metadata": {"name": "muster-tenants", "namespace": rig.namespace}}
    ports = [{"name": "tenants", "port": port}]
    await rig.api.apply(
        SERVICES, {"apiVersion": "v1", "kind": "Service", **named, "spec": {"ports": ports}}
    )
    # The API server connects only to an address that it knows as that of a pod.
    await rig.pod("muster", schedulerName="none")
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    path = PODS.object_path("muster", rig.namespace, "status")
    (await rig.api.patch(path, status, MERGE)).expect(200)
    pod = {"kind": "Pod", "name": "muster", "namespace": rig.namespace}
    subsets = [{"addresses": [{"ip": address, "targetRef": pod}], "ports": ports}]
    await rig.api.apply(
        ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", **named, "subsets": subsets}
    )


def kubeconfig(rig: Rig, token: str, path: Path) -> Path:
    """The admin's kubeconfig with another user."""
    document = yaml.safe_load(rig.cluster.admin.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    path.write_text(json.dumps(document))
    return path


async def run(*words: str, **environment: str) -> tuple[int, str]:
    """Run a command; its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_who_may_get_the_pod_is_answered_by_kubectl_and_who_may_not_is_refused(
    rig: Rig, tmp_path: Path
) -> None:
    address = own_address()
    (port,) = free_ports(1)
    certificate = trustme.CA().issue_cert(address)
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    await rig.add_nodes(1)
    daemon = await rig.started(
        tenants_listen=f"{address}:{port}",
        tenants_certificate_file=str(tmp_path / "tls.crt"),
        tenants_key_file=str(tmp_path / "tls.key"),
    )
    await rig.pod("runs")
    await rig.until_running(1)
    await serve(rig, address, port)
    await rig.pod("wide", cards=9)
    await daemon.until_told("pod group unschedulable")
    proxy = {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": [PROXY],
        "verbs": ["get"],
    }
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    allowed = kubeconfig(rig, await account(rig, "allowed", [proxy, pods]), tmp_path / "allowed")
    refused = kubeconfig(rig, await account(rig, "refused", [proxy]), tmp_path / "refused")
    plugin = tmp_path / "kubectl-muster"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m daemon "$@"\n')
    plugin.chmod(0o755)
    kubectl = shutil.which("kubectl")
    command = [kubectl, "muster"] if kubectl else [str(plugin)]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    service = f"{rig.namespace}/{PROXY}"

    async def why(user: Path, name: str) -> tuple[int, str]:
        words = ["why", f"{rig.namespace}/{name}", "--service", service]
        return await run(*command, *words, KUBECONFIG=str(user), PATH=path, MUSTER_LOG="")

    code, text = await why(allowed, "wide")
    assert code == 0, text
    assert f"Pod/{rig.namespace}/wide" in text.splitlines()[0]
    assert "NO  nodes: not passed" in text
    code, text = await why(allowed, "runs")
    assert (code, "running on" in text) == (0, True), text
    for name in ("wide", "absent"):
        code, text = await why(refused, name)
        assert code == 3, text
        assert f"answered 403: user 'system:serviceaccount:{rig.namespace}:refused' may not" in text


async def test_a_right_is_that_of_the_role_to_the_letter(rig: Rig) -> None:
    """What the API server itself says, with the questions that the daemon puts to it."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}]
    token = await account(rig, "one", rules)
    client = await Client.connect(Access(kubeconfig=rig.cluster.muster), lambda: 0.5, "tests")
    try:
        reviews = Reviews(client)
        user = await reviews.user_of(token)
        assert user is not None
        assert user.username == f"system:serviceaccount:{rig.namespace}:one"
        assert f"system:serviceaccounts:{rig.namespace}" in user.groups
        assert await reviews.user_of(token[:-4] + "AAAA") is None
        assert await reviews.may_get(user, "Pod", rig.namespace, "a")
        assert not await reviews.may_get(user, "Pod", rig.namespace, "b")
        assert not await reviews.may_get(user, "PodGroup", rig.namespace, "a")
        assert not await reviews.may_get(user, "Pod", "default", "a")
    finally:
        await client.close()
