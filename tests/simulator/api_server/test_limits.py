"""Leases, Events, namespaces, access, discovery: what else clients run into."""

import msgspec
import pytest

from events.normalize import Json, JsonObject
from simulator.api_server.access_control import Rule, User
from simulator.api_server.api import Api
from simulator.api_server.http_message import Request, Response
from simulator.manifest_fields import list_at, section
from tests.simulator.api_server.builders import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MERGE,
    PODS,
    QUEUES,
    ask,
    bare,
    done,
    found,
    names,
    pod,
    posted,
    reason,
    refused,
    revision,
    served,
)

AT = "2026-01-01T00:00:00.000000Z"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def lease(**spec: Json) -> JsonObject:
    return {
        "kind": "Lease",
        "metadata": {"name": "m"},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": AT, **spec},
    }


def event(**changes: Json) -> JsonObject:
    document: JsonObject = {
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": AT,
        "reportingController": "muster.sh/muster",
        "reportingInstance": "m-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "n",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
        **changes,
    }
    return {key: value for key, value in document.items() if value is not None}


def test_a_lease_is_replaced_only_at_the_revision_that_was_read() -> None:
    """K14.3: update by PUT with the RV just read; 409 = lost the race."""
    api = bare()
    made = done(ask(api, "POST", LEASES, lease()))
    mine, theirs = lease(holderIdentity="me"), lease(holderIdentity="them")
    for one in (mine, theirs):
        one["metadata"] = {"name": "m", "resourceVersion": revision(made)}
    done(ask(api, "PUT", LEASES + "/m", mine))
    assert reason(ask(api, "PUT", LEASES + "/m", theirs), 409) == "Conflict"
    assert reason(ask(api, "PUT", LEASES + "/m", lease()), 422) == "Invalid"
    assert section(found(api, LEASES + "/m"), "spec")["holderIdentity"] == "me"


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"renewTime": "2026-01-01T00:00:00Z"}, 400),
        ({"acquireTime": "2026-01-01T00:00:00.123Z"}, 400),
        ({"leaseDurationSeconds": 0}, 422),
        ({"leaseTransitions": -1}, 422),
        ({"holderIdentity": "", "leaseDurationSeconds": 1}, 201),
    ],
)
def test_a_lease_has_times_with_six_digits_and_a_duration(spec: JsonObject, status: int) -> None:
    """K14.1: exactly six fractional digits. K14.5: released with an empty holder for one second."""
    assert ask(bare(), "POST", LEASES, lease(**spec)).status == status


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 201),
        ({"eventTime": "2026-01-01T00:00:00Z"}, 400),
        ({"eventTime": None}, 422),
        ({"action": None}, 422),
        ({"reason": "r" * 129}, 422),
        ({"reportingInstance": "r" * 129}, 422),
        ({"reportingController": "bad name"}, 422),
        ({"type": "Loud"}, 422),
        ({"note": "n" * 1024}, 201),
        ({"note": "ä" * 513}, 422),
        ({"regarding": {"kind": "Pod", "namespace": "other", "name": "a"}}, 422),
        ({"regarding": {"kind": "Node", "name": "n1"}}, 201),
    ],
)
def test_an_event_keeps_within_limits(changes: JsonObject, status: int) -> None:
    """K11.1: required fields, six digits, texts of 128 characters, a note of 1 024 bytes."""
    assert ask(bare(), "POST", EVENTS, event(**changes)).status == status


def test_an_event_becomes_a_series_and_nothing_else_of_it_changes() -> None:
    """K11.2: patch `series.count` (2 or more) and `series.lastObservedTime`; 404 once it is gone."""
    api = bare()
    done(ask(api, "POST", EVENTS, event()))
    series: JsonObject = {"series": {"count": 2, "lastObservedTime": AT}}
    done(ask(api, "PATCH", EVENTS + "/e", series, MERGE))
    once: JsonObject = {"series": {"count": 1, "lastObservedTime": AT}}
    assert ask(api, "PATCH", EVENTS + "/e", once, MERGE).status == 422
    assert ask(api, "PATCH", EVENTS + "/e", {"note": "m"}, MERGE).status == 422
    api.advance(3600_000_000_000)
    assert ask(api, "PATCH", EVENTS + "/e", series, MERGE).status == 404


def test_nothing_new_comes_into_a_namespace_that_goes() -> None:
    """K8: 403 where the namespace is terminating (cause)."""
    api = bare()
    done(ask(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "t"}, "kind": "Namespace"}))
    shown = done(ask(api, "DELETE", "/api/v1/namespaces/t"))
    assert section(shown, "status")["phase"] == "Terminating"
    status = refused(ask(api, "POST", "/api/v1/namespaces/t/pods", pod("a")), 403)
    (cause,) = list_at(section(status, "details"), "causes")
    assert cause["reason"] == "NamespaceTerminating"


def test_a_namespace_goes_with_all_that_is_in_it() -> None:
    api = served()
    done(ask(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "t"}, "kind": "Namespace"}))
    done(ask(api, "POST", "/api/v1/namespaces/t/pods", pod("a")))
    done(ask(api, "DELETE", "/api/v1/namespaces/t"))
    assert ask(api, "GET", "/api/v1/namespaces/t/pods/a").status == 404
    assert ask(api, "GET", "/api/v1/namespaces/t").status == 404


