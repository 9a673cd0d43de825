"""Deletion: with grace, with finalizers, with preconditions, and of many at once (rules K5.2, K9.5)."""

from projections.kinds.node import NODES
from tests.contract.served import Served
from tests.contract.test_lists import names
from tests.control_plane.manifests import pod

OTHER = "11111111-2222-3333-4444-555555555555"


async def test_a_bound_pod_leaves_in_its_grace_and_goes_when_its_kubelet_says_so(
    server: Served,
) -> None:
    """Rule K5.2"""
    node = await server.node()
    made = await server.run("pod", node["metadata"]["name"])
    marked = (await server.api.delete(server.path(made))).expect(200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    again = (await server.api.delete(server.path(made))).expect(200)
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    (await server.api.delete(server.path(made), {"gracePeriodSeconds": 0})).expect(200)
    assert (await server.api.get(server.path(made))).status == 404


async def test_a_pod_without_a_node_goes_at_once(server: Served) -> None:
    made = await server.pod()
    (await server.api.delete(server.path(made))).expect(200)
    assert (await server.api.get(server.path(made))).status == 404


async def test_a_finished_pod_goes_at_once(server: Served) -> None:
    """Rule K5.3: it holds nothing that a grace period would be for."""
    node = await server.node()
    made = await server.run("pod", node["metadata"]["name"])
    path = server.path(made, "status")
    (await server.api.patch(path, {"status": {"phase": "Succeeded"}})).expect(200)
    (await server.api.delete(server.path(made))).expect(200)
    assert (await server.api.get(server.path(made))).status == 404


async def test_a_finalizer_keeps_an_object_until_it_is_taken_away(server: Served) -> None:
    made = await server.pod()
    patch = {"metadata": {"finalizers": ["example.com/keep"]}}
    (await server.api.patch(server.path(made), patch)).expect(200)
    (await server.api.delete(server.path(made))).expect(200)
    kept = await server.read(made)
    assert kept["metadata"]["deletionTimestamp"]
    (await server.api.patch(server.path(made), {"metadata": {"finalizers": None}})).expect(200)
    assert (await server.api.get(server.path(made))).status == 404


async def test_a_deletion_of_another_uid_is_a_conflict(server: Served) -> None:
    made = await server.pod()
    answer = await server.api.delete(server.path(made), {"preconditions": {"uid": OTHER}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert await server.read(made) == made


async def test_deleting_an_object_that_does_not_exist_is_not_found(server: Served) -> None:
    answer = await server.api.delete(f"{server.pods}/nobody")
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_a_name_is_used_again_by_another_object(server: Served) -> None:
    """Rules K1.1 and K6.8"""
    first = await server.node()
    path = NODES.object_path(first["metadata"]["name"])
    (await server.api.delete(path)).expect(200)
    second = await server.node()
    assert second["metadata"]["name"] == first["metadata"]["name"]
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_collection_is_deleted_as_it_is_selected(server: Served) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await server.pod(name, {"app": app})
    answer = await server.api.delete(server.pods, labelSelector="app=x")
    assert answer.expect(200)["kind"] in ("PodList", "Status")
    assert names((await server.api.get(server.pods)).expect(200)) == ["c"]


async def test_a_dry_run_deletes_nothing(server: Served) -> None:
    made = await server.pod()
    (await server.api.delete(server.path(made), dryRun="All")).expect(200)
    assert (await server.read(made))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_nothing_is_made_in_a_namespace_that_is_not_there(server: Served) -> None:
    manifest = pod("nowhere-at-all", "pod")
    answer = await server.api.post("/api/v1/namespaces/nowhere-at-all/pods", manifest)
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_nothing_is_made_in_a_namespace_that_is_going(server: Served) -> None:
    """Rule K8, 403: the cause says why."""
    await server.pod("keeps")
    held = {"metadata": {"finalizers": ["example.com/keep"]}}
    (await server.api.patch(f"{server.pods}/keeps", held)).expect(200)
    (await server.api.delete(f"/api/v1/namespaces/{server.namespace}")).expect(200)
    namespace = (await server.api.get(f"/api/v1/namespaces/{server.namespace}")).expect(200)
    assert namespace["status"]["phase"] == "Terminating"
    answer = await server.api.post(server.pods, pod(server.namespace, "late"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.causes == ["NamespaceTerminating"]
    released = {"metadata": {"finalizers": None}}
    (await server.api.patch(f"{server.pods}/keeps", released)).expect(200, 404)
