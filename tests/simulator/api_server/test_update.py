"""Patches, replacements and deletions (rules of K9 and K13)."""

import msgspec
import pytest

from events.normalize import Json, JsonObject
from simulator.manifest_fields import list_at, section
from tests.simulator.api_server.builders import (
    APPLY,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    QUEUES,
    STRATEGIC,
    ask,
    bare,
    bound,
    done,
    found,
    names,
    pod,
    posted,
    reason,
    refused,
    revision,
    served,
    told,
    uid,
    watch,
)


def config_map(name: str, **data: Json) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_a_merge_patch_deletes_with_null_and_replaces_lists() -> None:
    """K13: `null` deletes; lists are replaced whole."""
    api = bare()
    posted(api, "a", labels={"x": "1", "y": "2"})
    patch: JsonObject = {"metadata": {"labels": {"x": None, "z": "3"}}}
    done(ask(api, "PATCH", PODS + "/a", patch, MERGE))
    assert section(found(api, PODS + "/a"), "metadata", "labels") == {"y": "2", "z": "3"}


def test_another_uid_in_a_merge_patch_is_invalid() -> None:
    """K13.1: a different UID is rejected with 422 `Invalid`."""
    api = bare()
    made = posted(api, "a")
    patch: JsonObject = {"metadata": {"uid": "other", "labels": {"x": "1"}}}
    assert reason(ask(api, "PATCH", PODS + "/a", patch, MERGE), 422) == "Invalid"
    right: JsonObject = {"metadata": {"uid": uid(made), "labels": {"x": "1"}}}
    done(ask(api, "PATCH", PODS + "/a", right, MERGE))


def test_a_stale_revision_in_a_patch_is_a_conflict() -> None:
    """K13.1: `metadata.resourceVersion` for optimistic locking, 409 when stale."""
    api = bare()
    made = posted(api, "a")
    patch: JsonObject = {"metadata": {"resourceVersion": revision(made), "labels": {"x": "1"}}}
    done(ask(api, "PATCH", PODS + "/a", patch, MERGE))
    patch = {"metadata": {"resourceVersion": revision(made), "labels": {"x": "2"}}}
    assert reason(ask(api, "PATCH", PODS + "/a", patch, MERGE), 409) == "Conflict"


def test_conditions_merge_by_type_in_a_strategic_patch() -> None:
    """K13: `conditions` merge by type."""
    api = bare()
    posted(api, "a")
    bound(api, "a")
    for status in ("True", "False"):
        conditions: Json = [{"type": "X", "status": status}]
        body: JsonObject = {"status": {"conditions": conditions}}
        done(ask(api, "PATCH", PODS + "/a/status", body, STRATEGIC))
    shown = list_at(section(found(api, PODS + "/a"), "status"), "conditions")
    assert [(one["type"], one["status"]) for one in shown] == [
        ("X", "False"),
        ("PodScheduled", "True"),
    ]
    gone: JsonObject = {"status": {"conditions": [{"type": "X", "$patch": "delete"}]}}
    done(ask(api, "PATCH", PODS + "/a/status", gone, STRATEGIC))
    shown = list_at(section(found(api, PODS + "/a"), "status"), "conditions")
    assert [one["type"] for one in shown] == ["PodScheduled"]


def test_a_strategic_patch_is_for_built_in_types_only() -> None:
    """K13: strategic merge is for built-in types only (415)."""
    api = bare()
    done(ask(api, "POST", QUEUES, {"kind": "Queue", "metadata": {"name": "q"}}))
    response = ask(api, "PATCH", QUEUES + "/q", {"spec": {"weight": 2}}, STRATEGIC)
    assert reason(response, 415) == "UnsupportedMediaType"
    assert ask(api, "PATCH", PODS + "/a", {}, "application/json").status == 404
    posted(api, "a")
    assert ask(api, "PATCH", PODS + "/a", {}, "application/json").status == 415


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([{"op": "test", "path": "/metadata/name", "value": "a"}], 200),
        ([{"op": "test", "path": "/metadata/name", "value": "b"}], 422),
        ([{"op": "replace", "path": "/metadata/nope/x", "value": "b"}], 422),
        ([{"op": "remove", "path": "/data/nope"}], 422),
        ([{"op": "shake", "path": "/data/nope"}], 422),
        ({"op": "test"}, 400),
        ("{", 400),
    ],
)
def test_a_json_patch_can_test(operations: Json, status: int) -> None:
    """K13: `test` for preconditions, failure is 422."""
    api = bare()
    done(ask(api, "POST", CONFIG_MAPS, config_map("a", x="1")))
    assert ask(api, "PATCH", CONFIG_MAPS + "/a", operations, JSON_PATCH).status == status


