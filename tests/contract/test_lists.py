"""Rule K2: what a list shows, in pages or at a revision."""

from projections.kinds.node import NODES
from tests.contract.served import Served
from tests.control_plane.api import Object
from tests.control_plane.manifests import pod

FAR = "999999999999999999"


def revision(found: Object) -> str:
    """Of an object or a list."""
    return str(found["metadata"]["resourceVersion"])


def names(found: Object) -> list[str]:
    """Of the objects of a list."""
    return [one["metadata"]["name"] for one in found["items"]]


async def test_items_of_a_list_have_neither_kind_nor_version(server: Served) -> None:
    """Rule K1.4"""
    made = await server.pod("a")
    listed = (await server.api.get(server.pods)).expect(200)
    assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert [("kind" in one, "apiVersion" in one) for one in listed["items"]] == [(False, False)]


async def test_items_of_a_list_of_custom_objects_have_kind_and_version(server: Served) -> None:
    """Rule K1.4, the other side: a client must cope with both."""
    path = "/apis/scheduling.volcano.sh/v1beta1/queues"
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": server.unique("queue")},
        "spec": {"weight": 1},
    }
    (await server.api.post(path, queue)).expect(201)
    listed = (await server.api.get(path)).expect(200)
    mine = next(one for one in listed["items"] if one["metadata"]["name"] == server.unique("queue"))
    assert listed["kind"] == "QueueList"
    assert (mine["kind"], mine["apiVersion"]) == ("Queue", "scheduling.volcano.sh/v1beta1")


async def test_items_come_by_namespace_and_name(server: Served) -> None:
    for name in ("b", "c", "a"):
        await server.pod(name)
    assert names((await server.api.get(server.pods)).expect(200)) == ["a", "b", "c"]


async def test_pages_have_one_revision_and_end_without_a_token(server: Served) -> None:
    """Rule K2.2"""
    for index in range(5):
        await server.pod(f"pod-{index}")
    first = (await server.api.get(server.pods, limit="2")).expect(200)
    await server.pod("pod-9")
    pages, token = [first], first["metadata"]["continue"]
    assert first["metadata"]["remainingItemCount"] == 3
    while token:
        page = await server.api.get(server.pods, **{"limit": "2", "continue": token})
        pages.append(page.expect(200))
        token = pages[-1]["metadata"].get("continue", "")
    assert [names(page) for page in pages] == [["pod-0", "pod-1"], ["pod-2", "pod-3"], ["pod-4"]]
    assert len({revision(page) for page in pages}) == 1


async def test_a_token_expires_with_its_revision_and_another_is_offered(server: Served) -> None:
    """Rule K2.3"""
    path = server.forgetful.collection_path(server.namespace)
    for index in range(3):
        await make(server, f"one-{index}")
    first = (await server.api.get(path, limit="1")).expect(200)
    await make(server, "one-9")
    server.forget()
    query = {"limit": "1", "continue": first["metadata"]["continue"]}
    answer = await server.api.get(path, **query)
    assert (answer.status, answer.reason, answer.object["code"]) == (410, "Expired", 410)
    assert answer.object["metadata"]["continue"] not in ("", query["continue"])


async def test_a_token_that_is_none_is_a_bad_request(server: Served) -> None:
    answer = await server.api.get(server.pods, **{"limit": "1", "continue": "nonsense"})
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_list_is_as_new_as_it_is_asked_to_be(server: Served) -> None:
    """Rule K2.1"""
    made = await server.pod("a")
    query = {"resourceVersion": revision(made), "resourceVersionMatch": "NotOlderThan"}
    listed = (await server.api.get(server.pods, **query)).expect(200)
    assert names(listed) == ["a"]
    assert int(revision(listed)) >= int(revision(made))


async def test_a_list_of_one_revision_shows_what_was_there_then(server: Served) -> None:
    """Rule K2.1"""
    made = await server.pod("a")
    await server.pod("b")
    query = {"resourceVersion": revision(made), "resourceVersionMatch": "Exact"}
    listed = (await server.api.get(server.pods, **query)).expect(200)
    assert (names(listed), revision(listed)) == (["a"], revision(made))


async def test_a_list_of_a_forgotten_revision_is_gone(server: Served) -> None:
    """Rule K2: 410 when compacted."""
    made = await make(server, "one")
    await make(server, "other")
    server.forget()
    path = server.forgetful.collection_path(server.namespace)
    query = {"resourceVersion": revision(made), "resourceVersionMatch": "Exact"}
    answer = await server.api.get(path, **query)
    assert (answer.status, answer.reason) == (410, "Expired")


