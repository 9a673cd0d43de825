"""Rule K9: every reply to an eviction."""

from projections.kinds.disruption_budget import BUDGETS
from tests.contract.served import Served
from tests.control_plane.api import Answer, Object
from tests.control_plane.manifests import budget, eviction

LABELS = {"app": "guarded"}


async def post(server: Served, pod: Object, body: Object, **query: str) -> Answer:
    """Ask for an eviction."""
    return await server.api.post(server.path(pod, "eviction"), body, **query)


async def guarded(server: Served, *, pods: int, least: int) -> list[Object]:
    """Pods that run under a budget which has been reckoned."""
    node = await server.node()
    made = [await server.run(f"pod-{n}", node["metadata"]["name"], LABELS) for n in range(pods)]
    await guard(server, "budget", pods=pods, least=least)
    return made


async def guard(server: Served, name: str, *, pods: int, least: int) -> None:
    """A budget that has been reckoned."""
    await server.api.create(BUDGETS, budget(server.namespace, name, LABELS, least))
    path = BUDGETS.object_path(name, server.namespace)

    def is_reckoned(found: Object) -> bool:
        status = found.get("status") or {}
        is_current = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_current and bool(status.get("currentHealthy") == pods)

    reckoned = await server.until(path, is_reckoned)
    assert reckoned["status"]["disruptionsAllowed"] == max(0, pods - least)
    assert reckoned["status"]["desiredHealthy"] == least
    assert reckoned["status"]["expectedPods"] == pods


async def test_an_evicted_pod_begins_to_leave_with_its_grace(server: Served) -> None:
    """Rules K9.1 and K9.6"""
    node = await server.node()
    pod = await server.run("pod", node["metadata"]["name"])
    answer = await post(server, pod, eviction(pod))
    status = answer.expect(200, 201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    leaving = await server.read(pod)
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    assert leaving["metadata"]["deletionTimestamp"]
    assert (leaving["spec"]["nodeName"], leaving["status"]["phase"]) == (
        node["metadata"]["name"],
        "Running",
    )
    conditions = {one["type"]: one for one in leaving["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"


async def test_grace_can_be_asked_for(server: Served) -> None:
    """Rule K9.1"""
    node = await server.node()
    pod = await server.run("pod", node["metadata"]["name"])
    (await post(server, pod, eviction(pod, gracePeriodSeconds=7))).expect(200, 201)
    assert (await server.read(pod))["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_a_pod_without_a_node_is_gone_at_once(server: Served) -> None:
    """Rule K9.3: pending pods are deleted whatever the budget says."""
    await guarded(server, pods=1, least=1)
    pod = await server.pod("waiting", LABELS)
    (await post(server, pod, eviction(pod))).expect(200, 201)
    assert (await server.api.get(server.path(pod))).status == 404


async def test_a_budget_allows_so_many_and_then_no_more(server: Served) -> None:
    """Rule K9.2: 429 with cause DisruptionBudget."""
    first, second, _ = await guarded(server, pods=3, least=2)
    (await post(server, first, eviction(first))).expect(200, 201)
    answer = await post(server, second, eviction(second))
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.causes == ["DisruptionBudget"]
    assert "deletionTimestamp" not in (await server.read(second))["metadata"]


async def test_a_dry_run_tells_what_a_budget_would_say_and_changes_nothing(server: Served) -> None:
    """Rule K9.4"""
    first, second = await guarded(server, pods=2, least=1)
    for _ in range(2):
        (await post(server, first, eviction(first), dryRun="All")).expect(200, 201)
    assert "deletionTimestamp" not in (await server.read(first))["metadata"]
    (await post(server, first, eviction(first))).expect(200, 201)
    answer = await post(server, second, eviction(second), dryRun="All")
    assert (answer.status, answer.causes) == (429, ["DisruptionBudget"])


async def test_two_budgets_over_one_pod_are_an_error_of_the_server(server: Served) -> None:
    """Rule K9.2: a misconfiguration, which no repetition mends."""
    (pod,) = await guarded(server, pods=1, least=0)
    await guard(server, "other", pods=1, least=0)
    answer = await post(server, pod, eviction(pod))
    assert answer.status == 500
    assert "deletionTimestamp" not in (await server.read(pod))["metadata"]


async def test_an_eviction_of_a_pod_that_is_gone_is_not_found(server: Served) -> None:
    """Rule K9.2, 404"""
    pod = await server.pod()
    (await server.api.delete(server.path(pod), {"gracePeriodSeconds": 0})).expect(200)
    answer = await post(server, pod, eviction(pod))
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_an_eviction_of_another_uid_is_a_conflict(server: Served) -> None:
    """Rule K9.2, 409"""
    node = await server.node()
    pod = await server.run("pod", node["metadata"]["name"])
    other = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}
    answer = await post(server, pod, eviction(pod, **other))
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "deletionTimestamp" not in (await server.read(pod))["metadata"]


async def test_a_pod_that_is_leaving_may_be_evicted_again(server: Served) -> None:
    """Rule K9.3: without another look at the budget."""
    (pod,) = await guarded(server, pods=1, least=0)
    (await post(server, pod, eviction(pod))).expect(200, 201)
    (await post(server, pod, eviction(pod))).expect(200, 201)


async def test_a_deletion_does_not_look_at_budgets(server: Served) -> None:
    """Rule K9.5"""
    (pod,) = await guarded(server, pods=1, least=1)
    (await server.api.delete(server.path(pod))).expect(200)
    assert (await server.read(pod))["metadata"]["deletionGracePeriodSeconds"] == 30