def test_a_json_patch_does_what_it_says() -> None:
    """K13: escape `/` as `~1`, `~` as `~0`."""
    api = bare()
    done(ask(api, "POST", CONFIG_MAPS, config_map("a", x="1")))
    operations: Json = [
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "1"}},
        {"op": "add", "path": "/metadata/labels/c~1d~0e", "value": "2"},
        {"op": "move", "from": "/data/x", "path": "/data/y"},
        {"op": "copy", "from": "/data/y", "path": "/data/z"},
        {"op": "replace", "path": "/data/y", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/a~1b"},
        {"op": "add", "path": "/list", "value": [1, 3]},
        {"op": "add", "path": "/list/1", "value": 2},
        {"op": "add", "path": "/list/-", "value": 4},
        {"op": "remove", "path": "/list/0"},
    ]
    done(ask(api, "PATCH", CONFIG_MAPS + "/a", operations, JSON_PATCH))
    shown = found(api, CONFIG_MAPS + "/a")
    assert section(shown, "metadata")["labels"] == {"c/d~e": "2"}
    assert shown["data"] == {"y": "3", "z": "1"}
    assert shown["list"] == [2, 3, 4]


def test_applied_fields_have_owners() -> None:
    """K13: server-side apply, 409 lists conflicting owners."""
    api = bare()

    def apply(manager: str, force: str = "", **data: Json) -> tuple[int, JsonObject]:
        path = f"{CONFIG_MAPS}/a?fieldManager={manager}{force}"
        response = ask(api, "PATCH", path, config_map("a", **data), APPLY)
        return response.status, msgspec.json.decode(response.body)

    assert apply("one", a="1", b="1")[0] == 201
    status, told_of = apply("two", a="2")
    (cause,) = list_at(section(told_of, "details"), "causes")
    assert (status, cause["field"]) == (409, ".data.a")
    assert 'conflict with "one"' in str(cause["message"])
    assert apply("two", "&force=true", a="2")[1]["data"] == {"a": "2", "b": "1"}
    assert apply("one", b="1")[1]["data"] == {"a": "2", "b": "1"}
    assert apply("one", c="1")[1]["data"] == {"a": "2", "c": "1"}
    assert ask(api, "PATCH", CONFIG_MAPS + "/a", config_map("a"), APPLY).status == 422
    done(ask(api, "PATCH", CONFIG_MAPS + "/a", {"data": {"c": "9"}}, MERGE))
    assert apply("one", c="1")[0] == 409


def test_status_and_spec_are_not_written_together() -> None:
    """K13.2: status needs the `/status` subresource."""
    api = bare()
    node: JsonObject = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1"}},
    }
    done(ask(api, "POST", "/api/v1/nodes", node))
    both: JsonObject = {
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "2"}},
    }
    shown = done(ask(api, "PATCH", "/api/v1/nodes/n", both, MERGE))
    assert shown["spec"] == {"unschedulable": True}
    assert shown["status"] == {"allocatable": {"cpu": "1"}}
    both["spec"] = {"unschedulable": False}
    shown = done(ask(api, "PATCH", "/api/v1/nodes/n/status", both, MERGE))
    assert shown["spec"] == {"unschedulable": True}
    assert shown["status"] == {"allocatable": {"cpu": "2"}}


def test_custom_objects_have_a_status_of_their_own_too() -> None:
    """K13.2, for definitions with a status subresource."""
    api = bare()
    queue: JsonObject = {
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }
    made = done(ask(api, "POST", QUEUES, queue))
    assert "status" not in made
    told_status: JsonObject = {"metadata": {"labels": {"x": "y"}}, "status": {"state": "Open"}}
    shown = done(ask(api, "PATCH", QUEUES + "/q/status", told_status, MERGE))
    assert shown["status"] == {"state": "Open"}
    assert "labels" not in section(shown, "metadata")
    assert section(shown, "metadata")["generation"] == 1
    shown = done(ask(api, "PATCH", QUEUES + "/q", {"spec": {"weight": 2}}, MERGE))
    assert section(shown, "metadata")["generation"] == 2


def test_a_patch_that_changes_nothing_makes_no_revision() -> None:
    api = bare()
    posted(api, "a", labels={"x": "1"})
    before = api.versions.revision
    done(ask(api, "PATCH", PODS + "/a", {"metadata": {"labels": {"x": "1"}}}, MERGE))
    assert api.versions.revision == before


def test_a_running_pod_has_a_grace_period() -> None:
    """K9.6: success only means that termination began."""
    api = bare()
    posted(api, "a")
    bound(api, "a")
    shown = done(ask(api, "DELETE", PODS + "/a"))
    assert section(shown, "metadata")["deletionGracePeriodSeconds"] == 30
    again = done(ask(api, "DELETE", PODS + "/a"))
    assert revision(again) == revision(shown)
    sooner = done(ask(api, "DELETE", PODS + "/a?gracePeriodSeconds=5"))
    assert section(sooner, "metadata")["deletionGracePeriodSeconds"] == 5
    opened = watch(api, "/api/v1/pods", resourceVersion=revision(sooner))
    assert ask(api, "DELETE", PODS + "/a", {"gracePeriodSeconds": 0}).status == 200
    assert told(opened) == ["MODIFIED a", "DELETED a"]