def test_tokens_are_asked_for_and_expire() -> None:
    """K3.9: 401. K15.1: tokens live about one hour."""
    api = bare()
    api.access.tokens["good"] = User("muster", expires_ns=10_000_000_000)
    assert ask(api, "GET", PODS, token="good").status == 200  # noqa: S106  # not a secret
    assert reason(ask(api, "GET", PODS, token="bad"), 401) == "Unauthorized"  # noqa: S106
    assert reason(ask(api, "GET", PODS), 403) == "Forbidden"
    api.advance(10_000_000_000)
    assert ask(api, "GET", PODS, token="good").status == 401  # noqa: S106


def test_rules_allow_verbs_and_one_can_be_taken_away() -> None:
    """K3.9: 403. K15.3: a self-subject access review names what is missing."""
    api = bare()
    rules = (
        Rule(("list", "watch"), ("",), ("pods",)),
        Rule(("create",), ("",), ("pods/binding",)),
        Rule(("get",), ("coordination.k8s.io",), ("leases",), "default", ("m",)),
    )
    api.access.tokens["t"] = User("muster", rules)
    assert ask(api, "GET", "/api/v1/pods", token="t").status == 200  # noqa: S106
    status = refused(ask(api, "GET", "/api/v1/nodes", token="t"), 403)  # noqa: S106
    assert status["message"] == (
        'nodes is forbidden: User "muster" cannot list resource "nodes" in API group "" '
        "at the cluster scope"
    )
    assert ask(api, "GET", LEASES + "/m", token="t").status == 404  # noqa: S106
    assert ask(api, "GET", LEASES + "/other", token="t").status == 403  # noqa: S106
    assert ask(api, "POST", PODS, pod("a"), token="t").status == 403  # noqa: S106
    api.access.denied.add(("watch", "pods"))
    assert _may(api, "list") is True
    assert _may(api, "watch") is False
    refusal = api.watch(Request("GET", "/api/v1/pods", {"watch": "1"}, token="t"))  # noqa: S106
    assert isinstance(refusal, Response)
    assert refusal.status == 403


def _may(api: Api, verb: str) -> object:
    body: JsonObject = {"spec": {"resourceAttributes": {"verb": verb, "resource": "pods"}}}
    return section(done(ask(api, "POST", REVIEWS, body, token="t")), "status")["allowed"]  # noqa: S106


def test_discovery_tells_what_is_served_now() -> None:
    """K19: feature switches come from discovery; definitions appear and disappear at run time."""
    api = bare(has_volcano=False)
    group = "/apis/scheduling.volcano.sh/v1beta1"
    assert ask(api, "GET", group).status == 404
    assert ask(api, "GET", QUEUES).body == b"404 page not found\n"
    donor = found(bare(), f"{DEFINITIONS}/queues.scheduling.volcano.sh")
    done(ask(api, "POST", DEFINITIONS, donor))
    assert _resources(found(api, group)) == ["queues", "queues/status"]
    assert "scheduling.volcano.sh" in str(found(api, "/apis"))
    assert found(api, QUEUES)["items"] == []
    done(ask(api, "DELETE", f"{DEFINITIONS}/queues.scheduling.volcano.sh"))
    assert ask(api, "GET", QUEUES).status == 404


def _resources(document: JsonObject) -> list[str]:
    return [str(one["name"]) for one in list_at(document, "resources")]


def test_the_core_says_what_it_has() -> None:
    api = bare()
    assert found(api, "/api")["versions"] == ["v1"]
    assert found(api, "/version")["major"] == "1"
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "nodes"} <= set(
        _resources(found(api, "/api/v1"))
    )
    assert ask(api, "GET", "/readyz").body == b"ok"
    assert reason(ask(api, "GET", "/api/v1/secrets"), 404) == "NotFound"
    assert ask(api, "GET", "/nowhere").body == b"404 page not found\n"


def test_an_object_of_more_than_three_mebibytes_is_too_large() -> None:
    data: JsonObject = {"x": "y" * 3_200_000}
    body: JsonObject = {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    assert ask(bare(), "POST", CONFIG_MAPS, body).status == 413


def test_a_dry_run_makes_nothing() -> None:
    api = bare()
    assert ask(api, "POST", PODS + "?dryRun=All", pod("a")).status == 201
    assert names(found(api, PODS)) == []


def test_yaml_is_read_too() -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n"
    assert ask(bare(), "POST", CONFIG_MAPS, body, "application/yaml").status == 201


def test_a_clock_that_is_set_changes_no_time_that_passes() -> None:
    """Clock jump. What is due stays due; only what is written carries the new time."""
    api = bare()
    first = section(posted(api, "a"), "metadata")["creationTimestamp"]
    api.simulated.store.set_clock(3600_000_000_000)
    second = section(posted(api, "b"), "metadata")["creationTimestamp"]
    assert (first, second) == ("1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z")
    assert api.simulated.now_ns == 0


def test_the_same_calls_give_the_same_bytes() -> None:
    """Same seed, same bytes."""

    def run() -> bytes:
        api = served("cluster: [{kind: Node, metadata: {name: n1}}]")
        told = [ask(api, "POST", PODS, pod(f"p{index}")).body for index in range(5)]
        told.append(ask(api, "GET", "/api/v1/pods?limit=2").body)
        told.append(ask(api, "DELETE", PODS + "/p3").body)
        told.append(msgspec.json.encode(api.versions.revision))
        return b"".join(told)

    assert run() == run()
