"""Annotating a pod before it is bound: one merge patch with the UID as precondition."""

import pytest

from daemon.cluster.acting.binding import annotate
from daemon.cluster.client.errors import (
    Cause,
    ConflictError,
    InvalidError,
    NotFoundError,
    ServerError,
    UnansweredError,
)
from events.errors import ClusterError
from events.messages import Accepted, AnnotateRequest, OutcomeUnknown, Rejected
from tests.daemon.cluster.acting.scripted import Scripted, request_budget, said

REQUEST = AnnotateRequest(7, "default", "a", "u1", "n1", {"x/y": "0,1"})


async def test_a_patch_carries_the_uid_and_only_the_annotations_k13_1() -> None:
    client = Scripted(b"{}")
    assert await annotate(request_budget(client), REQUEST) == Accepted()
    asked = client.asked[0]
    assert (asked.what, asked.name, asked.namespace) == ("patch pods", "a", "default")
    assert asked.document == {"metadata": {"uid": "u1", "annotations": {"x/y": "0,1"}}}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (said(NotFoundError, 404, "NotFound", 'pods "a" not found'), "NotFound"),
        (said(ConflictError, 409, "Conflict", "the UID in the precondition differs"), "Conflict"),
        (
            said(InvalidError, 422, "Invalid", "", Cause(field="metadata.uid")),
            "Conflict",
        ),
        (said(InvalidError, 422, "Invalid", "annotations are too long"), "Invalid"),
    ],
)
async def test_a_refusal_is_final(error: ClusterError, code: str) -> None:
    client = Scripted(error)
    reply = await annotate(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == code
    assert len(client.asked) == 1


@pytest.mark.parametrize(
    "error",
    [
        UnansweredError("patch pods: the connection was lost"),
        said(ServerError, 503, "ServiceUnavailable", ""),
    ],
)
async def test_a_lost_answer_is_asked_for_again(error: ClusterError) -> None:
    client = Scripted(error, b"{}")
    assert await annotate(request_budget(client), REQUEST) == Accepted()
    assert [one.document for one in client.asked] == [client.asked[0].document] * 2


async def test_without_any_answer_the_outcome_is_unknown() -> None:
    client = Scripted(*[UnansweredError("patch pods: the connection was lost")] * 30)
    assert isinstance(await annotate(request_budget(client), REQUEST), OutcomeUnknown)
