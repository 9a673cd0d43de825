"""The admission policies on a cluster, and tenants that try them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import yaml

from events.privileges import RIGHTS_GROUP
from projections.api_resource import Resource
from tests.checkout import ROOT
from tests.control_plane.api import APPLY, GONE, Answer, Api, Object
from tests.control_plane.cluster import Cluster
from tests.control_plane.setup import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    RBAC,
    ROLES,
)

FOLDER: Final = ROOT / "deploy/kustomize/components/admission"
GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = Resource(
    "ValidatingAdmissionPolicy", "validatingadmissionpolicies", GROUP, is_namespaced=False
)
POLICY_BINDINGS: Final = Resource(
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    GROUP,
    is_namespaced=False,
)
OF_KIND: Final = {
    one.kind: one for one in (POLICIES, POLICY_BINDINGS, CLUSTER_ROLES, CLUSTER_BINDINGS)
}
STRICT: Final = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
GROUPS: Final = (
    *("", "apps", "batch", "policy", "scheduling.volcano.sh", "batch.volcano.sh"),
    *("kubeflow.org", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "flow.volcano.sh"),
)
TENANT: Final = "tenant"
IN_FORCE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1


def shipped(name: str) -> list[Object]:
    """The objects of a file of the component."""
    return [*yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))]


async def install(api: Api) -> None:
    """Apply roles and policies, and wait until they are in force."""
    for manifest in (*shipped("roles"), *shipped("policies")):
        resource = OF_KIND[manifest["kind"]]
        path = resource.object_path(manifest["metadata"]["name"])
        answer = await api.patch(path, manifest, APPLY, **STRICT)
        answer.expect(200, 201)
        assert "Warning" not in answer.headers, answer.headers


async def remove(api: Api) -> None:
    """Delete the policies and their bindings; the roles stay."""
    for manifest in shipped("policies"):
        path = OF_KIND[manifest["kind"]].object_path(manifest["metadata"]["name"])
        (await api.delete(path)).expect(200)


@asynccontextmanager
async def tenant(cluster: Cluster, api: Api, namespace: str) -> AsyncIterator[Api]:
    """A user with all rights to workloads and pod groups in one namespace, and no other right."""
    rules = [{"apiGroups": [*GROUPS], "resources": ["*"], "verbs": ["*"]}]
    named = {"metadata": {"name": TENANT, "namespace": namespace}}
    await api.apply(NAMESPACES, {**_kind(NAMESPACES), "metadata": {"name": namespace}})
    await api.apply(ROLES, {**_kind(ROLES), **named, "rules": rules})
    await _bind(api, namespace, TENANT, "Role", user_of(namespace))
    async with Api.of(cluster.admin, impersonated=user_of(namespace)["name"]) as own:
        yield own


def user_of(namespace: str) -> dict[str, str]:
    """The subject that is the tenant of a namespace."""
    return {"apiGroup": RBAC, "kind": "User", "name": f"{TENANT}-of-{namespace}"}


def account_of(namespace: str, name: str = "default") -> dict[str, str]:
    """The subject that is a service account."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


async def grant(
    api: Api, namespace: str, verb: str, resource: str, name: str, *subjects: dict[str, str]
) -> None:
    """Give a right in one namespace, to its tenant if no subjects are named."""
    rule = {
        "apiGroups": [RIGHTS_GROUP],
        "resources": [resource],
        "resourceNames": [name],
        "verbs": [verb],
    }
    role = f"{verb}-{resource}-{name.replace('/', '-').lower()}"
    named = {"metadata": {"name": role, "namespace": namespace}}
    await api.apply(ROLES, {**_kind(ROLES), **named, "rules": [rule]})
    await _bind(api, namespace, role, "Role", *(subjects or (user_of(namespace),)))


async def bind(api: Api, namespace: str, role: str, *subjects: dict[str, str]) -> None:
    """Bind a ClusterRole in one namespace."""
    await _bind(api, namespace, role, "ClusterRole", *subjects)


async def until(api: Api, path: str, manifest: Object, status: int) -> Answer:
    """The answer to creating an object, tried without effect until its status is this one.

    An API server learns of policies and roles some time after they were written.
    """
    answer = await api.post(path, manifest, dryRun="All")
    end = asyncio.get_running_loop().time() + IN_FORCE_SECONDS
    while answer.status != status and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(POLL_SECONDS)
        answer = await api.post(path, manifest, dryRun="All")
    answer.expect(status)
    return answer


async def until_true(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so; a connection that is cut, as after a change of a definition, is tried again."""
    async with asyncio.timeout(IN_FORCE_SECONDS):
        while True:
            with suppress(*GONE):
                if await is_so():
                    return
            await asyncio.sleep(POLL_SECONDS)


async def _bind(api: Api, namespace: str, role: str, kind: str, *subjects: dict[str, str]) -> None:
    named = {"metadata": {"name": role, "namespace": namespace}}
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    given = {"roleRef": reference, "subjects": list(subjects)}
    await api.apply(BINDINGS, {**_kind(BINDINGS), **named, **given})


def _kind(resource: Resource) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
