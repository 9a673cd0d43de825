"""Telling pods and queues what muster thinks of them (rules K7.7 and K13)."""

import msgspec
import pytest

from daemon.cluster.acting import pod_status
from daemon.cluster.acting.pod_status import PodStatusWriter, update_queue_status
from daemon.cluster.client.errors import (
    ApiError,
    Cause,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    UnansweredError,
)
from events.messages import (
    Accepted,
    OutcomeUnknown,
    PodConditionRequest,
    QueueStatusRequest,
    Rejected,
)
from tests.daemon.cluster.acting.scripted import Scripted, request_budget, said

AT_NS = 1_763_712_900_000_042_000

GONE = said(NotFoundError, 404, "NotFound", 'pods "a" not found')
ANOTHER = said(
    InvalidError, 422, "Invalid", "", Cause("FieldValueInvalid", "is immutable", "metadata.uid")
)
REFUSED = said(InvalidError, 422, "Invalid", "the server rejected our request")
LOST = UnansweredError("patch pods/status: the connection was lost")


def waiting(
    message: str = "0/3 nodes are unavailable: 3 Insufficient cpu.", node: str = ""
) -> PodConditionRequest:
    return PodConditionRequest(
        decision=7,
        namespace="default",
        name="a",
        uid="u1",
        reason="Unschedulable",
        message=message,
        nominated_node=node,
    )


def teller() -> PodStatusWriter:
    return PodStatusWriter(lambda: AT_NS)


async def test_pod_status_is_a_strategic_merge_patch_with_the_uid_k7_7_k13_1_k13_2() -> None:
    client = Scripted(b"{}")
    assert await teller().write(request_budget(client), waiting()) == Accepted()
    asked = client.asked[0]
    assert asked.what == "patch pods/status"
    assert asked.content_type == "application/strategic-merge-patch+json"
    assert asked.document == {
        "metadata": {"uid": "u1"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are unavailable: 3 Insufficient cpu.",
                    "lastTransitionTime": "2025-11-21T08:15:00Z",
                }
            ]
        },
    }


async def test_the_time_of_a_condition_stays_while_only_its_text_changes() -> None:
    client, pods = Scripted(b"{}", b"{}"), teller()
    await pods.write(request_budget(client), waiting())
    await pods.write(request_budget(client), waiting("0/2 nodes are unavailable."))
    assert b"lastTransitionTime" in client.asked[0].body
    assert b"lastTransitionTime" not in client.asked[1].body


async def test_a_telling_that_failed_gives_the_time_again() -> None:
    client, pods = Scripted(GONE, b"{}"), teller()
    reply = await pods.write(request_budget(client), waiting())
    assert isinstance(reply, Rejected)
    await pods.write(request_budget(client), waiting())
    assert b"lastTransitionTime" in client.asked[1].body


async def test_a_nomination_is_made_and_only_ours_is_taken_back_k7_3() -> None:
    client, pods = Scripted(b"{}", repeats=True), teller()
    await pods.write(request_budget(client), waiting(node="n1"))
    await pods.write(request_budget(client), waiting())
    await pods.write(request_budget(client), waiting("other"))
    nominations = [
        one.document["status"].get("nominatedNodeName", "-")  # type: ignore[attr-defined]  # a dict
        for one in client.asked
    ]
    assert nominations == ["n1", None, "-"]


async def test_only_so_many_pods_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_status, "NOMINATED_MAX", 1)
    client, pods = Scripted(b"{}", repeats=True), teller()
    other = PodConditionRequest(
        decision=7, namespace="default", name="b", uid="u2", reason="Unschedulable", message="m"
    )
    for request in (waiting(), other, waiting()):
        await pods.write(request_budget(client), request)
    assert all(b"lastTransitionTime" in one.body for one in client.asked)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GONE, "NotFound"),
        (ANOTHER, "Conflict"),
        (REFUSED, "Invalid"),
        (said(ForbiddenError, 403, "Forbidden"), "Forbidden"),
    ],
)
async def test_status_of_a_recreated_pod_is_not_patched_k13_1(error: ApiError, code: str) -> None:
    reply = await teller().write(request_budget(Scripted(error)), waiting())
    assert isinstance(reply, Rejected)
    assert reply.code == code


async def test_a_patch_is_repeated_until_it_is_answered() -> None:
    broken = said(ServerError, 500, "InternalError")
    client = Scripted(LOST, broken, b"{}")
    assert await teller().write(request_budget(client), waiting()) == Accepted()
    assert isinstance(
        await teller().write(request_budget(Scripted(broken, repeats=True)), waiting()),
        OutcomeUnknown,
    )


QUEUE = QueueStatusRequest(decision=7, name="a", uid="q1", allocated={"nvidia.com/gpu": "3"})
ALLOCATED = {"cpu": "0", "memory": "0", "nvidia.com/gpu": "3"}

READ, WRITE = "get queues", "patch queues/status"


def queue(allocated: dict[str, str] | None = None, uid: str = "q1") -> bytes:
    """A queue, as it is read."""
    status: dict[str, object] = {"state": "Open"}
    if allocated is not None:
        status["allocated"] = allocated
    metadata = {"name": "a", "uid": uid, "resourceVersion": "41"}
    return msgspec.json.encode({"metadata": metadata, "status": status})


async def test_what_is_allocated_holds_cpu_and_memory_and_not_what_was() -> None:
    client = Scripted(queue({"cpu": "4", "x/y": "1"}), b"{}")
    assert await update_queue_status(request_budget(client, namespace=""), QUEUE) == Accepted()
    assert client.whats == [READ, WRITE]
    asked = client.asked[1]
    assert (asked.namespace, asked.content_type) == ("", "application/merge-patch+json")
    assert asked.document == {
        "metadata": {"uid": "q1", "resourceVersion": "41"},
        "status": {"allocated": {**ALLOCATED, "x/y": None}},
    }


@pytest.mark.parametrize("found", [queue(), b'{"metadata":{"uid":"q1","resourceVersion":"41"}}'])
async def test_a_queue_without_status_gets_allocated(found: bytes) -> None:
    client = Scripted(found, b"{}")
    assert await update_queue_status(request_budget(client, namespace=""), QUEUE) == Accepted()
    assert client.asked[1].document["status"] == {"allocated": ALLOCATED}


async def test_a_queue_that_says_so_already_is_not_written() -> None:
    client = Scripted(queue(ALLOCATED))
    assert await update_queue_status(request_budget(client, namespace=""), QUEUE) == Accepted()
    assert client.whats == [READ]


async def test_status_of_a_recreated_queue_is_not_patched_k13_1() -> None:
    client = Scripted(queue(uid="q2"))
    reply = await update_queue_status(request_budget(client, namespace=""), QUEUE)
    assert isinstance(reply, Rejected)
    assert reply.code == "Conflict"
    assert client.whats == [READ]


async def test_a_nomination_from_before_a_restart_is_taken_back_where_the_request_says_so() -> None:
    client = Scripted(b"{}", repeats=True)
    request = msgspec.structs.replace(waiting(), clears_nomination=True)
    await teller().write(request_budget(client), request)
    assert client.asked[0].document["status"]["nominatedNodeName"] is None  # type: ignore[index]  # a dict
