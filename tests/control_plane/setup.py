"""What a cluster needs before muster can work in it: its definitions, its roles, a token of its own."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from daemon.cluster.client.rbac import NAME, cluster_rules, namespace_rules, own_rules
from projections.api_resource import Resource
from tests.checkout import ROOT
from tests.control_plane.api import Api, Object

NAMESPACE: Final = "muster-system"
TOKEN_SECONDS: Final = 86_400
ESTABLISHED_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1

RBAC: Final = "rbac.authorization.k8s.io"
DEFINITIONS: Final = Resource(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
    is_namespaced=False,
)
NAMESPACES: Final = Resource("Namespace", "namespaces", is_namespaced=False)
ACCOUNTS: Final = Resource("ServiceAccount", "serviceaccounts")
CLUSTER_ROLES: Final = Resource("ClusterRole", "clusterroles", RBAC, is_namespaced=False)
CLUSTER_BINDINGS: Final = Resource(
    "ClusterRoleBinding", "clusterrolebindings", RBAC, is_namespaced=False
)
ROLES: Final = Resource("Role", "roles", RBAC)
BINDINGS: Final = Resource("RoleBinding", "rolebindings", RBAC)


async def define(api: Api) -> None:
    """Make the cluster know queues, pod groups, hyper nodes and Volcano's jobs."""
    manifests = [one for path in _definitions() for one in yaml.safe_load_all(path.read_text())]
    await define_resources(
        api, [one for one in manifests if one and one["kind"] == "CustomResourceDefinition"]
    )


async def define_resources(api: Api, definitions: Iterable[Object]) -> None:
    """Apply CustomResourceDefinitions and wait until their objects are served."""
    names = [(await api.apply(DEFINITIONS, one))["metadata"]["name"] for one in definitions]
    async with asyncio.timeout(ESTABLISHED_SECONDS):
        for name in names:
            await _until_served(api, name)


async def admit(api: Api) -> str:
    """Make muster's account and roles out of the table of calls; its token, which lives a day."""
    await api.apply(NAMESPACES, _manifest(NAMESPACES, NAMESPACE))
    await api.apply(ACCOUNTS, _manifest(ACCOUNTS))
    rules = [rule.document() for rule in cluster_rules()]
    await api.apply(CLUSTER_ROLES, {**_manifest(CLUSTER_ROLES), "rules": rules})
    rules = [rule.document() for rule in own_rules()]
    await api.apply(ROLES, {**_manifest(ROLES), "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]
    for namespace, elsewhere in namespace_rules().items():
        await api.apply(NAMESPACES, _manifest(NAMESPACES, namespace))
        there = {"metadata": {"name": NAME, "namespace": namespace}}
        granted = [rule.document() for rule in elsewhere]
        await api.apply(ROLES, {**_manifest(ROLES), **there, "rules": granted})
        reference = {"apiGroup": RBAC, "kind": "Role", "name": NAME}
        bound = {**_manifest(BINDINGS), **there, "roleRef": reference, "subjects": subjects}
        await api.apply(BINDINGS, bound)
    for bindings, role in ((CLUSTER_BINDINGS, "ClusterRole"), (BINDINGS, "Role")):
        reference = {"apiGroup": RBAC, "kind": role, "name": NAME}
        manifest = {**_manifest(bindings), "roleRef": reference, "subjects": subjects}
        await api.apply(bindings, manifest)
    path = ACCOUNTS.object_path(NAME, NAMESPACE, "token")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    return str((await api.post(path, request)).expect(201)["status"]["token"])


def _definitions() -> list[Path]:
    shipped = sorted((ROOT / "deploy/kustomize/crds").glob("*.yaml"))
    overrides = ROOT / "deploy/kustomize/queue-operators/groupoverrides.yaml"
    return [*shipped, overrides, Path(__file__).parent / "volcano_job.yaml"]


def _manifest(resource: Resource, name: str = NAME) -> Object:
    namespace = {"namespace": NAMESPACE} if resource.is_namespaced else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **namespace},
    }


async def _until_served(api: Api, name: str) -> None:
    """A definition is established some time before its objects are served."""
    while True:
        found = (await api.get(DEFINITIONS.object_path(name))).expect(200)
        conditions = (found.get("status") or {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            spec = found["spec"]
            version = next(one["name"] for one in spec["versions"] if one["served"])
            path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            if (await api.get(path)).status == 200:
                return
        await asyncio.sleep(POLL_SECONDS)
