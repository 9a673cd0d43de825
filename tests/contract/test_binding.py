"""Rule K8: every reply to a binding."""

import asyncio

from tests.contract.served import Served
from tests.control_plane.api import Answer, Object
from tests.control_plane.manifests import binding


async def post(server: Served, pod: Object, body: Object, **query: str) -> Answer:
    """Ask for a binding."""
    return await server.api.post(server.path(pod, "binding"), body, **query)


async def test_a_bound_pod_has_node_annotations_and_condition_at_once(server: Served) -> None:
    """Rule K8.1: one update. The reply is a Status with 201."""
    node = await server.node()
    pod = await server.pod(labels={"app": "x"})
    patch = {"metadata": {"annotations": {"ours": "old", "theirs": "kept"}}}
    pod = (await server.api.patch(server.path(pod), patch)).expect(200)
    name = node["metadata"]["name"]
    body = binding(pod, name, annotations={"ours": "new", "device": "0,1"})
    start = pod["metadata"]["resourceVersion"]
    answer = await post(server, pod, body)
    status = answer.expect(201)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Success", 201)
    async with server.api.watch(server.pods, resourceVersion=start, timeoutSeconds="20") as watch:
        line = await watch.next()
    assert line is not None
    assert line.type == "MODIFIED"
    bound = line.object
    assert bound["spec"]["nodeName"] == name
    wanted = {"ours": "new", "theirs": "kept", "device": "0,1"}
    assert bound["metadata"]["annotations"] == wanted
    found = {one["type"]: one["status"] for one in bound["status"]["conditions"]}
    assert found["PodScheduled"] == "True"
    assert bound["status"]["phase"] == "Pending"
    assert bound == await server.read(pod)


async def test_labels_of_a_binding_are_not_merged(server: Served) -> None:
    """Rule K20: not in 1.34; newer servers do."""
    node = await server.node()
    pod = await server.pod(labels={"app": "x"})
    (await post(server, pod, binding(pod, node["metadata"]["name"], labels={"a": "b"}))).expect(201)
    labels = (await server.read(pod))["metadata"]["labels"]
    assert labels in ({"app": "x"}, {"app": "x", "a": "b"})


async def test_any_node_name_is_accepted(server: Served) -> None:
    """Rule K8, 404: whether the node exists is not checked."""
    pod = await server.pod()
    (await post(server, pod, binding(pod, "nowhere"))).expect(201)
    assert (await server.read(pod))["spec"]["nodeName"] == "nowhere"


async def test_a_pod_that_is_gone_is_not_found(server: Served) -> None:
    """Rule K8, 404"""
    pod = await server.pod()
    (await server.api.delete(server.path(pod), {"gracePeriodSeconds": 0})).expect(200)
    answer = await post(server, pod, binding(pod, "node"))
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_a_pod_that_has_a_node_is_a_conflict_even_on_the_same_node(server: Served) -> None:
    """Rules K8, 409, and K8.5"""
    pod = await server.pod()
    await server.bind(pod, "one")
    for name in ("one", "other"):
        answer = await post(server, pod, binding(pod, name))
        assert (answer.status, answer.reason) == (409, "Conflict")
    assert (await server.read(pod))["spec"]["nodeName"] == "one"


async def test_of_two_bindings_at_once_one_is_done(server: Served) -> None:
    """Rule K8, 409"""
    pod = await server.pod()
    posted = [post(server, pod, binding(pod, f"node-{index}")) for index in range(8)]
    answers = await asyncio.gather(*posted)
    assert sorted(answer.status for answer in answers) == [201, *[409] * 7]


async def test_another_uid_or_revision_is_a_conflict(server: Served) -> None:
    """Rules K8, 409, and K8.4"""
    pod = await server.pod()
    answer = await post(
        server, pod, binding(pod, "node", uid="11111111-2222-3333-4444-555555555555")
    )
    assert (answer.status, answer.reason) == (409, "Conflict")
    (await server.api.patch(server.path(pod), {"metadata": {"labels": {"a": "b"}}})).expect(200)
    stale = binding(pod, "node", resourceVersion=pod["metadata"]["resourceVersion"])
    answer = await post(server, pod, stale)
    assert (answer.status, answer.reason) == (409, "Conflict")
    fresh = await server.read(pod)
    body = binding(fresh, "node", resourceVersion=fresh["metadata"]["resourceVersion"])
    (await post(server, pod, body)).expect(201)


async def test_a_gated_pod_is_a_conflict_until_its_gates_are_gone(server: Served) -> None:
    """Rules K8, 409, and K7.1"""
    pod = await server.pod(schedulingGates=[{"name": "example.com/wait"}])
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["PodScheduled"]["reason"] == "SchedulingGated"
    assert conditions["PodScheduled"]["status"] == "False"
    answer = await post(server, pod, binding(pod, "node"))
    assert (answer.status, answer.reason) == (409, "Conflict")
    opened = await server.api.patch(server.path(pod), {"spec": {"schedulingGates": []}})
    opened.expect(200)
    (await post(server, pod, binding(pod, "node"))).expect(201)


async def test_a_pod_that_is_being_deleted_is_a_conflict(server: Served) -> None:
    """Rule K8, 409"""
    pod = await server.pod()
    patch = {"metadata": {"finalizers": ["example.com/keep"]}}
    (await server.api.patch(server.path(pod), patch)).expect(200)
    (await server.api.delete(server.path(pod))).expect(200)
    answer = await post(server, pod, binding(pod, "node"))
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_a_name_that_differs_from_the_path_is_a_bad_request(server: Served) -> None:
    """Rule K8, 400"""
    pod = await server.pod()
    answer = await post(server, pod, binding(pod, "node", name="other"))
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_target_without_a_name_is_invalid_and_names_the_field(server: Served) -> None:
    """Rule K8, 422"""
    pod = await server.pod()
    answer = await post(server, pod, binding(pod, ""))
    assert answer.status in (422, 500)
    assert "target.name" in answer.object["message"]


async def test_a_target_of_another_kind_is_refused(server: Served) -> None:
    """Rules K8, 422, and K20: 500 without a reason in 1.34."""
    pod = await server.pod()
    body = binding(pod, "node")
    body["target"]["kind"] = "Pod"
    answer = await post(server, pod, body)
    assert answer.status in (422, 500)
    assert "nodeName" not in (await server.read(pod))["spec"]


async def test_a_dry_run_binds_nothing(server: Served) -> None:
    pod = await server.pod()
    (await post(server, pod, binding(pod, "node"), dryRun="All")).expect(201)
    assert "nodeName" not in (await server.read(pod))["spec"]


async def test_a_node_name_cannot_be_changed_or_cleared(server: Served) -> None:
    """Rule K8.5"""
    pod = await server.pod()
    await server.bind(pod, "one")
    for value in ("other", None):
        answer = await server.api.patch(server.path(pod), {"spec": {"nodeName": value}})
        assert (answer.status, answer.reason) == (422, "Invalid"), value


async def test_a_pod_may_be_made_with_its_node(server: Served) -> None:
    """Rule K5.2: no scheduler saw it."""
    pod = await server.pod(nodeName="one")
    assert (await server.read(pod))["spec"]["nodeName"] == "one"
    answer = await post(server, pod, binding(pod, "one"))
    assert answer.status == 409
