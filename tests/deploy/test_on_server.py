"""The manifests on a real API server: it takes them to the letter, and they do what they are for."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from daemon.cluster.client.calls import CALLS, LEASES
from daemon.cluster.client.rbac import cluster_rules, own_rules
from projections.api_resource import Resource
from projections.kinds.hyper_node import HYPER_NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import APPLY, Answer, Api
from tests.control_plane.cluster import Cluster
from tests.control_plane.setup import NAMESPACE
from tests.deploy.kustomizing import WHOLE, Manifest, composed, one, shipped

pytestmark = pytest.mark.apiserver

RBAC: Final = "rbac.authorization.k8s.io"
FLOW: Final = "flowcontrol.apiserver.k8s.io"
DEFINED: Final = "apiextensions.k8s.io"
RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        Resource("Namespace", "namespaces", is_namespaced=False),
        Resource("ServiceAccount", "serviceaccounts"),
        Resource("ConfigMap", "configmaps"),
        Resource("Service", "services"),
        Resource("PersistentVolumeClaim", "persistentvolumeclaims"),
        Resource("Deployment", "deployments", "apps"),
        Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy"),
        Resource("ClusterRole", "clusterroles", RBAC, is_namespaced=False),
        Resource("ClusterRoleBinding", "clusterrolebindings", RBAC, is_namespaced=False),
        Resource("Role", "roles", RBAC),
        Resource("RoleBinding", "rolebindings", RBAC),
        Resource("NetworkPolicy", "networkpolicies", "networking.k8s.io"),
        Resource("FlowSchema", "flowschemas", FLOW, is_namespaced=False),
        Resource(
            "PriorityLevelConfiguration", "prioritylevelconfigurations", FLOW, is_namespaced=False
        ),
        Resource(
            "CustomResourceDefinition", "customresourcedefinitions", DEFINED, is_namespaced=False
        ),
    )
}
OPERATOR: Final = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which is not there."""
STRICT: Final = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
PICKED_UP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.2
UNKNOWN: Final = {"ours": {"kept": [1, 2]}}

numbers = itertools.count(1)


def manifests() -> Iterator[tuple[str, Manifest]]:
    """Every object that is shipped, and the folder it is from."""
    for folder in WHOLE:
        yield from ((folder, manifest) for manifest in shipped(folder))


async def applied(api: Api, manifest: Manifest, **query: str) -> Answer:
    """What the server says to an object, with no patience for fields it does not know."""
    resource = RESOURCES[manifest["kind"]]
    metadata = manifest["metadata"]
    assert resource.api_version == manifest["apiVersion"]
    assert resource.is_namespaced == ("namespace" in metadata), metadata
    path = resource.object_path(metadata["name"], metadata.get("namespace", ""))
    return await api.patch(path, manifest, APPLY, **STRICT, **query)


async def test_every_object_applies_with_strict_validation(admin: Api) -> None:
    for folder, manifest in manifests():
        answer = await applied(admin, manifest, dryRun="All")
        assert answer.status in (200, 201), (folder, manifest["kind"], answer.body)
        assert "Warning" not in answer.headers, (folder, manifest["kind"], answer.headers)


async def test_the_components_apply_with_strict_validation(admin: Api, tmp_path: Path) -> None:
    kinds = set()
    for manifest in composed(tmp_path, "overlays/postgres"):
        kinds.add(manifest["kind"])
        if manifest["kind"] not in OPERATOR:
            (await applied(admin, manifest, dryRun="All")).expect(200, 201)
    assert kinds >= OPERATOR


