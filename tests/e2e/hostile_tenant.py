"""A tenant: a service account with the rights of an administrator in namespaces of its own, and in no other."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.workload import DEPLOYMENT, JOB
from tests.control_plane.api import GONE, MERGE, STRATEGIC, Answer, Api, Object
from tests.control_plane.manifests import pod_spec
from tests.control_plane.setup import ACCOUNTS, BINDINGS, CLUSTER_ROLES, NAMESPACES, RBAC
from tests.e2e.rig import POOL, Rig

ADMIN: Final = "admin"
"""The ClusterRole of Kubernetes for the administrator of a namespace."""
WORKLOADS: Final = "muster-test-workloads"
"""The ClusterRole with which an operator lets tenants use Volcano's kinds."""
RIGHTS: Final = {
    "scheduling.volcano.sh": ["podgroups"],
    "batch.volcano.sh": ["jobs"],
}
STATUS: Final = "muster-test-status"
"""The ClusterRole that lets a tenant write the status of its pods, as a careless operator may grant it."""
TENANT: Final = "muster.test/tenant"
"""The label that names the tenant of a namespace."""
CONCURRENCY: Final = 16
ALLOWED_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.1


class Tenant:
    """What a tenant has in hand: a token, its namespaces, and the names of scheduler and nodes."""

    def __init__(self, rig: Rig, api: Api, name: str, namespaces: list[str]) -> None:
        self.rig = rig
        self.api = api
        self.name = name
        self.namespaces = namespaces
        self.denied: list[str] = []
        """What the API server answered where it forbade a request."""

    @property
    def home(self) -> str:
        """The first of its namespaces."""
        return self.namespaces[0]

    async def create(self, resource: Resource, manifest: Object) -> Answer:
        """Create an object in a namespace of its own; it may be forbidden."""
        path = resource.collection_path(manifest["metadata"]["namespace"])
        return self._answered(await self.api.post(path, manifest))

    async def patch(
        self, path: str, body: Object, kind: str = MERGE, *, strategic: bool = False
    ) -> Answer:
        """Patch an object; it may be forbidden."""
        return self._answered(await self.api.patch(path, body, STRATEGIC if strategic else kind))

    def manifest(
        self,
        resource: Resource,
        name: str,
        spec: Object,
        *,
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Object:
        """An object of its first namespace, or of another one."""
        metadata = {
            "name": name,
            "namespace": namespace or self.home,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        }
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": spec,
        }

    def spec(self, requests: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """The spec of a pod that asks for muster and for the test's nodes, and ends at once when it is deleted."""
        ours: Object = {
            "schedulerName": self.rig.scheduler,
            "nodeSelector": {POOL: self.rig.namespace},
            "terminationGracePeriodSeconds": 0,
        }
        made = pod_spec(**(ours | spec))
        if requests is not None:
            cards = {key: amount for key, amount in requests.items() if "/" in key}
            resources = {"requests": dict(requests)} | ({"limits": cards} if cards else {})
            made["containers"][0]["resources"] = resources
        return made

    async def pod(
        self,
        name: str,
        requests: Mapping[str, str] | None = None,
        *,
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Answer:
        """Create a pod."""
        made = self.manifest(
            PODS,
            name,
            self.spec(requests, **spec),
            namespace=namespace,
            annotations=annotations,
            labels=labels,
        )
        return await self.create(PODS, made)

    async def deployment(
        self,
        name: str,
        replicas: int,
        requests: Mapping[str, str] | None = None,
        *,
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Answer:
        """Create a Deployment, whose controller replaces each pod that fails. `annotations` are those of its pods."""
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": dict(annotations or {})},
            "spec": self.spec(requests, **spec),
        }
        wanted = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        }
        made = self.manifest(DEPLOYMENT.resource, name, wanted, namespace=namespace)
        return await self.create(DEPLOYMENT.resource, made)

    async def group(
        self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> Answer:
        """Create a PodGroup."""
        made = self.manifest(POD_GROUPS, name, {"minMember": 1, **spec}, annotations=annotations)
        return await self.create(POD_GROUPS, made)

    async def clear(self) -> None:
        """Ask for the deletion of all that it made, without grace; the rest goes with its namespaces."""
        for namespace in self.namespaces:
            for resource in (DEPLOYMENT.resource, JOB.resource, POD_GROUPS, PODS):
                path = resource.collection_path(namespace)
                with suppress(
                    *GONE
                ):  # The answer for large pods may take longer than the client waits.
                    await self.api.delete(path, {"gracePeriodSeconds": 0})

    def _answered(self, answer: Answer) -> Answer:
        if answer.status == 403:
            self.denied.append(answer.object.get("message", ""))
        return answer


@asynccontextmanager
async def tenant_of(rig: Rig, name: str, count: int = 1) -> AsyncIterator[Tenant]:
    """A tenant with so many namespaces, which carry its name as the label `TENANT`."""
    namespaces = [f"{rig.namespace}-{name}-{index}" for index in range(count)]
    for namespace in namespaces:
        metadata = {"name": namespace, "labels": {TENANT: name}}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await rig.api.create(NAMESPACES, made)
    account = {"name": name, "namespace": namespaces[0]}
    await rig.api.create(
        ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    )
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["*"]}
        for group, resources in RIGHTS.items()
    ]
    await _role(rig, WORKLOADS, rules)
    await _role(rig, STATUS, [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["*"]}])
    for role in (ADMIN, WORKLOADS):
        await grant(rig, role, name, namespaces)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = ACCOUNTS.object_path(name, namespaces[0], "token")
    token = (await rig.api.post(path, request)).expect(201)["status"]["token"]
    async with Api.of(rig.cluster.admin, token) as api:
        tenant = Tenant(rig, api, name, namespaces)
        await _until_allowed(tenant)
        try:
            yield tenant
        finally:
            for namespace in namespaces:
                await rig.api.delete(NAMESPACES.object_path(namespace))


async def grant(rig: Rig, role: str, tenant: str, namespaces: Iterable[str]) -> None:
    """Give a tenant the rights of a ClusterRole in its namespaces."""
    namespaces = list(namespaces)
    for namespace in namespaces:
        binding = {
            "apiVersion": BINDINGS.api_version,
            "kind": BINDINGS.kind,
            "metadata": {"name": f"{tenant}-{role}", "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": tenant, "namespace": namespaces[0]}],
        }
        await rig.api.create(BINDINGS, binding)


async def _role(rig: Rig, name: str, rules: list[Object]) -> None:
    made = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": CLUSTER_ROLES.kind,
        "metadata": {"name": name},
        "rules": rules,
    }
    await rig.api.apply(CLUSTER_ROLES, made)


async def _until_allowed(tenant: Tenant) -> None:
    """The rules of the role `admin` are put together by a controller, some time after the start."""
    async with asyncio.timeout(ALLOWED_SECONDS):
        for namespace in tenant.namespaces:
            for resource in (PODS, DEPLOYMENT.resource, POD_GROUPS):
                path = resource.collection_path(namespace)
                while (await tenant.api.get(path)).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
