"""Eviction (rule K9), and the budget of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cluster.acting.evicting import MINUTE_NS, EvictionBudget, evict
from daemon.cluster.acting.request_budget import REQUESTS_MAX
from daemon.cluster.client.errors import (
    ApiError,
    BudgetError,
    Cause,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    ThrottledError,
    UnansweredError,
)
from events.errors import ClusterError
from events.messages import Accepted, EvictRequest, OutcomeUnknown, Rejected
from tests.daemon.cluster.acting.scripted import (
    STATUS,
    Answer,
    Scripted,
    Time,
    pod,
    request_budget,
    said,
)

REQUEST = EvictRequest(decision=7, namespace="default", name="a", uid="u1", node="n1")

EVICT, READ = "create pods/eviction", "get pods"

GONE = said(NotFoundError, 404, "NotFound", 'pods "a" not found')
CONFLICT = said(ConflictError, 409, "Conflict", "the UID in the precondition does not match")
LOST = UnansweredError("create pods/eviction: the connection was lost")
BROKEN = said(ServerError, 500, "InternalError", "etcdserver: leader changed")
TOO_MANY = said(
    ServerError,
    500,
    "",
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
)


async def test_an_eviction_names_the_pod_by_uid_and_any_2xx_is_success_k9_1() -> None:
    client = Scripted(STATUS)
    assert await evict(request_budget(client), REQUEST) == Accepted()
    asked = client.asked[0]
    assert (asked.what, asked.name, asked.namespace, asked.query) == (EVICT, "a", "default", {})
    assert asked.document == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }


async def test_a_grace_period_is_passed_on_also_one_of_nothing_k9_1() -> None:
    client = Scripted(STATUS)
    request = EvictRequest(
        decision=7, namespace="default", name="a", uid="u1", node="n1", grace_seconds=0
    )
    await evict(request_budget(client), request)
    assert client.asked[0].document["deleteOptions"] == {
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, " after 0 s"), (10.0, " after 10 s"), (None, "")]
)
async def test_a_disruption_budget_says_no_and_is_not_asked_again_at_once_k9_2(
    seconds: float | None, told: str
) -> None:
    cause = Cause(reason="DisruptionBudget", message="needs 1 healthy pods and has 1")
    error = said(BudgetError, 429, "TooManyRequests", "no", cause, retry_after_seconds=seconds)
    client = Scripted(error)
    reply = await evict(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == "DisruptionBudget"
    assert "needs 1 healthy pods" in reply.message
    assert told in reply.message
    assert client.whats == [EVICT]


async def test_throttling_is_waited_for_k9_2() -> None:
    client, time = Scripted(said(ThrottledError, 429, "", retry_after_seconds=3.0), STATUS), Time()
    assert await evict(request_budget(client, time), REQUEST) == Accepted()
    assert client.whats == [EVICT, EVICT]
    assert time.slept[0] >= 3.0


async def test_more_than_one_budget_is_reported_and_not_tried_again_k9_2() -> None:
    client = Scripted(TOO_MANY)
    assert await evict(request_budget(client), REQUEST) == Rejected(
        "TooManyBudgets", TOO_MANY.message
    )
    assert client.whats == [EVICT]


async def test_a_pod_that_is_gone_is_evicted_k9_2() -> None:
    assert await evict(request_budget(Scripted(GONE)), REQUEST) == Accepted()


@pytest.mark.parametrize(
    "found", [GONE, pod(uid="u2"), pod(deletionTimestamp="2026-11-21T08:00:00Z")]
)
async def test_after_409_a_pod_that_is_gone_another_or_ending_is_evicted_k9_2(
    found: bytes | ClusterError,
) -> None:
    client = Scripted(CONFLICT, found)
    assert await evict(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [EVICT, READ]


async def test_after_409_the_same_pod_is_tried_again_and_then_refused_k9_2() -> None:
    client = Scripted(CONFLICT, pod(), STATUS)
    assert await evict(request_budget(client), REQUEST) == Accepted()
    answers: list[Answer] = [CONFLICT, pod()]
    client = Scripted(*answers * REQUESTS_MAX)
    reply = await evict(request_budget(client), REQUEST)
    assert reply == Rejected(code="Conflict", message=CONFLICT.message)
    assert len(client.asked) <= REQUESTS_MAX


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (said(ForbiddenError, 403, "Forbidden", "cannot create pods/eviction"), "Forbidden"),
        (
            said(ForbiddenError, 403, "Forbidden", "", Cause(reason="NamespaceTerminating")),
            "NamespaceTerminating",
        ),
        (said(InvalidError, 422, "Invalid", ""), "Invalid"),
    ],
)
async def test_what_may_not_be_evicted_is_refused_k9_2(error: ApiError, code: str) -> None:
    client = Scripted(error)
    reply = await evict(request_budget(client), REQUEST)
    assert isinstance(reply, Rejected)
    assert reply.code == code
    assert client.whats == [EVICT]


@pytest.mark.parametrize("error", [LOST, BROKEN])
async def test_an_eviction_whose_outcome_is_unknown_is_read_back(error: ClusterError) -> None:
    ending = pod(deletionTimestamp="2026-11-21T08:00:00Z")
    client = Scripted(error, ending)
    assert await evict(request_budget(client), REQUEST) == Accepted()
    client = Scripted(error, pod(), STATUS)
    assert await evict(request_budget(client), REQUEST) == Accepted()
    assert client.whats == [EVICT, READ, EVICT]


async def test_a_server_that_stays_broken_leaves_the_outcome_unknown_in_time() -> None:
    client = Scripted(BROKEN, repeats=True)
    assert isinstance(await evict(request_budget(client), REQUEST), OutcomeUnknown)
    assert len(client.asked) <= REQUESTS_MAX


async def test_a_pod_that_may_not_be_read_leaves_the_eviction_unknown() -> None:
    forbidden = said(ForbiddenError, 403, "Forbidden")
    assert isinstance(
        await evict(request_budget(Scripted(LOST, forbidden)), REQUEST), OutcomeUnknown
    )
    garbage = Scripted(LOST, b"{", repeats=True)
    assert isinstance(await evict(request_budget(garbage), REQUEST), OutcomeUnknown)
    assert len(garbage.asked) <= REQUESTS_MAX


def test_the_cluster_and_each_workload_have_a_budget_of_evictions_k9_8() -> None:
    budget = EvictionBudget(cluster_per_minute=3, workload_per_minute=2)
    assert budget.take("u1", "Job/a", 0) is None
    assert budget.take("u2", "Job/a", 0) is None
    over = budget.take("u3", "Job/a", 0)
    assert over == Rejected(
        "EvictionBudget", "the limit of 2 evictions a minute of Job/a is reached"
    )
    assert budget.take("u4", "Job/b", 0) is None
    over = budget.take("u5", "Job/c", MINUTE_NS - 1)
    assert over == Rejected(
        "EvictionBudget", "the limit of 3 evictions a minute in the cluster is reached"
    )
    assert budget.take("u5", "Job/c", MINUTE_NS) is None


def test_one_eviction_counts_once_however_often_it_is_tried_k9_8() -> None:
    budget = EvictionBudget(cluster_per_minute=1, workload_per_minute=1)
    assert budget.take("u1", "Job/a", 0) is None
    assert budget.take("u1", "Job/a", 1) is None
    assert budget.take("u2", "Job/b", 2) is not None
    budget.give_back("u1")
    assert budget.take("u2", "Job/b", 3) is None


def test_pods_of_no_known_workload_share_only_the_clusters_budget_k9_8() -> None:
    budget = EvictionBudget(cluster_per_minute=2, workload_per_minute=1)
    assert budget.take("u1", "", 0) is None
    assert budget.take("u2", "", 0) is None
    assert budget.take("u3", "", 0) is not None


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.integers(0, 30_000_000_000)),
        max_size=60,
    ),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_no_minute_ever_sees_more_evictions_than_allowed_k9_8(
    tries: list[tuple[int, str, int]], cluster: int, workload: int
) -> None:
    budget = EvictionBudget(cluster, workload)
    taken: dict[int, tuple[int, str]] = {}
    now = 0
    for pod_number, of_workload, later in tries:
        now += later
        recent = {uid: one for uid, one in taken.items() if one[0] > now - MINUTE_NS}
        if budget.take(str(pod_number), of_workload, now) is None and pod_number not in recent:
            recent[pod_number] = taken[pod_number] = (now, of_workload)
        assert len(recent) <= cluster
        assert all(sum(other == name for _, other in recent.values()) <= workload for name in "abc")
