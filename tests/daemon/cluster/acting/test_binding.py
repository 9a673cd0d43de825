"""Binding: each row of the table of rule K8, and what is never said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from daemon.cluster.acting.binding import bind
from daemon.cluster.acting.request_budget import EFFECT_SECONDS, REQUESTS_MAX
from daemon.cluster.client.errors import (
    ApiError,
    Cause,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RecoveringError,
    ServerError,
    ThrottledError,
    UnansweredError,
    UnauthorizedError,
    UnreachableError,
)
from events.errors import ClusterError
from events.messages import Accepted, BindRequest, OutcomeUnknown, Rejected, Reply
from projections.pods import WITHDRAWN
from tests.daemon.cluster.acting.scripted import STATUS, Scripted, Time, pod, request_budget, said

REQUEST = BindRequest(
    decision=7, namespace="default", name="a", uid="u1", node="n1", annotations={"x/y": "0,1"}
)
PLAIN = BindRequest(decision=7, namespace="default", name="a", uid="u1", node="n1")

BIND, READ = "create pods/binding", "get pods"

GONE = said(NotFoundError, 404, "NotFound", 'pods "a" not found')
CONFLICT = said(ConflictError, 409, "Conflict", "pod a is being deleted")
LOST = UnansweredError("create pods/binding: the connection was lost")
AWAY = UnreachableError("create pods/binding: connection refused")
BROKEN = said(ServerError, 500, "InternalError", "etcdserver: leader changed")
TIMED_OUT = said(ServerError, 504, "Timeout", "")
OVERLOADED = said(ServerError, 503, "ServiceUnavailable", "", retry_after_seconds=1.0)
THROTTLED = said(ThrottledError, 429, "TooManyRequests", "", retry_after_seconds=2.0)


async def test_a_binding_repeats_what_names_the_devices_and_is_not_judged_by_it() -> None:
    request = structs.replace(REQUEST, devices={"predicate-time": "1"})
    # The device plugin has changed it since.
    kept = b'{"metadata":{"uid":"u1","annotations":{"x/y":"0,1","predicate-time":"9"}},'
    client = Scripted(pod(resourceVersion="4"), LOST, kept + b'"spec":{"nodeName":"n1"}}')
    assert await bind(request_budget(client), request) == Accepted()
    metadata = client.asked[1].document["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["annotations"] == {"x/y": "0,1", "predicate-time": "1"}


DEVICES = structs.replace(PLAIN, devices={"predicate-time": "1"})
MODIFIED = said(ConflictError, 409, "Conflict", "the object has been modified")
FORBIDDEN = said(ForbiddenError, 403, "Forbidden", "no")
REFUSED = Rejected(code="Forbidden", message="no")


async def test_a_pod_with_devices_is_bound_in_the_version_that_was_read() -> None:
    client = Scripted(
        pod(resourceVersion="4"), MODIFIED, pod(resourceVersion="5"), b'{"status":"Success"}'
    )
    assert await bind(request_budget(client), DEVICES) == Accepted()
    assert client.whats == [READ, BIND, READ, BIND]
    sent = [client.asked[index].document["metadata"] for index in (1, 3)]
    assert all(isinstance(one, dict) for one in sent)
    assert [one["resourceVersion"] for one in sent if isinstance(one, dict)] == ["4", "5"]


async def test_a_refusal_after_a_lost_answer_changes_the_version_of_a_pod_with_devices() -> None:
    """The request without an answer may arrive later: it must not bind the pod then."""
    four, five = pod(resourceVersion="4"), pod(resourceVersion="5")
    client = Scripted(four, LOST, four, FORBIDDEN, four, four, MODIFIED, five, b"{}")
    assert await bind(request_budget(client), DEVICES) == REFUSED
    assert client.whats[-2:] == [READ, "patch pods"]
    withdrawn = {"uid": "u1", "resourceVersion": "5", "annotations": {WITHDRAWN: "7"}}
    assert client.asked[-1].document == {"metadata": withdrawn}


async def test_a_refusal_by_the_first_answer_is_final_also_with_devices() -> None:
    client = Scripted(pod(resourceVersion="4"), FORBIDDEN)
    assert await bind(request_budget(client), DEVICES) == REFUSED


@pytest.mark.parametrize(
    ("found", "reply"),
    [
        (pod(node="n1"), Accepted()),
        (pod(node="n2"), Rejected(code="Conflict", message="already assigned to node n2")),
        (pod(annotations={WITHDRAWN: "7"}), REFUSED),
        (said(NotFoundError, 404, "NotFound", "gone"), Rejected("NotFound", "gone")),
        (FORBIDDEN, OutcomeUnknown(message="the pod cannot be written: no")),
    ],
    ids=["bound after all", "bound elsewhere", "withdrawn already", "gone", "cannot be read"],
)
async def test_what_a_pod_shows_that_is_to_be_withdrawn(
    found: bytes | ClusterError, reply: Reply
) -> None:
    client = Scripted(pod(), FORBIDDEN, pod(), found)
    request = structs.replace(DEVICES, is_in_doubt=True)
    assert await bind(request_budget(client), request) == reply


async def test_a_binding_carries_uid_and_annotations_and_its_answer_is_not_read_k8_1_k8_4() -> None:
    client = Scripted(b'{"kind":"Status","status":"Success"}')
    assert await bind(request_budget(client), REQUEST) == Accepted()
    asked = client.asked[0]
    assert (asked.what, asked.name, asked.namespace) == (BIND, "a", "default")
    assert asked.document == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u1",
            "annotations": {"x/y": "0,1"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def test_without_annotations_none_are_sent() -> None:
    client = Scripted(STATUS)
    assert await bind(request_budget(client), PLAIN) == Accepted()
    metadata = client.asked[0].document["metadata"]
    assert metadata == {"name": "a", "namespace": "default", "uid": "u1"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (said(InvalidError, 400, "BadRequest", "name in URL does not match"), "Invalid"),
        (said(InvalidError, 422, "Invalid", "target.name: Required value"), "Invalid"),
        (said(ForbiddenError, 403, "Forbidden", "cannot create pods/binding"), "Forbidden"),
        (
            said(ForbiddenError, 403, "Forbidden", "", Cause(reason="NamespaceTerminating")),
            "NamespaceTerminating",
        ),
        (GONE, "NotFound"),
    ],
)
async def test_what_is_refused_for_good_is_asked_once_k8(error: ApiError, code: str) -> None:
    client = Scripted(error)
    reply = await bind(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == code
    assert client.whats == [BIND]


async def test_after_409_a_pod_on_our_node_with_our_annotations_is_bound_k8() -> None:
    client = Scripted(CONFLICT, pod(node="n1", annotations={"x/y": "0,1", "other": "1"}))
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, READ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (pod(node="n2"), "already assigned to node n2"),
        (pod(node="n1"), "with other values of x/y"),
        (pod(node="n1", annotations={"x/y": "2,3"}), "with other values of x/y"),
        (pod(uid="u2", node="n1", annotations={"x/y": "0,1"}), "created again"),
        (pod(), "pod a is being deleted"),
    ],
)
async def test_after_409_any_other_pod_is_a_conflict_k8(found: bytes, text: str) -> None:
    reply = await bind(request_budget(Scripted(CONFLICT, found)), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == "Conflict"
    assert text in reply.message


@pytest.mark.parametrize("error", [BROKEN, TIMED_OUT, LOST])
async def test_an_unknown_outcome_is_read_back_k8(error: ClusterError) -> None:
    client = Scripted(error, pod(node="n1", annotations={"x/y": "0,1"}))
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, READ]


async def test_a_pod_that_is_still_unbound_after_an_unknown_outcome_is_bound_again_k8() -> None:
    client = Scripted(LOST, pod(), STATUS)
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, READ, BIND]


async def test_a_pod_that_is_gone_after_an_unknown_outcome_is_refused() -> None:
    reply = await bind(request_budget(Scripted(LOST, GONE)), REQUEST)
    assert reply == Rejected(code="NotFound", message='pods "a" not found')


async def test_what_was_asked_in_doubt_is_read_back_before_a_refusal_is_believed() -> None:
    forbidden = said(ForbiddenError, 403, "Forbidden", "no")
    client = Scripted(OVERLOADED, forbidden, pod(node="n1", annotations={"x/y": "0,1"}))
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, BIND, READ]


async def test_a_pod_that_may_not_be_read_leaves_the_outcome_unknown() -> None:
    reply = await bind(
        request_budget(Scripted(LOST, said(ForbiddenError, 403, "Forbidden"))), REQUEST
    )
    assert isinstance(reply, OutcomeUnknown)


@pytest.mark.parametrize("found", [b"", b"{", b'{"kind":"Status"}', b"\xff"])
async def test_an_answer_that_is_no_pod_is_no_answer(found: bytes) -> None:
    client = Scripted(LOST, found, pod(node="n1", annotations={"x/y": "0,1"}))
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, READ, READ]
    client = Scripted(LOST, found, repeats=True)
    assert isinstance(await bind(request_budget(client), REQUEST), OutcomeUnknown)
    assert len(client.asked) <= REQUESTS_MAX


@pytest.mark.parametrize("error", [THROTTLED, OVERLOADED])
async def test_an_overloaded_server_is_given_the_time_it_asks_for_k8(error: ApiError) -> None:
    client, time = Scripted(error, STATUS), Time()
    assert await bind(request_budget(client, time), REQUEST) == Accepted()
    assert client.whats == [BIND, BIND]
    assert error.retry_after_seconds is not None
    assert time.slept[0] >= error.retry_after_seconds


async def test_a_server_that_stays_overloaded_leaves_the_outcome_unknown_in_time_k8() -> None:
    client, time = Scripted(THROTTLED, repeats=True), Time()
    assert isinstance(await bind(request_budget(client, time), REQUEST), OutcomeUnknown)
    assert sum(time.slept) <= EFFECT_SECONDS
    assert len(client.asked) <= REQUESTS_MAX


async def test_a_server_that_asks_for_more_time_than_there_is_is_left_alone_for_what_there_is() -> (
    None
):
    patient = said(ThrottledError, 429, "", "", retry_after_seconds=120.0)
    client, time = Scripted(patient), Time()
    assert isinstance(await bind(request_budget(client, time), REQUEST), OutcomeUnknown)
    assert sum(time.slept) == EFFECT_SECONDS


async def test_a_server_that_is_not_there_is_tried_again_and_nothing_is_read() -> None:
    client, time = Scripted(AWAY, AWAY, STATUS), Time()
    assert await bind(request_budget(client, time), REQUEST) == Accepted()
    assert client.whats == [BIND, BIND, BIND]
    assert 0 < time.slept[0] < time.slept[1]


@pytest.mark.parametrize(
    "error",
    [said(UnauthorizedError, 401, "Unauthorized"), said(NotFoundError, 404, "", "no such page")],
)
async def test_neither_old_credentials_nor_a_page_that_is_missing_loses_a_decision(
    error: ApiError,
) -> None:
    assert isinstance(
        await bind(request_budget(Scripted(error, repeats=True)), REQUEST), OutcomeUnknown
    )


async def test_each_request_has_a_deadline_within_that_of_the_effect_k12_4() -> None:
    client, time = Scripted(THROTTLED, repeats=True), Time()
    start = time.now
    await bind(request_budget(client, time), REQUEST)
    assert all(1.0 <= one.deadline_seconds <= 10.0 for one in client.asked)
    assert time.now - start <= EFFECT_SECONDS


RAISED: dict[str, ClusterError] = {
    "lost before": LOST,
    "lost after": LOST,
    "broken before": BROKEN,
    "broken after": BROKEN,
    "overloaded after": OVERLOADED,
    "throttled": THROTTLED,
    "away": AWAY,
    "forbidden": said(ForbiddenError, 403, "Forbidden"),
    "invalid": said(InvalidError, 422, "Invalid"),
}
FAULTS = ["", *RAISED, "deleted", "made anew", "taken", "garbage"]


class Server:
    """A pod, and a server that fails as told: before or after it has done what was asked."""

    def __init__(self, faults: list[str]) -> None:
        self._faults = faults
        self.uid, self.node, self.is_there = "u1", "", True
        self.annotations: dict[str, str] = {}
        self.requests = 0

    def answer(self, is_bind: bool) -> bytes:
        self.requests += 1
        fault = self._faults.pop(0) if self._faults else ""
        if fault.endswith("after"):
            self._serve(is_bind)
        if fault in RAISED:
            raise RAISED[fault]
        match fault:
            case "deleted":
                self.is_there = False
            case "made anew":
                self.uid, self.node, self.annotations = "u2", "", {}
            case "taken":
                self.node = self.node or "n2"
            case _:
                pass
        answer = self._serve(is_bind)
        return b"<html>" if fault == "garbage" and not is_bind else answer

    def _serve(self, is_bind: bool) -> bytes:
        if not self.is_there:
            raise GONE
        if not is_bind:
            return pod(self.uid, self.node, annotations=self.annotations)
        if self.uid != "u1" or self.node:
            raise CONFLICT
        self.node, self.annotations = "n1", dict(REQUEST.annotations)
        return STATUS

    @property
    def has_our_pod(self) -> bool:
        return self.is_there and (self.uid, self.node) == ("u1", "n1")


class Faulty(Scripted):
    """The client of a server that fails."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    async def request(self, call, **_):  # type: ignore[no-untyped-def]  # only what is used
        return self._server.answer(call.what == BIND)


