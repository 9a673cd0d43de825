"""Evictions and disruption budgets (rule K9)."""

from events.normalize import Json, JsonObject
from simulator.api_server.api import Api
from simulator.api_server.disruption_controller import COUNT_NS
from simulator.manifest_fields import list_at, section
from tests.simulator.api_server.builders import (
    BUDGETS,
    MERGE,
    PODS,
    ask,
    bare,
    done,
    found,
    lines,
    posted,
    reason,
    refused,
    running,
    served,
    watch,
)

LABELS = {"app": "x"}
WORKLOAD = """
    cluster:
      - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "9", pods: "9"}}}
    """


def evict(name: str, **options: Json) -> JsonObject:
    document: JsonObject = {"kind": "Eviction", "metadata": {"name": name}}
    if options:
        document["deleteOptions"] = options
    return document


def budget(name: str = "b", **spec: Json) -> JsonObject:
    wanted = spec or {"minAvailable": 1}
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {**LABELS}}, **wanted},
    }


def guarded(api: Api, allowed: int) -> None:
    """Two running pods and a budget of which others say how much it allows."""
    for name in ("a", "b"):
        posted(api, name, labels=LABELS)
        running(api, name)
    done(ask(api, "POST", BUDGETS, budget()))
    status: JsonObject = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    done(ask(api, "PATCH", BUDGETS + "/b/status", {"status": status}, MERGE))


def test_an_evicted_pod_is_marked_and_terminates() -> None:
    """K9.1: success is 201; the pod gets condition `DisruptionTarget`. K9.6: termination began."""
    api = bare()
    guarded(api, 1)
    response = ask(api, "POST", PODS + "/a/eviction", evict("a", gracePeriodSeconds=7))
    assert response.status == 201
    pod = found(api, PODS + "/a")
    assert section(pod, "metadata")["deletionGracePeriodSeconds"] == 7
    types = [one["type"] for one in list_at(section(pod, "status"), "conditions")]
    assert "DisruptionTarget" in types
    assert section(found(api, BUDGETS + "/b"), "status")["disruptionsAllowed"] == 0


def test_a_budget_that_allows_nothing_is_a_429_with_a_cause() -> None:
    """K9.2: 429 whose cause is `DisruptionBudget` is not throttling."""
    api = bare()
    guarded(api, 0)
    status = refused(ask(api, "POST", PODS + "/a/eviction", evict("a")), 429)
    details = section(status, "details")
    (cause,) = list_at(details, "causes")
    assert cause["reason"] == "DisruptionBudget"
    assert "retryAfterSeconds" not in details
    assert "deletionTimestamp" not in section(found(api, PODS + "/a"), "metadata")


def test_an_unprocessed_disruption_budget_answers_with_retry_after() -> None:
    """K9.2: seconds in `details.retryAfterSeconds`. K20: still being processed."""
    api = bare()
    posted(api, "a", labels=LABELS)
    running(api, "a")
    done(ask(api, "POST", BUDGETS, budget()))
    response = ask(api, "POST", PODS + "/a/eviction", evict("a"))
    assert section(refused(response, 429), "details")["retryAfterSeconds"] == 10
    assert response.headers["Retry-After"] == "10"


def test_two_budgets_for_one_pod_are_a_500() -> None:
    """K9.2: 500 with a message about more than one PDB is misconfiguration."""
    api = bare()
    guarded(api, 1)
    done(ask(api, "POST", BUDGETS, budget("c")))
    status = refused(ask(api, "POST", PODS + "/a/eviction", evict("a")), 500)
    assert "more than one PodDisruptionBudget" in str(status["message"])


def test_pending_and_finished_pods_go_without_asking() -> None:
    """K9.3: pending, terminal and terminating pods are deleted without looking at PDBs."""
    api = bare()
    guarded(api, 0)
    posted(api, "c", labels=LABELS)
    assert ask(api, "POST", PODS + "/c/eviction", evict("c")).status == 201
    assert ask(api, "GET", PODS + "/c").status == 404
    done(ask(api, "PATCH", PODS + "/a/status", {"status": {"phase": "Succeeded"}}, MERGE))
    assert ask(api, "POST", PODS + "/a/eviction", evict("a")).status == 201
    assert ask(api, "GET", PODS + "/a").status == 404


