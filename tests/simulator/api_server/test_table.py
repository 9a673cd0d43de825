"""Server-side printing: what `kubectl get` shows."""

import msgspec
import pytest
import yaml

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.api_server.api import Api
from simulator.api_server.http_message import JSON, Request
from simulator.api_server.table import prefers_table
from simulator.api_server.watch import Watch
from simulator.manifest_fields import list_at, section, text_at
from tests.checkout import ROOT
from tests.simulator.api_server.builders import (
    MERGE,
    PODS,
    ask,
    bare,
    bound,
    done,
    found,
    pod,
    posted,
    refused,
    served,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODE = """
cluster:
  - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
"""


def table(api: Api, path: str, **query: str) -> JsonObject:
    """The Table at a path."""
    response = api.handle(Request("GET", path, query, accept=TABLE))
    assert response.status == 200, response.body
    document: JsonObject = msgspec.json.decode(response.body)
    assert (document["kind"], document["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    return document


def columns(document: JsonObject, priority: int = 0) -> list[str]:
    """The names of the columns up to a priority."""
    return [
        str(one["name"])
        for one in list_at(document, "columnDefinitions")
        if isinstance(shown := one["priority"], int) and shown <= priority
    ]


def cells(document: JsonObject) -> list[list[Json]]:
    """The rows."""
    found = [one["cells"] for one in list_at(document, "rows")]
    assert all(isinstance(one, list) for one in found)
    return [one for one in found if isinstance(one, list)]


@pytest.mark.parametrize(
    ("accept", "is_table"),
    [
        (TABLE, True),
        ("application/json", False),
        ("*/*", False),
        ("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/json; as=Table; g=meta.k8s.io; v=v1", True),
        ("application/vnd.kubernetes.protobuf,application/json", False),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", False),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
            False,
        ),
    ],
)
def test_the_first_form_that_a_client_accepts_and_the_server_has_is_taken(
    accept: str, is_table: bool
) -> None:
    assert prefers_table(accept) == is_table


def test_the_table_of_pods_shows_what_becomes_of_them() -> None:
    api = served("start_delay: 2s" + NODE)
    ends: JsonObject = {"name": "b", "annotations": {"muster.sh/run-seconds": "5"}}
    posted(api, "a", schedulingGates=[{"name": "later"}])
    done(ask(api, "POST", PODS, pod("b") | {"metadata": ends}))
    huge: Json = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}]
    posted(api, "c", containers=huge)
    posted(api, "d")
    for name in ("b", "c", "d"):
        bound(api, name)
    first = table(api, PODS)
    assert columns(first) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert columns(first, 1)[5:] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    assert [row[:5] for row in cells(first)] == [
        ["a", "0/1", "SchedulingGated", "0", "0s"],
        ["b", "0/1", "ContainerCreating", "0", "0s"],
        ["c", "0/1", "OutOfcpu", "0", "0s"],
        ["d", "0/1", "ContainerCreating", "0", "0s"],
    ]
    api.advance(4 * SECOND)
    done(ask(api, "DELETE", f"{PODS}/d"))
    then = {str(row[0]): row[1:3] for row in cells(table(api, PODS))}
    assert then["b"] == ["1/1", "Running"]
    api.advance(600 * SECOND)
    last = table(api, PODS)
    assert [row[:5] for row in cells(last)][1] == ["b", "0/1", "Completed", "0", "10m"]
    assert [row[6] for row in cells(last)][:2] == ["<none>", "n1"]
    ended = {str(row["cells"][0]) for row in list_at(last, "rows") if row.get("conditions")}  # type: ignore[index]
    assert ended == {"b", "c"}


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    api = bare()
    posted(api, "a")
    bound(api, "a")
    done(ask(api, "DELETE", f"{PODS}/a"))
    assert cells(table(api, f"{PODS}/a"))[0][2] == "Terminating"


def test_a_list_in_pages_and_by_selector_is_a_table_too() -> None:
    api = bare()
    for name in "abc":
        posted(api, name, labels={"is": name})
    page = table(api, PODS, limit="2")
    metadata = section(page, "metadata")
    assert ([row[0] for row in cells(page)], metadata["remainingItemCount"]) == (["a", "b"], 1)
    rest = table(api, PODS, limit="2", **{"continue": text_at(metadata, "continue")})
    assert [row[0] for row in cells(rest)] == ["c"]
    assert [row[0] for row in cells(table(api, PODS, labelSelector="is!=b"))] == ["a", "c"]
    assert table(api, f"{PODS}/a")["metadata"] == {
        "resourceVersion": section(found(api, f"{PODS}/a"), "metadata")["resourceVersion"]
    }


def test_a_row_has_as_much_of_its_object_as_is_asked_for() -> None:
    api = bare()
    whole = posted(api, "a")
    (row,) = list_at(table(api, PODS), "rows")
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": whole["metadata"],
    }
    (row,) = list_at(table(api, PODS, includeObject="Object"), "rows")
    assert row["object"] == whole
    (row,) = list_at(table(api, PODS, includeObject="None"), "rows")
    assert "object" not in row
    wrong = api.handle(Request("GET", PODS, {"includeObject": "Some"}, accept=TABLE))
    assert refused(wrong, 400)["reason"] == "BadRequest"


