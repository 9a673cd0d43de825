"""The Helm chart on a real API server: installed, upgraded and uninstalled by the real helm."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from daemon.cluster.client.calls import CALLS, OWN, Call
from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.workload import DEPLOYMENT
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster
from tests.control_plane.setup import CLUSTER_ROLES, NAMESPACES
from tests.deploy.charting import CHART, OF_HELM, helm, options, rendered

pytestmark = pytest.mark.apiserver

PLACE: Final = "helm-tests"
RELEASE: Final = "second"
VALUES: Final[dict[str, Any]] = {
    f"{part}.create": True for part in ("ascend", "flowControl", "admission")
}
VOLUMES: Final = Resource("PersistentVolumeClaim", "persistentvolumeclaims")
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2


async def helming(cluster: Cluster, command: str, *arguments: str | Path) -> str:
    """What helm says of our release; it must do what it is told."""
    place = ("--kubeconfig", cluster.admin, "--namespace", PLACE)
    done = await asyncio.to_thread(helm, command, RELEASE, *arguments, *place)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def is_allowed(admin: Api, call: Call) -> bool:
    """Whether the account of the release may make a call."""
    attributes = {
        "verb": call.verb,
        "group": call.resource.group,
        "resource": call.resource.plural,
        "subresource": call.subresource,
        "namespace": PLACE if call.scope == OWN else call.namespace,
        "name": "muster" if call.scope == OWN and call.verb != "create" else call.only,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{PLACE}:{RELEASE}-muster",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    return bool((await admin.post(REVIEWS, review)).expect(201)["status"]["allowed"])


async def test_a_release_is_installed_upgraded_and_uninstalled(own_cluster: Cluster) -> None:
    """The server takes every object; the roles allow what is needed; the log outlives the release."""
    deployment = DEPLOYMENT.resource.object_path(f"{RELEASE}-muster", PLACE)
    async with Api.of(own_cluster.admin) as admin:
        # The pods keep the standard that the namespace of kustomize enforces.
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await admin.create(NAMESPACES, {"metadata": {"name": PLACE, "labels": labels}})
        said = await helming(own_cluster, "install", CHART, *options(VALUES))
        assert "schedulerName: muster" in said
        async with asyncio.timeout(SECONDS):
            while True:
                pods = (await admin.get(PODS.collection_path(PLACE))).expect(200)["items"]
                if pods:
                    break
                await asyncio.sleep(POLL_SECONDS)
        assert [call.what for call in CALLS if not await is_allowed(admin, call)] == []
        secrets = Call("get", Resource("Secret", "secrets"), scope=OWN)
        assert not await is_allowed(admin, secrets)

        before = (await admin.get(deployment)).expect(200)
        changed = options({**VALUES, "policy": {"actions": "allocate", "quotas": "none"}})
        await helming(own_cluster, "upgrade", CHART, *changed)
        after = (await admin.get(deployment)).expect(200)
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        differing = {
            key
            for key, text in after["spec"]["template"]["metadata"]["annotations"].items()
            if before["spec"]["template"]["metadata"]["annotations"][key] != text
        }
        assert differing == {"checksum/settings"} <= OF_HELM

        await helming(own_cluster, "uninstall")
        roles = CLUSTER_ROLES.object_path(f"{RELEASE}-muster")
        assert (await admin.get(roles)).status == 404
        assert (await admin.get(deployment)).status == 404
        kept = await admin.get(VOLUMES.object_path(f"{RELEASE}-muster-log", PLACE))
        assert kept.status == 200


@pytest.mark.parametrize("values", [{}, {"log.existingSecret": "muster-log"}], ids=json.dumps)
async def test_every_object_of_a_release_passes_strict_validation(
    cluster: Cluster, values: dict[str, Any]
) -> None:
    """A field that the server does not know is an error there, and silently dropped otherwise."""
    manifests = rendered({**values, "flowControl.create": True}, "strict", "default")
    async with Api.of(cluster.admin) as admin:
        for manifest in manifests:
            group, _, version = manifest["apiVersion"].rpartition("/")
            namespace = manifest["metadata"].get("namespace", "")
            plural = f"{manifest['kind'].lower()}s".replace("policys", "policies")
            resource = Resource(
                manifest["kind"], plural, group, version, is_namespaced=bool(namespace)
            )
            answer = await admin.post(
                resource.collection_path(namespace) if namespace else resource.path,
                manifest,
                dryRun="All",
                fieldValidation="Strict",
            )
            # What other tests have applied under the same name is there already.
            assert answer.status in (201, 409), (manifest["kind"], answer.body)
            assert "Warning" not in answer.headers, (manifest["kind"], answer.headers)
    assert len(manifests) > 9