def test_the_policy_decides_on_pods_that_are_not_ready() -> None:
    """K9.3: for running but unready pods `unhealthyPodEvictionPolicy` decides."""
    api = bare()
    guarded(api, 0)
    conditions: Json = [{"type": "Ready", "status": "False"}]
    done(ask(api, "PATCH", PODS + "/a/status", {"status": {"conditions": conditions}}, MERGE))
    done(ask(api, "PATCH", BUDGETS + "/b/status", {"status": {"desiredHealthy": 3}}, MERGE))
    assert ask(api, "POST", PODS + "/a/eviction", evict("a")).status == 429
    done(ask(api, "PATCH", BUDGETS + "/b/status", {"status": {"desiredHealthy": 2}}, MERGE))
    assert ask(api, "POST", PODS + "/a/eviction", evict("a", dryRun=["All"])).status == 201
    always: JsonObject = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    done(ask(api, "PATCH", BUDGETS + "/b", always, MERGE))
    assert ask(api, "POST", PODS + "/a/eviction", evict("a")).status == 201


def test_a_dry_run_changes_nothing() -> None:
    """K9.4: `dryRun=All` tests a PDB without effect."""
    api = bare()
    guarded(api, 1)
    before = api.versions.revision
    assert ask(api, "POST", PODS + "/a/eviction", evict("a", dryRun=["All"])).status == 201
    assert ask(api, "POST", PODS + "/a/eviction?dryRun=All", evict("a")).status == 201
    assert api.versions.revision == before


def test_another_uid_is_a_conflict_and_a_pod_that_is_gone_not_found() -> None:
    """K9.2: 409 other pod; 404 already gone."""
    api = bare()
    guarded(api, 1)
    wrong = evict("a", preconditions={"uid": "other"})
    assert reason(ask(api, "POST", PODS + "/a/eviction", wrong), 409) == "Conflict"
    assert reason(ask(api, "POST", PODS + "/x/eviction", evict("x")), 404) == "NotFound"
    assert ask(api, "POST", PODS + "/a/eviction", evict("b")).status == 400


def test_budgets_are_counted_when_the_controllers_run() -> None:
    """K9: allowed disruptions are the healthy pods beyond those that must stay."""
    api = served(WORKLOAD)
    for name in ("a", "b", "c"):
        posted(api, name, labels=LABELS)
        running(api, name)
    done(ask(api, "POST", BUDGETS, budget(minAvailable=2)))
    assert section(found(api, BUDGETS + "/b"), "status")["disruptionsAllowed"] == 1
    assert ask(api, "POST", PODS + "/a/eviction", evict("a")).status == 201
    assert ask(api, "GET", PODS + "/a").status == 404
    assert ask(api, "POST", PODS + "/b/eviction", evict("b")).status == 429


def test_disruptions_allowed_is_updated_without_an_eviction_request() -> None:
    """The disruption controller works by itself, and not in the requests of others."""
    api = served(WORKLOAD)
    done(ask(api, "POST", BUDGETS, budget()))
    api.advance(1_000_000_000)
    opened = watch(api, BUDGETS, resourceVersion=str(api.versions.revision))
    for name in ("a", "b"):
        posted(api, name, labels=LABELS)
        running(api, name)
    assert api.next_event_ns == 1_000_000_000 + COUNT_NS
    api.advance(1_000_000_000 + COUNT_NS)
    (line,) = lines(opened)
    shown = line["object"]
    assert isinstance(shown, dict)
    assert section(shown, "status")["disruptionsAllowed"] == 1


def test_a_share_of_what_the_owners_want_may_be_missing() -> None:
    api = served(WORKLOAD)
    replica_set: JsonObject = {
        "kind": "ReplicaSet",
        "metadata": {"name": "r"},
        "spec": {
            "replicas": 3,
            "template": {
                "metadata": {"labels": {**LABELS}},
                "spec": {"containers": [{"name": "c"}]},
            },
        },
    }
    done(ask(api, "POST", "/apis/apps/v1/namespaces/default/replicasets", replica_set))
    done(ask(api, "POST", BUDGETS, budget(maxUnavailable="34%")))
    for name in ("r-0", "r-1"):
        running(api, name)
    status = section(found(api, BUDGETS + "/b"), "status")
    assert (status["expectedPods"], status["desiredHealthy"]) == (3, 1)
    assert status["disruptionsAllowed"] == 1


def test_what_was_spent_in_vain_comes_back() -> None:
    api = served(WORKLOAD)
    for name in ("a", "b"):
        posted(api, name, labels=LABELS)
        running(api, name)
    done(ask(api, "POST", BUDGETS, budget()))
    wrong = evict("a", preconditions={"uid": "other"})
    assert ask(api, "POST", PODS + "/a/eviction", wrong).status == 409
    assert section(found(api, BUDGETS + "/b"), "status")["disruptionsAllowed"] == 0
    api.advance(121_000_000_000)
    assert section(found(api, BUDGETS + "/b"), "status")["disruptionsAllowed"] == 1