@pytest.mark.parametrize("overlay", ["base", "overlays/postgres"])
async def test_the_pods_keep_the_restricted_standard(admin: Api, overlay: str) -> None:
    """The namespace that is shipped enforces it, so a pod that did not would never be made."""
    name = f"restricted-{next(numbers)}"
    labels = one(shipped(overlay), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    namespace = {"metadata": {"name": name, "labels": labels}}
    await admin.create(RESOURCES["Namespace"], namespace)
    template = one(shipped(overlay), "Deployment")["spec"]["template"]
    pod = {**template, "metadata": {**template["metadata"], "name": "muster", "namespace": name}}
    path = PODS.collection_path(name)
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = await admin.post(path, pod, **query)
    answer.expect(201)
    assert "Warning" not in answer.headers
    del pod["spec"]["securityContext"]
    assert (await admin.post(path, pod, **query)).status == 403
    (await admin.delete(RESOURCES["Namespace"].object_path(name))).expect(200)


async def test_the_roles_that_are_shipped_are_those_that_suffice(cluster: Cluster) -> None:
    """Rule K15.3: what muster may do is what its table says, and what everyone may."""
    if cluster.plane is None:
        pytest.skip("what everyone may do on another cluster is not known")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    async with Api.of(cluster.muster) as muster:
        status = (await muster.post(path, review)).expect(201)["status"]
    assert not status["incomplete"]
    found = {
        (group, resource, verb, tuple(rule.get("resourceNames") or ()))
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    ours = {
        (rule.group, resource, verb, rule.names)
        for rule in (*cluster_rules(), *own_rules())
        for resource in rule.resources
        for verb in rule.verbs
    }
    groups = {group for group, *_ in found - ours}
    assert ours <= found
    assert groups <= {"authorization.k8s.io", "authentication.k8s.io"}


async def test_leases_and_bindings_have_a_level_of_their_own(admin: Api, cluster: Cluster) -> None:
    """Rule K12.3: the server says in each answer which schema a request fell under."""
    uids = {}
    for manifest in shipped("flow-control"):
        made = (await applied(admin, manifest)).expect(200, 201)
        uids[manifest["metadata"]["name"]] = made["metadata"]["uid"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "nobody"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }
    async with Api.of(cluster.muster) as muster:
        async with asyncio.timeout(PICKED_UP_SECONDS):
            while True:
                lease = await muster.get(LEASES.object_path("muster", NAMESPACE))
                path = PODS.object_path("nobody", "default", "binding")
                bound = await muster.post(path, binding)
                seen = [
                    answer.headers["X-Kubernetes-Pf-Flowschema-Uid"] for answer in (lease, bound)
                ]
                if seen == [uids["muster-lease"], uids["muster-effects"]]:
                    break
                await asyncio.sleep(POLL_SECONDS)
        assert lease.status in (200, 404)
        assert bound.status == 404
    for manifest in shipped("flow-control"):
        resource = RESOURCES[manifest["kind"]]
        await admin.delete(resource.object_path(manifest["metadata"]["name"]))


async def test_a_queue_keeps_what_the_definition_does_not_know(admin: Api) -> None:
    queue = queue_of({"weight": 3, "capability": {"cpu": "4", "nvidia.com/gpu": 8}, **UNKNOWN})
    answer = await admin.post(QUEUES.path, queue, fieldValidation="Strict")
    spec = answer.expect(201)["spec"]
    assert (spec["ours"], spec["weight"]) == (UNKNOWN["ours"], 3)


async def test_a_queue_has_the_weight_1_unless_it_says_another(admin: Api) -> None:
    made = (await admin.post(QUEUES.path, queue_of({}))).expect(201)
    assert made["spec"] == {"weight": 1}


@pytest.mark.parametrize(
    "spec",
    [{"weight": 0}, {"weight": 65_536}, {"capability": {"cpu": "much"}}, {"priority": -1}],
    ids=str,
)
async def test_a_queue_that_cannot_be_meant_is_refused(admin: Api, spec: Manifest) -> None:
    answer = await admin.post(QUEUES.path, queue_of(spec))
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_a_queue_has_a_status_of_its_own(admin: Api, cluster: Cluster) -> None:
    """K13.2: a request to `/status` leaves the spec as it is, and the other way round."""
    queue = queue_of({})
    name = queue["metadata"]["name"]
    (await admin.post(QUEUES.path, queue)).expect(201)
    patch = {"spec": {"weight": 9}, "status": {"allocated": {"cpu": "0", "memory": "0"}}}
    async with Api.of(cluster.muster) as muster:
        made = (await muster.patch(QUEUES.object_path(name, subresource="status"), patch)).expect(
            200
        )
        assert (await muster.patch(QUEUES.object_path(name), patch)).status == 403
    assert (made["spec"], made["status"]) == ({"weight": 1}, patch["status"])


async def test_a_pod_group_s_status_is_a_part_of_it(admin: Api, cluster: Cluster) -> None:
    """As in Volcano: written with the object, without a status subresource."""
    name = f"group-{next(numbers)}"
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 2, "minResources": {"cpu": 2}, **UNKNOWN},
    }
    await admin.create(POD_GROUPS, group)
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "transitionID": "7",
        "reason": "NotEnoughResources",
    }
    patch = {"status": {"phase": "Inqueue", "conditions": [condition]}}
    path = POD_GROUPS.object_path(name, "default")
    async with Api.of(cluster.muster) as muster:
        made = (await muster.patch(path, patch)).expect(200)
        below = POD_GROUPS.object_path(name, "default", "status")
        assert (await muster.patch(below, patch)).status == 404
        invented = await muster.patch(path, {"status": {"phase": "Invented"}})
    assert (made["status"], made["spec"]["ours"]) == (patch["status"], UNKNOWN["ours"])
    assert invented.status == 422


async def test_a_hypernode_names_its_members(admin: Api) -> None:
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[23]$"}}},
        {"type": "HyperNode", "selector": {"exactMatch": {"name": "leaf"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}},
    ]
    node = {
        "apiVersion": HYPER_NODES.api_version,
        "kind": "HyperNode",
        "metadata": {"name": f"spine-{next(numbers)}"},
        "spec": {"tier": 2, "tierName": "spine", "members": members},
    }
    made = (await admin.post(HYPER_NODES.path, node, fieldValidation="Strict")).expect(201)
    assert made["spec"] == node["spec"]
    node["metadata"] = {"name": "wrong"}
    node["spec"] = {"members": [{"type": "Rack", "selector": {}}]}
    assert (await admin.post(HYPER_NODES.path, node)).status == 422


def queue_of(spec: Manifest) -> Manifest:
    """A queue with a name of its own."""
    return {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": f"deployed-{next(numbers)}"},
        "spec": spec,
    }


def test_every_kind_that_muster_reads_of_volcano_s_but_jobs_has_a_definition() -> None:
    """Jobs need Volcano's own controller to become pods, and it brings their definition."""
    defined = {manifest["spec"]["names"]["kind"] for manifest in shipped("crds")}
    read = {call.resource.kind for call in CALLS if call.resource.group.endswith("volcano.sh")}
    assert read - defined == {"Job"}