@given(st.lists(st.sampled_from(FAULTS), max_size=2 * REQUESTS_MAX), st.floats(0, 0.999))
async def test_bind_reports_only_what_the_server_did(faults: list[str], jitter: float) -> None:
    """Done only of a pod that is bound there; Refused never of one; so many requests and no more."""
    server, time = Server(faults), Time()
    reply = await bind(request_budget(Faulty(server), time), REQUEST)
    if isinstance(reply, Accepted):
        assert server.has_our_pod
    if isinstance(reply, Rejected):
        assert not server.has_our_pod
    assert server.requests <= REQUESTS_MAX
    assert sum(time.slept) <= EFFECT_SECONDS


async def test_what_may_have_been_done_before_is_read_before_a_refusal_is_believed() -> None:
    """By an earlier try whose answer was lost, or by the daemon before this one."""
    again = structs.replace(REQUEST, is_in_doubt=True)
    forbidden = said(ForbiddenError, 403, "Forbidden", "no")
    client = Scripted(forbidden, pod(node="n1", annotations={"x/y": "0,1"}))
    assert await bind(request_budget(client), again) == Accepted()
    assert client.whats == [BIND, READ]


async def test_a_server_that_has_just_come_back_is_asked_again() -> None:
    starting = said(RecoveringError, 403, "Forbidden", "no")
    bound = pod(node="n1", annotations={"x/y": "0,1"})
    client = Scripted(starting, LOST, starting, pod(), CONFLICT, starting, bound)
    assert await bind(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [BIND, BIND, READ, READ, BIND, READ, READ]