def test_the_kubelet_of_the_world_finishes_a_deletion() -> None:
    api = served(
        """
        cluster:
          - {kind: Node, metadata: {name: n1}, status: {allocatable: {pods: "9"}}}
        """
    )
    made = pod("a")
    metadata: JsonObject = {"name": "a", "annotations": {"muster.sh/stop-seconds": "4"}}
    made["metadata"] = metadata
    done(ask(api, "POST", PODS, made))
    bound(api, "a")
    done(ask(api, "DELETE", PODS + "/a"))
    api.advance(3_900_000_000)
    assert found(api, PODS + "/a")
    api.advance(4_000_000_000)
    assert ask(api, "GET", PODS + "/a").status == 404


def test_a_finalizer_keeps_an_object_until_it_is_taken_off() -> None:
    api = bare()
    held = config_map("a")
    held["metadata"] = {"name": "a", "finalizers": ["x/y"]}
    done(ask(api, "POST", CONFIG_MAPS, held))
    shown = done(ask(api, "DELETE", CONFIG_MAPS + "/a"))
    assert "deletionTimestamp" in section(shown, "metadata")
    done(ask(api, "PATCH", CONFIG_MAPS + "/a", {"metadata": {"finalizers": None}}, MERGE))
    assert ask(api, "GET", CONFIG_MAPS + "/a").status == 404


@pytest.mark.parametrize("wanted", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_a_deletion_has_preconditions(wanted: JsonObject) -> None:
    api = bare()
    done(ask(api, "POST", CONFIG_MAPS, config_map("a")))
    response = ask(api, "DELETE", CONFIG_MAPS + "/a", {"preconditions": wanted})
    assert reason(response, 409) == "Conflict"
    assert found(api, CONFIG_MAPS + "/a")


@pytest.mark.parametrize(("policy", "left"), [("Background", []), ("Orphan", ["r-0"])])
def test_what_a_workload_owned_goes_with_it_unless_it_is_orphaned(
    policy: str, left: list[str]
) -> None:
    """K10.1: owners."""
    api = served()
    template: JsonObject = {"spec": {"containers": [{"name": "c"}]}}
    replica_set: JsonObject = {
        "kind": "ReplicaSet",
        "metadata": {"name": "r"},
        "spec": {"replicas": 1, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/replicasets"
    done(ask(api, "POST", path, replica_set))
    assert names(found(api, PODS)) == ["r-0"]
    done(ask(api, "DELETE", path + "/r", {"propagationPolicy": policy}))
    assert names(found(api, PODS)) == left


def test_a_collection_is_deleted_by_its_labels() -> None:
    api = bare()
    posted(api, "a", labels={"x": "1"})
    posted(api, "b", labels={"x": "1"})
    posted(api, "c")
    done(ask(api, "DELETE", PODS + "?labelSelector=x=1"))
    assert names(found(api, PODS)) == ["c"]


def test_a_replacement_must_fit_its_path_and_revision() -> None:
    api = bare()
    made = posted(api, "a", labels={"x": "1"})
    assert ask(api, "PUT", PODS + "/a", pod("b")).status == 400
    assert reason(ask(api, "PUT", PODS + "/b", pod("b")), 404) == "NotFound"
    stale: JsonObject = {**made, "metadata": {"name": "a", "resourceVersion": "1"}}
    assert reason(ask(api, "PUT", PODS + "/a", stale), 409) == "Conflict"
    new: JsonObject = {**made, "metadata": {"name": "a", "labels": {"y": "2"}}}
    shown = done(ask(api, "PUT", PODS + "/a", new))
    assert section(shown, "metadata", "labels") == {"y": "2"}
    assert uid(shown) == uid(made)


def test_a_name_again_is_another_object() -> None:
    """K1.1: namespace/name can be reused by a later, different object."""
    api = bare()
    first = posted(api, "a")
    done(ask(api, "DELETE", PODS + "/a"))
    second = posted(api, "a")
    assert uid(first) != uid(second)
    assert reason(ask(api, "POST", PODS, pod("a")), 409) == "AlreadyExists"


def test_what_a_pod_needs_is_asked_of_its_maker() -> None:
    api = bare()
    assert reason(ask(api, "POST", PODS, pod("Bad_Name")), 422) == "Invalid"
    assert ask(api, "POST", PODS, pod("a", containers=[])).status == 422
    assert ask(api, "POST", PODS, pod("a", priorityClassName="nope")).status == 403
    assert ask(api, "POST", PODS, {**pod("a"), "kind": "Node"}).status == 400
    assert ask(api, "POST", "/api/v1/namespaces/nope/pods", pod("a")).status == 404
    assert ask(api, "POST", "/api/v1/pods", pod("a")).status == 405
    assert refused(ask(api, "POST", PODS, "{"), 400)["reason"] == "BadRequest"


def test_generated_names_are_the_same_in_the_same_order() -> None:
    made = pod("")
    made["metadata"] = {"generateName": "g-"}
    apis = (bare(), bare())
    seen = [[done(ask(api, "POST", PODS, made))["metadata"] for _ in range(3)] for api in apis]
    assert seen[0] == seen[1]
    assert len({str(section({"m": one}, "m")["name"]) for one in seen[0]}) == 3
