"""Annotating a pod before it is bound: one merge patch with UID and version of the pod without a node."""

import pytest

from daemon.cluster.acting.binding import annotate, mark_pod
from daemon.cluster.client.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    ServerError,
    UnansweredError,
)
from events.errors import ClusterError
from events.messages import (
    Accepted,
    AnnotateRequest,
    OutcomeUnknown,
    PodMarkRequest,
    Rejected,
)
from tests.daemon.cluster.acting.scripted import Scripted, pod, request_budget, said

REQUEST = AnnotateRequest(7, "default", "a", "u1", "n1", {"x/y": "0,1"})
WAITING = pod(resourceVersion="12", annotations={"x/y": "7", "other": "stays"})
CHANGED = pod(resourceVersion="13", annotations={"x/y": "7"})
WRITTEN = pod(resourceVersion="13", annotations={"x/y": "0,1", "other": "stays"})
GONE = said(NotFoundError, 404, "NotFound", 'pods "a" not found')
MODIFIED = said(ConflictError, 409, "Conflict", "the object has been modified")
LOST = UnansweredError("patch pods: the connection was lost")


async def test_a_patch_carries_uid_and_version_and_only_the_annotations_k13_1() -> None:
    client = Scripted(WAITING, b"{}")
    assert await annotate(request_budget(client), REQUEST) == Accepted()
    assert client.whats == ["get pods", "patch pods"]
    asked = client.asked[1]
    assert (asked.name, asked.namespace) == ("a", "default")
    metadata = {"uid": "u1", "resourceVersion": "12", "annotations": {"x/y": "0,1"}}
    assert asked.document == {"metadata": metadata}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GONE, "NotFound"),
        (said(InvalidError, 422, "Invalid", "annotations are too long"), "Invalid"),
    ],
)
async def test_a_refusal_is_final(error: ClusterError, code: str) -> None:
    client = Scripted(WAITING, error)
    reply = await annotate(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == code


@pytest.mark.parametrize(
    ("found", "code"),
    [(pod(node="n1"), "Conflict"), (pod(uid="u2"), "Conflict"), (GONE, "NotFound")],
    ids=["bound", "created again", "gone"],
)
async def test_nothing_is_written_on_a_pod_that_is_bound_or_another_one(
    found: bytes | ClusterError, code: str
) -> None:
    client = Scripted(found)
    reply = await annotate(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == code


@pytest.mark.parametrize("error", [LOST, said(ServerError, 503, "ServiceUnavailable", "")])
async def test_a_lost_answer_is_asked_for_again(error: ClusterError) -> None:
    client = Scripted(error, WAITING, error, b"{}")
    assert await annotate(request_budget(client), REQUEST) == Accepted()
    assert client.whats == ["get pods"] * 2 + ["patch pods"] * 2
    assert client.asked[3].document == client.asked[2].document


async def test_a_patch_whose_answer_was_lost_is_found_on_the_pod() -> None:
    client = Scripted(WAITING, LOST, MODIFIED, WRITTEN)
    assert await annotate(request_budget(client), REQUEST) == Accepted()


async def test_a_pod_that_changed_since_it_was_read_is_read_again() -> None:
    client = Scripted(WAITING, MODIFIED, CHANGED, b"{}")
    assert await annotate(request_budget(client), REQUEST) == Accepted()
    client = Scripted(WAITING, MODIFIED, pod(node="n2"))
    reply = await annotate(request_budget(client), REQUEST)
    assert reply == Rejected(code="Conflict", message="already assigned to node n2")


async def test_without_any_answer_the_outcome_is_unknown() -> None:
    client = Scripted(*[LOST] * 30)
    assert isinstance(await annotate(request_budget(client), REQUEST), OutcomeUnknown)


MARK = PodMarkRequest(
    7, "default", "a", "u1", "pod-status", {"huawei.com/pod-status": "Unhealthy-CardUnhealthy"}
)


async def test_the_fault_of_a_pod_is_written_although_it_is_bound() -> None:
    client = Scripted(pod(node="n1", resourceVersion="12"), b"{}")
    assert await mark_pod(request_budget(client), MARK) == Accepted()
    assert client.whats == ["get pods", "patch pods"]
    annotations = {"huawei.com/pod-status": "Unhealthy-CardUnhealthy"}
    assert client.asked[1].document == {
        "metadata": {"uid": "u1", "resourceVersion": "12", "annotations": annotations}
    }


async def test_a_fault_that_is_written_is_not_written_again_nor_on_another_pod() -> None:
    there = pod(node="n1", annotations={"huawei.com/pod-status": "Unhealthy-CardUnhealthy"})
    client = Scripted(there)
    assert await mark_pod(request_budget(client), MARK) == Accepted()
    for found in (pod(uid="u2"), GONE):
        reply = await mark_pod(request_budget(Scripted(found)), MARK)
        assert isinstance(reply, Rejected)