def test_what_is_not_there_is_a_status_and_no_table() -> None:
    response = bare().handle(Request("GET", f"{PODS}/none", accept=TABLE))
    assert refused(response, 404)["reason"] == "NotFound"


def test_a_watch_sends_rows_and_the_columns_only_once() -> None:
    api = bare()
    posted(api, "a")
    query = {"watch": "1", "fieldSelector": "spec.nodeName!=n1"}
    opened = api.watch(Request("GET", PODS, query, accept=TABLE))
    assert isinstance(opened, Watch)
    posted(api, "b")
    bound(api, "a")
    shown: list[JsonObject] = []
    while chunk := opened.take(0):
        shown += [msgspec.json.decode(line) for line in chunk.splitlines()]
    tables = [dict(section(one, "object")) for one in shown]
    assert [str(one["type"]) for one in shown] == ["ADDED", "ADDED", "DELETED"]
    assert [cells(one)[0][0] for one in tables] == ["a", "b", "a"]
    assert [len(columns(one)) for one in tables] == [5, 0, 0]


def test_a_bookmark_of_a_watch_of_tables_has_no_rows() -> None:
    api = bare()
    query = {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": "1"}
    opened = api.watch(Request("GET", PODS, query, accept=TABLE))
    assert isinstance(opened, Watch)
    (bookmark,) = [msgspec.json.decode(line) for line in opened.take(SECOND).splitlines()]
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "Table")
    assert bookmark["object"]["rows"] == []
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.versions.revision)


def test_a_definition_says_which_columns_its_objects_have() -> None:
    api = bare()
    names: JsonObject = {"kind": "Toy", "plural": "toys", "singular": "toy", "shortNames": ["ty"]}
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "cm"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.parts[?(@.n=='x')].ok"},
            {"name": "Sold", "type": "boolean", "jsonPath": ".spec.sold", "priority": 1},
            {"name": "Made", "type": "date", "jsonPath": ".spec.made"},
            {"name": "Share", "type": "number", "jsonPath": ".spec.share"},
        ],
    }
    definition: JsonObject = {
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Cluster",
            "versions": [version],
        },
    }
    done(ask(api, "POST", DEFINITIONS, definition))
    toys = "/apis/example.com/v1/toys"
    spec: JsonObject = {"size": 7, "sold": True, "made": "1969-12-31T23:00:00Z", "share": 1}
    status: JsonObject = {"parts": [{"n": "y", "ok": False}, {"n": "x", "ok": True}]}
    done(ask(api, "POST", toys, {"metadata": {"name": "a"}, "spec": spec, "status": status}))
    done(ask(api, "POST", toys, {"metadata": {"name": "b"}, "spec": {"size": "large"}}))
    shown = table(api, toys)
    assert columns(shown) == ["Name", "Size", "Ready", "Made", "Share"]
    assert columns(shown, 1) == ["Name", "Size", "Ready", "Sold", "Made", "Share"]
    assert cells(shown) == [
        ["a", 7, "true", True, "60m", 1.0],
        ["b", None, None, None, None, None],
    ]
    listed = found(api, "/apis/example.com/v1")
    (resource,) = list_at(listed, "resources")
    assert resource["shortNames"] == ["ty"]
    done(
        ask(
            api,
            "PATCH",
            f"{DEFINITIONS}/toys.example.com",
            {
                "spec": {
                    "versions": [
                        {
                            key: value
                            for key, value in version.items()
                            if key != "additionalPrinterColumns"
                        }
                    ]
                }
            },
            MERGE,
        )
    )
    assert cells(table(api, toys)) == [["a", "0s"], ["b", "0s"]]


@pytest.mark.parametrize("name", ["queues", "podgroups", "hypernodes"])
def test_the_definitions_at_the_start_have_the_columns_and_short_names_of_those_we_ship(
    name: str,
) -> None:
    path = ROOT / f"deploy/kustomize/crds/{name}.yaml"
    (ours,) = (one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one)
    there = found(bare(), f"{DEFINITIONS}/{ours['metadata']['name']}")
    assert section(there, "spec")["names"] == ours["spec"]["names"]
    (version,) = list_at(section(there, "spec"), "versions")
    (wanted,) = ours["spec"]["versions"]
    assert version["additionalPrinterColumns"] == wanted["additionalPrinterColumns"]
    conditions = list_at(section(there, "status"), "conditions")
    assert {(one["type"], one["status"]) for one in conditions} >= {("Established", "True")}


def test_without_the_header_objects_are_as_they_were() -> None:
    api = bare()
    whole = posted(api, "a")
    assert done(api.handle(Request("GET", f"{PODS}/a", accept=JSON))) == whole