async def test_a_list_of_the_future_says_that_it_is_too_far(server: Served) -> None:
    """Rules K2.4 and K20"""
    query = {"resourceVersion": FAR, "resourceVersionMatch": "NotOlderThan"}
    answer = await server.api.get(server.pods, **query)
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.causes == ["ResourceVersionTooLarge"]


async def test_a_match_without_a_revision_is_refused(server: Served) -> None:
    """Rule K2.1"""
    answer = await server.api.get(server.pods, resourceVersionMatch="Exact")
    assert (answer.status, answer.reason) == (422, "Invalid")
    query = {"resourceVersion": "0", "resourceVersionMatch": "Exact"}
    answer = await server.api.get(server.pods, **query)
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_a_revision_that_is_no_number_is_a_bad_request(server: Served) -> None:
    answer = await server.api.get(server.pods, resourceVersion="new")
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_labels_and_fields_select(server: Served) -> None:
    """Rule K3.4"""
    node = await server.node()
    await server.pod("a", {"app": "x", "tier": "1"})
    await server.pod("b", {"app": "y"})
    await server.pod("c", schedulerName="other")
    await server.bind(await server.pod("d"), node["metadata"]["name"])
    asked = {
        "app=x": ["a"],
        "app!=x": ["b", "c", "d"],
        "app in (x,y),!tier": ["b"],
        "app notin (x)": ["b", "c", "d"],
        "tier": ["a"],
    }
    for selector, expected in asked.items():
        found = await server.api.get(server.pods, labelSelector=selector)
        assert names(found.expect(200)) == expected, selector
    asked = {
        "metadata.name=a": ["a"],
        "spec.schedulerName!=other": ["a", "b", "d"],
        "spec.nodeName=": ["a", "b", "c"],
        f"spec.nodeName={node['metadata']['name']},status.phase=Pending": ["d"],
    }
    for selector, expected in asked.items():
        found = await server.api.get(server.pods, fieldSelector=selector)
        assert names(found.expect(200)) == expected, selector


async def test_a_field_that_cannot_be_selected_is_a_bad_request(server: Served) -> None:
    answer = await server.api.get(server.pods, fieldSelector="spec.priority=1")
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_an_object_that_is_not_there_is_not_found(server: Served) -> None:
    answer = await server.api.get(f"{server.pods}/nobody")
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.object["details"] == {"name": "nobody", "kind": "pods"}


async def test_a_kind_that_is_not_served_is_not_found_in_plain_text(server: Served) -> None:
    """Rule K3.10: the content type must be looked at before the body."""
    answer = await server.api.get("/apis/none.example/v1/things")
    assert answer.status == 404
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.body == b"404 page not found\n"


async def test_a_second_object_of_a_name_already_exists(server: Served) -> None:
    """Rule K12.1"""
    await server.pod("a")
    answer = await server.api.post(server.pods, pod(server.namespace, "a"))
    assert (answer.status, answer.reason) == (409, "AlreadyExists")


async def test_what_is_no_object_is_a_bad_request(server: Served) -> None:
    answer = await server.api.post(server.pods, b"{")
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_discovery_names_what_is_served(server: Served) -> None:
    """Rule K19"""
    version = (await server.api.get("/version")).expect(200)
    assert version["gitVersion"].startswith("v1.")
    groups = (await server.api.get("/apis")).expect(200)
    assert groups["kind"] == "APIGroupList"
    assert {"apps", "policy", "coordination.k8s.io"} <= {one["name"] for one in groups["groups"]}
    resources = (await server.api.get("/api/v1")).expect(200)["resources"]
    verbs = {one["name"]: one["verbs"] for one in resources}
    assert {"get", "list", "watch", "patch", "delete", "deletecollection"} <= set(verbs["pods"])
    assert verbs["pods/binding"] == ["create"]
    assert verbs["pods/eviction"] == ["create"]
    assert (await server.api.get(NODES.path)).expect(200)["kind"] == "NodeList"


async def make(server: Served, name: str) -> Object:
    """An object of the kind whose past can be forgotten."""
    manifest = pod(server.namespace, name)
    if server.forgetful.kind == "PodTemplate":
        manifest = {**manifest, "kind": "PodTemplate", "template": {"spec": manifest.pop("spec")}}
        manifest["template"]["metadata"] = {"labels": {"a": "b"}}
    return await server.api.create(server.forgetful, manifest)
