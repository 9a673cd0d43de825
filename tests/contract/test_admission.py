"""What becomes of a pod on its way in, and what can no longer be changed then (rules K1.7, K5.7, K7)."""

from typing import Any

import pytest

from projections.kinds.priority_class import PRIORITY_CLASSES
from tests.contract.served import Served
from tests.control_plane.api import Answer, Object
from tests.control_plane.manifests import CARD, pod

MIB = 1024 * 1024


async def post(server: Served, name: str = "pod", **spec: Any) -> Answer:
    """Ask for a pod."""
    return await server.api.post(server.pods, pod(server.namespace, name, **spec))


async def test_priority_is_resolved_from_its_class(server: Served) -> None:
    """Rule K7.2: read `spec.priority`; changing a class does not change existing pods."""
    name = server.unique("urgent")
    manifest = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1_000,
        "preemptionPolicy": "Never",
    }
    await server.api.create(PRIORITY_CLASSES, manifest)
    made = (await post(server, priorityClassName=name)).expect(201)
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1_000, "Never")
    other = (await post(server, "other")).expect(201)
    assert other["spec"]["priority"] == 0


@pytest.mark.apiserver
async def test_the_value_of_a_priority_class_is_for_life(real: Served) -> None:
    """Rule K7.2"""
    path = PRIORITY_CLASSES.object_path("system-node-critical")
    answer = await real.api.patch(path, {"value": 2_000})
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_a_priority_class_that_is_not_there_is_refused(server: Served) -> None:
    """Rule K7.2"""
    answer = await post(server, priorityClassName="none-of-this-name")
    assert (answer.status, answer.reason) == (403, "Forbidden")


async def test_what_is_not_said_is_filled_in(server: Served) -> None:
    """Rules K5.7 and K6.4"""
    container = {
        "name": "main",
        "image": "registry.example/image:1",
        "resources": {"limits": {"cpu": "2", CARD: "1"}},
    }
    made = (await post(server, containers=[container])).expect(201)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", CARD: "1"}
    assert made["status"]["phase"] == "Pending"
    waits = {one["key"]: one["tolerationSeconds"] for one in made["spec"]["tolerations"]}
    assert waits == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }


@pytest.mark.apiserver
async def test_a_request_of_cards_is_its_limit(real: Served) -> None:
    """Rule K5.10: never overcommitted, and never a part of one."""
    for resources in (
        {"requests": {CARD: "1"}},
        {"requests": {CARD: "1"}, "limits": {CARD: "2"}},
        {"limits": {CARD: "500m"}},
    ):
        container = {"name": "main", "image": "registry.example/image:1", "resources": resources}
        answer = await post(real, containers=[container])
        assert (answer.status, answer.reason) == (422, "Invalid"), resources


async def test_a_scheduler_is_chosen_for_life(server: Served) -> None:
    """Rule K7.5"""
    made = (await post(server)).expect(201)
    answer = await server.api.patch(server.path(made), {"spec": {"schedulerName": "other"}})
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_gates_are_only_ever_taken_away(server: Served) -> None:
    """Rule K7.1"""
    plain = (await post(server)).expect(201)
    gates = {"spec": {"schedulingGates": [{"name": "example.com/late"}]}}
    answer = await server.api.patch(server.path(plain), gates)
    assert (answer.status, answer.reason) == (422, "Invalid")
    gated = (await post(server, "gated", schedulingGates=[{"name": "example.com/a"}])).expect(201)
    tighter = {"spec": {"nodeSelector": {"pool": "a"}}}
    patched = (await server.api.patch(server.path(gated), tighter)).expect(200)
    assert patched["spec"]["nodeSelector"] == {"pool": "a"}
    open_ = (await server.api.patch(server.path(gated), {"spec": {"schedulingGates": []}})).expect(
        200
    )
    assert not open_["spec"].get("schedulingGates")


@pytest.mark.apiserver
async def test_a_gated_pod_is_never_let_go_further(real: Served) -> None:
    """Rule K7.1"""
    gated = (await post(real, schedulingGates=[{"name": "example.com/a"}])).expect(201)
    for pool, status in (("a", 200), ("b", 422)):
        patch = {"spec": {"nodeSelector": {"pool": pool}}}
        assert (await real.api.patch(real.path(gated), patch)).status == status


@pytest.mark.apiserver
async def test_labels_and_annotations_have_their_limits(real: Served) -> None:
    """Rule K1.7"""
    made = (await post(real)).expect(201)
    wrong: list[Object] = [
        {"labels": {"a": "x" * 64}},
        {"labels": {"a": "no spaces"}},
        {"labels": {"not a key": "x"}},
        {"annotations": {"a": "x" * (256 * 1024)}},
        {"annotations": {"not a key": "x"}},
    ]
    for metadata in wrong:
        answer = await real.api.patch(real.path(made), {"metadata": metadata})
        assert (answer.status, answer.reason) == (422, "Invalid"), list(metadata)
    right = {"labels": {"a": "x" * 63}, "annotations": {"a": "x" * (255 * 1024)}}
    (await real.api.patch(real.path(made), {"metadata": right})).expect(200)


async def test_a_name_is_a_name_of_the_dns(server: Served) -> None:
    """Rule K1.7"""
    for name in ("Upper", "under_score", "-dash", "a" * 254):
        answer = await post(server, name)
        assert (answer.status, answer.reason) == (422, "Invalid"), name


async def test_an_object_that_is_too_large_is_not_taken(server: Served) -> None:
    """An object of 5 MiB never becomes one."""
    container = {
        "name": "main",
        "image": "registry.example/image:1",
        "env": [{"name": "LARGE", "value": "x" * (5 * MIB)}],
    }
    answer = await post(server, containers=[container])
    assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.apiserver
async def test_unknown_fields_are_dropped_where_the_kind_is_built_in(real: Served) -> None:
    """Rule K1.6"""
    made = (await post(real, neverHeardOf=True)).expect(201)
    assert "neverHeardOf" not in made["spec"]
    strict = pod(real.namespace, "strict", neverHeardOf=True)
    answer = await real.api.post(real.pods, strict, fieldValidation="Strict")
    assert (answer.status, answer.reason) == (400, "BadRequest")
