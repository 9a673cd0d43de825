"""Rule K13: the four kinds of patch, and status apart from the rest."""

from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.contract.served import Served
from tests.control_plane.api import APPLY, JSON_PATCH, STRATEGIC, Object
from tests.control_plane.manifests import condition

OTHER = "11111111-2222-3333-4444-555555555555"


def conditions(pod: Object) -> dict[str, str]:
    """Type to status."""
    return {one["type"]: one["status"] for one in pod["status"]["conditions"]}


async def test_a_merge_patch_sets_keeps_and_deletes_keys(server: Served) -> None:
    """Rule K13"""
    pod = await server.pod()
    patch: Object = {"metadata": {"annotations": {"a": "1", "b": "2"}}}
    (await server.api.patch(server.path(pod), patch)).expect(200)
    patch = {"metadata": {"annotations": {"a": None, "c": "3"}}}
    patched = (await server.api.patch(server.path(pod), patch)).expect(200)
    assert patched["metadata"]["annotations"] == {"b": "2", "c": "3"}
    assert patched["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]


async def test_a_patch_that_changes_nothing_makes_no_revision(server: Served) -> None:
    pod = await server.pod(labels={"a": "b"})
    patched = await server.api.patch(server.path(pod), {"metadata": {"labels": {"a": "b"}}})
    assert patched.expect(200)["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


async def test_a_patch_of_another_uid_is_rejected(server: Served) -> None:
    """Rule K13.1: 422 or 409; the object was recreated."""
    pod = await server.pod()
    patch = {"metadata": {"uid": OTHER, "annotations": {"a": "b"}}}
    for kind in ("application/merge-patch+json", STRATEGIC):
        answer = await server.api.patch(server.path(pod), patch, kind)
        assert (answer.status, answer.reason) in ((409, "Conflict"), (422, "Invalid"))
    answer = await server.api.patch(server.path(pod, "status"), patch, STRATEGIC)
    assert (answer.status, answer.reason) in ((409, "Conflict"), (422, "Invalid"))
    assert "annotations" not in (await server.read(pod))["metadata"]


async def test_a_patch_of_the_right_uid_is_taken(server: Served) -> None:
    """Rule K13.1"""
    pod = await server.pod()
    patch = {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {"a": "b"}}}
    (await server.api.patch(server.path(pod), patch)).expect(200)


async def test_a_patch_of_a_stale_revision_is_a_conflict(server: Served) -> None:
    """Rule K13.1"""
    pod = await server.pod()
    stale = pod["metadata"]["resourceVersion"]
    (await server.api.patch(server.path(pod), {"metadata": {"labels": {"a": "b"}}})).expect(200)
    patch = {"metadata": {"resourceVersion": stale, "labels": {"a": "c"}}}
    answer = await server.api.patch(server.path(pod), patch)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_conditions_merge_by_type_in_a_strategic_patch(server: Served) -> None:
    """Rules K13 and K7.7"""
    pod = await server.pod()
    path = server.path(pod, "status")
    for one in (condition("A", "True"), condition("B", "False"), condition("A", "False", "Why")):
        body = {"status": {"conditions": [one]}}
        (await server.api.patch(path, body, STRATEGIC)).expect(200)
    patched = await server.read(pod)
    assert conditions(patched) == {"A": "False", "B": "False"}
    found = {one["type"]: one.get("reason") for one in patched["status"]["conditions"]}
    assert found == {"A": "Why", "B": None}


async def test_conditions_are_replaced_whole_in_a_merge_patch(server: Served) -> None:
    """Rule K13: lists are."""
    pod = await server.pod()
    path = server.path(pod, "status")
    for one in (condition("A", "True"), condition("B", "False")):
        (await server.api.patch(path, {"status": {"conditions": [one]}})).expect(200)
    patched = await server.read(pod)
    assert conditions(patched) == {"B": "False"}


async def test_status_and_the_rest_are_written_apart(server: Served) -> None:
    """Rule K13.2"""
    pod = await server.pod()
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    whole = (await server.api.patch(server.path(pod), patch, STRATEGIC)).expect(200)
    assert (whole["status"]["phase"], whole["metadata"]["labels"]) == ("Pending", {"a": "b"})
    patch = {"spec": {"schedulerName": "other"}, "status": {"phase": "Running"}}
    status = (await server.api.patch(server.path(pod, "status"), patch, STRATEGIC)).expect(200)
    assert (status["status"]["phase"], status["spec"]["schedulerName"]) == ("Running", "muster")


async def test_a_nominated_node_is_status(server: Served) -> None:
    """Rule K7.3"""
    pod = await server.pod()
    patch = {"status": {"nominatedNodeName": "node"}}
    path = server.path(pod, "status")
    patched = (await server.api.patch(path, patch, STRATEGIC)).expect(200)
    assert patched["status"]["nominatedNodeName"] == "node"


async def test_a_json_patch_tests_before_it_writes(server: Served) -> None:
    """Rule K13: a failed test is 422; slashes are escaped."""
    pod = await server.pod(labels={"example.com/a": "1"})
    path = "/metadata/labels/example.com~1a"
    wrong = [
        {"op": "test", "path": path, "value": "2"},
        {"op": "replace", "path": path, "value": "3"},
    ]
    answer = await server.api.patch(server.path(pod), wrong, JSON_PATCH)
    assert (answer.status, answer.reason) == (422, "Invalid")
    right = [{**wrong[0], "value": "1"}, wrong[1]]
    patched = (await server.api.patch(server.path(pod), right, JSON_PATCH)).expect(200)
    assert patched["metadata"]["labels"] == {"example.com/a": "3"}


async def test_an_unknown_kind_of_patch_is_not_supported(server: Served) -> None:
    pod = await server.pod()
    answer = await server.api.patch(server.path(pod), {}, "text/plain")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_custom_objects_take_no_strategic_patch(server: Served) -> None:
    """Rule K13: built-in types only."""
    await group(server)
    path = POD_GROUPS.object_path("group", server.namespace)
    answer = await server.api.patch(path, {"metadata": {"labels": {"a": "b"}}}, STRATEGIC)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_pod_group_phase_is_patched_without_a_status_subresource(server: Served) -> None:
    """Rule K13.1. Volcano's definition has no status subresource for it."""
    made = await group(server)
    path = POD_GROUPS.object_path("group", server.namespace)
    told = {"metadata": {"uid": made["metadata"]["uid"]}, "status": {"phase": "Inqueue"}}
    patched = (await server.api.patch(path, told)).expect(200)
    assert patched["status"]["phase"] == "Inqueue"
    assert patched["spec"] == made["spec"]
    told["metadata"]["uid"] = OTHER
    answer = await server.api.patch(path, told)
    assert (answer.status, answer.reason) in ((409, "Conflict"), (422, "Invalid"))
    there_is_none = await server.api.patch(f"{path}/status", told)
    assert (there_is_none.status, there_is_none.reason) == (404, "NotFound")


async def test_queue_allocated_is_patched_in_the_status_subresource(server: Served) -> None:
    """Rule K13.2: in the status subresource, which leaves the rest alone."""
    made = await queue(server)
    told = {
        "metadata": {"uid": made["metadata"]["uid"]},
        "spec": {"weight": 7},
        "status": {"allocated": {"cpu": "1500m"}},
    }
    path = QUEUES.object_path(made["metadata"]["name"], subresource="status")
    patched = (await server.api.patch(path, told)).expect(200)
    assert patched["status"]["allocated"] == {"cpu": "1500m"}
    assert patched["spec"]["weight"] == 1


async def test_another_uid_goes_unnoticed_in_the_status_of_a_custom_object(server: Served) -> None:
    """Not as rule K13.1 has it: a test in a JSON patch, or the revision, must do instead."""
    made = await queue(server)
    path = QUEUES.object_path(made["metadata"]["name"], subresource="status")
    told: Object = {"metadata": {"uid": OTHER}, "status": {"allocated": {"cpu": "1"}}}
    (await server.api.patch(path, told)).expect(200)
    test = {"op": "test", "path": "/metadata/uid", "value": OTHER}
    write = {"op": "replace", "path": "/status/allocated", "value": {"cpu": "2"}}
    answer = await server.api.patch(path, [test, write], JSON_PATCH)
    assert (answer.status, answer.reason) == (422, "Invalid")
    told["metadata"] = {"resourceVersion": made["metadata"]["resourceVersion"]}
    answer = await server.api.patch(path, told)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_an_applied_object_is_made_and_then_merged(server: Served) -> None:
    """Rule K13: what two managers own conflicts, unless it is forced."""
    path = POD_GROUPS.object_path("applied", server.namespace)
    manifest: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "applied", "namespace": server.namespace},
        "spec": {"minMember": 1},
    }
    made = await server.api.patch(path, manifest, APPLY, fieldManager="one")
    assert made.status == 201
    manifest["spec"]["minMember"] = 2
    answer = await server.api.patch(path, manifest, APPLY, fieldManager="two")
    assert (answer.status, answer.reason) == (409, "Conflict")
    forced = await server.api.patch(path, manifest, APPLY, fieldManager="two", force="true")
    assert forced.expect(200)["spec"]["minMember"] == 2


async def group(server: Served) -> Object:
    """A pod group of two."""
    manifest = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "group", "namespace": server.namespace},
        "spec": {"minMember": 2, "queue": "default"},
    }
    return await server.api.create(POD_GROUPS, manifest)


async def queue(server: Served) -> Object:
    """A queue."""
    manifest = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": server.unique("queue")},
        "spec": {"weight": 1},
    }
    return await server.api.create(QUEUES, manifest)
