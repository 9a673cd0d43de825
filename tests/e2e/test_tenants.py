"""Two service accounts ask a running daemon `why`: one may get the pod, one may not."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.tenant_client import ask_daemon
from events.errors import ClusterError, UsageError
from projections.api_resource import Resource
from projections.kinds.pod import PODS
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster
from tests.control_plane.manifests import pod
from tests.control_plane.setup import ACCOUNTS, BINDINGS, NAMESPACES, RBAC, ROLES
from tests.e2e.daemon import Daemon

NAMESPACE = "team-a"
ANSWERED_SECONDS = 30.0
POLL_SECONDS = 0.5


async def test_the_account_with_the_right_is_answered_and_the_other_one_refused(
    fresh: Cluster, tmp_path: Path
) -> None:
    async with Api.of(fresh.admin) as api:
        await api.apply(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        manifest = pod(NAMESPACE, "p1")
        manifest["spec"]["schedulerName"] = "muster"
        allowed = await _account(api, fresh.admin, tmp_path, "allowed")
        refused = await _account(api, fresh.admin, tmp_path, "refused")
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        await api.apply(ROLES, {**_named(ROLES, "reader"), "rules": rules})
        bound = {
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "allowed", "namespace": NAMESPACE}],
        }
        await api.apply(BINDINGS, {**_named(BINDINGS, "reader"), **bound})
        await api.create(PODS, manifest)
        log = str(tmp_path / "muster.db")
        daemon = Daemon(tmp_path, fresh.muster, log, answers_tenants=True)
        await daemon.start()
        try:
            await daemon.until_ready()
            url = f"http://127.0.0.1:{daemon.port}"
            answer = await _until_answered(allowed, url)
            assert answer["subject"] == f"Pod/{NAMESPACE}/p1"
            with pytest.raises(ClusterError, match="403: user system:serviceaccount:team-a:ref"):
                await ask_daemon(f"Pod/{NAMESPACE}/p1", Access(kubeconfig=refused), url)
            with pytest.raises(ClusterError, match="403"):
                await ask_daemon("Pod/other/p1", Access(kubeconfig=allowed), url)
        finally:
            await daemon.stop()


async def _until_answered(kubeconfig: Path, url: str) -> dict[str, object]:
    """The daemon grants it as soon as the API server knows the new role, and the log the new pod."""
    async with asyncio.timeout(ANSWERED_SECONDS):
        while True:
            try:
                body = await ask_daemon(f"Pod/{NAMESPACE}/p1", Access(kubeconfig=kubeconfig), url)
            except (ClusterError, UsageError):
                await asyncio.sleep(POLL_SECONDS)
            else:
                found: dict[str, object] = json.loads(body)
                return found


async def _account(api: Api, admin: Path, folder: Path, name: str) -> Path:
    """A kubeconfig with the token of a new service account."""
    await api.apply(ACCOUNTS, _named(ACCOUNTS, name))
    path = ACCOUNTS.object_path(name, NAMESPACE, "token")
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.post(path, asked)).expect(201)["status"]["token"]
    return _kubeconfig(admin, folder / f"{name}.yaml", name, token)


def _kubeconfig(admin: Path, path: Path, name: str, token: str) -> Path:
    config = yaml.safe_load(admin.read_text(encoding="utf-8"))
    for context in config["contexts"]:
        context["context"]["user"] = name
    config["users"] = [{"name": name, "user": {"token": token}}]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _named(resource: Resource, name: str) -> dict[str, object]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
