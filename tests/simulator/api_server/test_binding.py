"""Bindings: every reply of rule K8."""

import msgspec
import pytest

from events.normalize import Json, JsonObject
from simulator.manifest_fields import list_at, section
from tests.simulator.api_server.builders import (
    MERGE,
    PODS,
    ask,
    bare,
    binding,
    bound,
    done,
    found,
    posted,
    reason,
    refused,
    revision,
    served,
    told,
    uid,
    watch,
)


def test_a_binding_and_its_annotations_are_one_update() -> None:
    """K8.1: node and annotations become visible atomically; the answer is a `Status`."""
    api = bare()
    made = posted(api, "a")
    opened = watch(api, "/api/v1/pods", resourceVersion=revision(made))
    response = ask(
        api, "POST", PODS + "/a/binding", binding("a", uid=uid(made), annotations={"x/y": "z"})
    )
    assert response.status == 201
    assert msgspec.json.decode(response.body)["kind"] == "Status"
    assert told(opened) == ["MODIFIED a"]
    pod = found(api, PODS + "/a")
    assert section(pod, "spec")["nodeName"] == "n1"
    assert section(pod, "metadata", "annotations") == {"x/y": "z"}
    (condition,) = list_at(section(pod, "status"), "conditions")
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_binding_to_an_unknown_node_is_accepted() -> None:
    """K8: node name unknown is not checked, any name is accepted."""
    api = bare()
    posted(api, "a")
    bound(api, "a", "nowhere")
    assert section(found(api, PODS + "/a"), "spec")["nodeName"] == "nowhere"


@pytest.mark.parametrize("metadata", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_a_precondition_that_does_not_hold_is_a_conflict(metadata: dict[str, str]) -> None:
    """K8: 409 on UID/RV mismatch."""
    api = bare()
    posted(api, "a")
    response = ask(
        api, "POST", PODS + "/a/binding", {**binding("a"), "metadata": {"name": "a", **metadata}}
    )
    assert reason(response, 409) == "Conflict"
    assert "nodeName" not in section(found(api, PODS + "/a"), "spec")


def test_a_pod_is_bound_once() -> None:
    """K8.5: `nodeName` can never be changed after that."""
    api = bare()
    posted(api, "a")
    bound(api, "a")
    response = ask(api, "POST", PODS + "/a/binding", binding("a", "n2"))
    assert reason(response, 409) == "Conflict"
    patch: JsonObject = {"spec": {"nodeName": "n2"}}
    assert reason(ask(api, "PATCH", PODS + "/a", patch, MERGE), 422) == "Invalid"
    assert section(found(api, PODS + "/a"), "spec")["nodeName"] == "n1"


def test_a_gated_pod_is_not_bound() -> None:
    """K7.1: binding a gated pod gives 409; it has the condition `SchedulingGated`."""
    api = bare()
    made = posted(api, "a", schedulingGates=[{"name": "x/y"}])
    (condition,) = list_at(section(made, "status"), "conditions")
    assert condition["reason"] == "SchedulingGated"
    assert reason(ask(api, "POST", PODS + "/a/binding", binding("a")), 409) == "Conflict"
    done(ask(api, "PATCH", PODS + "/a", {"spec": {"schedulingGates": None}}, MERGE))
    bound(api, "a")


def test_gates_are_only_taken_off() -> None:
    """K7.1: gates can only be set at creation; while gated, selectors may be tightened."""
    api = bare()
    posted(api, "a", schedulingGates=[{"name": "x/y"}])
    more: JsonObject = {"spec": {"schedulingGates": [{"name": "x/y"}, {"name": "x/z"}]}}
    assert ask(api, "PATCH", PODS + "/a", more, MERGE).status == 422
    done(ask(api, "PATCH", PODS + "/a", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE))
    posted(api, "b")
    assert (
        ask(api, "PATCH", PODS + "/b", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE).status == 422
    )


def test_a_terminating_pod_is_not_bound() -> None:
    """K8: 409 for a pod that is being deleted."""
    api = bare()
    posted(api, "a")
    done(ask(api, "PATCH", PODS + "/a", {"metadata": {"finalizers": ["x/y"]}}, MERGE))
    done(ask(api, "DELETE", PODS + "/a"))
    assert "deleted" in str(refused(ask(api, "POST", PODS + "/a/binding", binding("a")), 409))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (binding("other"), 400),
        ("{", 400),
        ({"kind": "Pod", "metadata": {"name": "a"}}, 400),
        ({**binding("a"), "target": {"kind": "Pod", "name": "n1"}}, 500),
        ({**binding("a"), "target": {"kind": "Node"}}, 500),
    ],
)
def test_a_malformed_binding_is_refused(body: Json, status: int) -> None:
    """K8: 400 for names that differ; K20: a wrong target kind answers 500 without a reason."""
    api = bare()
    posted(api, "a")
    refused(ask(api, "POST", PODS + "/a/binding", body), status)


def test_a_pod_that_is_gone_is_not_found() -> None:
    """K8: 404 where the pod is gone."""
    assert reason(ask(bare(), "POST", PODS + "/a/binding", binding("a")), 404) == "NotFound"


def test_the_kubelet_of_the_world_starts_or_rejects_what_is_bound() -> None:
    """K5.12: what does not fit is `Failed` with a reason."""
    api = served(
        """
        cluster:
          - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "1", pods: "9"}}}
        """
    )
    containers: Json = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    for name in ("a", "b"):
        posted(api, name, containers=containers)
        bound(api, name)
    assert section(found(api, PODS + "/a"), "status")["phase"] == "Running"
    assert section(found(api, PODS + "/b"), "status")["reason"] == "OutOfcpu"
    assert [call.result for call in api.simulated.journal] == ["done", "done"]
