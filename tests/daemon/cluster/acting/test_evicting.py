"""Eviction (rule K9), and the budget of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from daemon.cluster.acting.evicting import MINUTE_NS, EvictionBudget, delete, evict
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

SECOND_NS = 1_000_000_000

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


@pytest.mark.parametrize(("is_forced", "grace"), [(False, {}), (True, {"gracePeriodSeconds": 0})])
async def test_a_deletion_without_budgets_names_the_uid_and_keeps_the_grace_period_unless_forced(
    is_forced: bool, grace: dict[str, int]
) -> None:
    client = Scripted(STATUS)
    request = replace(REQUEST, is_forced=is_forced, is_without_budgets=not is_forced)
    assert await delete(request_budget(client), request) == Accepted()
    assert client.whats == ["delete pods"]
    assert client.asked[0].document == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        **grace,
    }


async def test_a_deletion_without_budgets_of_a_pod_that_is_gone_or_another_is_done() -> None:
    request = replace(REQUEST, is_without_budgets=True)
    assert await delete(request_budget(Scripted(GONE)), request) == Accepted()
    assert await delete(request_budget(Scripted(CONFLICT)), request) == Accepted()


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


def eviction(
    uid: str, workload: str = "", *, tenant: str = "a", queue: str = "q", is_shared: bool = True
) -> EvictRequest:
    """An eviction for a tenant; others have pod groups, too, unless it is not shared."""
    return EvictRequest(
        decision=1,
        namespace="ns",
        name=uid,
        uid=uid,
        node="n1",
        workload=workload,
        tenant=tenant,
        queue=queue,
        has_other_tenants=is_shared,
    )


def alone(uid: str, workload: str = "") -> EvictRequest:
    """An eviction in a cluster of one tenant."""
    return eviction(uid, workload, is_shared=False)


def test_the_cluster_and_each_workload_have_a_budget_of_evictions_k9_8() -> None:
    budget = EvictionBudget(cluster_per_minute=3, workload_per_minute=2)
    assert budget.take(alone("u1", "Job/a"), 0) is None
    assert budget.take(alone("u2", "Job/a"), 0) is None
    over = budget.take(alone("u3", "Job/a"), 0)
    assert over == Rejected(
        "EvictionBudget", "the limit of 2 evictions a minute of Job/a is reached"
    )
    assert budget.take(alone("u4", "Job/b"), 0) is None
    over = budget.take(alone("u5", "Job/c"), MINUTE_NS - 1)
    assert over == Rejected(
        "EvictionShare", "the limit of 3 evictions a minute in the cluster is reached"
    )
    assert budget.take(alone("u5", "Job/c"), MINUTE_NS) is None


def test_one_eviction_counts_once_however_often_it_is_tried_k9_8() -> None:
    budget = EvictionBudget(cluster_per_minute=1, workload_per_minute=1)
    assert budget.take(alone("u1", "Job/a"), 0) is None
    assert budget.take(alone("u1", "Job/a"), 1) is None
    assert budget.take(alone("u2", "Job/b"), 2) is not None
    budget.give_back("u1")
    assert budget.take(alone("u2", "Job/b"), 3) is None


def test_pods_without_an_owner_count_as_one_workload_of_their_namespace() -> None:
    budget = EvictionBudget(cluster_per_minute=9, workload_per_minute=1)
    assert budget.take(alone("u1"), 0) is None
    over = budget.take(alone("u2"), 0)
    assert over is not None
    assert "pods without an owner in namespace ns" in over.message
    assert budget.take(structs.replace(alone("u2"), namespace="other"), 0) is None


def burst(budget: EvictionBudget, now_ns: int, tenant: str, queue: str = "q") -> int:
    """Return how many evictions a tenant gets that asks for as many as it can."""
    for count in range(1000):
        one = eviction(f"{tenant}-{queue}-{now_ns}-{count}", f"{count}", tenant=tenant, queue=queue)
        over = budget.take(one, now_ns)
        if over is not None:
            assert over.code == "EvictionShare"
            return count
    raise AssertionError("no limit")


def test_a_tenant_borrows_what_others_do_not_use_and_leaves_some_for_each_newcomer() -> None:
    budget = EvictionBudget(cluster_per_minute=120, workload_per_minute=120)
    assert burst(budget, 0, "greedy") == 90
    assert burst(budget, 1, "second") == 23
    assert burst(budget, 2, "third") == 6
    assert burst(budget, 3, "fourth") == 1
    # A minute later all ask again and again: none has the share of the others.
    counts = dict.fromkeys(("greedy", "second", "third", "fourth"), 0)
    for second in range(60, 660):
        for tenant in counts:
            counts[tenant] += burst(budget, second * SECOND_NS, tenant)
    assert min(counts.values()) * 4 > 3 * max(counts.values())


def test_a_queue_leaves_some_of_the_share_of_its_tenant_for_the_others() -> None:
    budget = EvictionBudget(cluster_per_minute=120, workload_per_minute=120)
    of_queue = [
        budget.take(
            structs.replace(eviction(f"u{index}", f"{index}"), has_other_queues=True), index
        )
        for index in range(120)
    ]
    assert of_queue.count(None) == 68
    assert burst(budget, 200, "a", "other") == 22
    assert burst(budget, 201, "b") == 23


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from("abc"),
            st.sampled_from("xyz"),
            st.booleans(),
            st.integers(0, 30_000_000_000),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_no_minute_ever_sees_more_evictions_than_allowed_k9_8(
    tries: list[tuple[int, str, str, bool, int]], cluster: int, workload: int
) -> None:
    budget = EvictionBudget(cluster, workload)
    taken: dict[int, tuple[int, str]] = {}
    now = 0
    for pod_number, of_workload, tenant, is_shared, later in tries:
        now += later
        recent = {uid: one for uid, one in taken.items() if one[0] > now - MINUTE_NS}
        one = eviction(str(pod_number), of_workload, tenant=tenant, is_shared=is_shared)
        if budget.take(one, now) is None and pod_number not in recent:
            recent[pod_number] = taken[pod_number] = (now, of_workload)
        assert len(recent) <= cluster
        assert all(sum(other == name for _, other in recent.values()) <= workload for name in "abc")
