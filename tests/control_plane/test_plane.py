"""The control plane of the tests, and that muster's account can do there what it must."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from daemon.cluster.client.calls import CALLS, LEASES
from daemon.cluster.client.rbac import target
from projections.kinds.node import NODES
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster, own_plane
from tests.control_plane.setup import NAMESPACE

pytestmark = pytest.mark.apiserver


async def test_muster_may_do_every_call_of_its_table_and_no_more(cluster: Cluster) -> None:
    """Rule K15.3: least privilege; a self-subject access review at start names what is missing."""
    async with Api.of(cluster.muster) as muster:
        for call in CALLS:
            namespace = NAMESPACE if call.scope == "own" else call.namespace
            asked = (call.verb, call.resource.group, target(call), namespace)
            assert await may(muster, *asked, name=call.only), call
            assert not call.only or not await may(muster, *asked), "of this object alone"
        assert not await may(muster, "get", "", "secrets")
        assert not await may(muster, "update", LEASES.group, "leases", "default")
        assert not await may(muster, "patch", "", "nodes")
        answer = await muster.delete(NODES.object_path("anything"))
    assert (answer.status, answer.reason) == (403, "Forbidden")


async def test_a_wrong_token_is_unauthorized(cluster: Cluster) -> None:
    """Rule K3.9"""
    async with Api.of(cluster.admin, "wrong") as nobody:
        answer = await nobody.get(NODES.path)
    assert (answer.status, answer.reason) == (401, "Unauthorized")


async def test_a_killed_server_comes_back_where_it_was_and_with_all_it_had(
    own_cluster: Cluster,
) -> None:
    """On loopback, on the same port, with the same keys."""
    assert own_cluster.plane is not None
    async with Api.of(own_cluster.admin) as api:
        before = (await api.get("/api/v1/namespaces/default")).expect(200)
        own_cluster.plane.kill_server()
        with pytest.raises(OSError, match="Cannot connect"):
            await api.get("/api/v1/namespaces/default")
        await asyncio.to_thread(own_cluster.plane.start_server)
        assert (await api.get("/api/v1/namespaces/default")).expect(200) == before


def test_nothing_is_left_behind() -> None:
    with own_plane() as cluster:
        assert cluster.plane is not None
        folder = cluster.admin.parent
        assert processes(folder)
    assert processes(folder) == []
    assert not folder.exists()


async def may(
    api: Api, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
) -> bool:
    """Whether the server would let this one do something."""
    plural, _, below = resource.partition("/")
    lease = "muster" if plural == "leases" and verb != "create" else ""
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": below,
        "namespace": namespace,
        "name": name or lease,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool((await api.post(path, review)).expect(201)["status"]["allowed"])


def processes(folder: Path) -> list[str]:
    """Processes that were told of a folder."""
    told = subprocess.run(
        ["ps", "-ww", "-eo", "args"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    )
    return [line for line in told.stdout.splitlines() if str(folder) in line]
