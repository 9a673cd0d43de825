"""Rule K14: Leases; rule K11: Events."""

import asyncio
from typing import Any

import pytest

from daemon.cluster.client.calls import EVENTS, LEASES
from tests.contract.served import Served
from tests.control_plane.api import Object

TIME = "2026-01-01T00:00:00.000000Z"


def lease(server: Served, holder: str) -> Object:
    """A Lease."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": server.namespace},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": TIME,
            "renewTime": TIME,
            "leaseTransitions": 0,
        },
    }


def event(server: Served, name: str = "event", **fields: Any) -> Object:
    """An Event about a pod. `fields` replace what is there."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {"name": name, "namespace": server.namespace},
        "eventTime": TIME,
        "reportingController": "example.com/muster",
        "reportingInstance": "muster-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "It is so.",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": server.namespace,
            "name": "pod",
        },
        **fields,
    }


async def test_of_two_that_make_a_lease_one_does(server: Served) -> None:
    """Rule K14.3"""
    path = LEASES.collection_path(server.namespace)
    posted = [server.api.post(path, lease(server, f"holder-{n}")) for n in range(4)]
    answers = await asyncio.gather(*posted)
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert {a.reason for a in answers if a.status == 409} == {"AlreadyExists"}


async def test_of_two_that_renew_a_lease_from_one_revision_one_does(server: Served) -> None:
    """Rule K14.3: 409 = lost the race."""
    made = await server.api.create(LEASES, lease(server, "one"))
    path = LEASES.object_path("leader", server.namespace)
    put = [
        server.api.put(path, {**made, "spec": {**made["spec"], "holderIdentity": f"{n}"}})
        for n in range(4)
    ]
    answers = await asyncio.gather(*put)
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    assert {a.reason for a in answers if a.status == 409} == {"Conflict"}


async def test_times_of_a_lease_come_back_with_six_digits(server: Served) -> None:
    """Rule K14.1"""
    made = await server.api.create(LEASES, lease(server, "one"))
    assert (made["spec"]["renewTime"], made["spec"]["acquireTime"]) == (TIME, TIME)


async def test_a_lease_is_released(server: Served) -> None:
    """Rule K14.5"""
    made = await server.api.create(LEASES, lease(server, "one"))
    released = {**made["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
    path = LEASES.object_path("leader", server.namespace)
    put = (await server.api.put(path, {**made, "spec": released})).expect(200)
    assert put["spec"].get("holderIdentity", "") == ""
    assert put["spec"]["leaseDurationSeconds"] == 1


async def test_a_lease_lasts_a_while(server: Served) -> None:
    """Rule K14.1: the duration is positive, and transitions do not run backwards."""
    made = lease(server, "one")
    for wrong in ({"leaseDurationSeconds": 0}, {"leaseTransitions": -1}):
        body = {**made, "spec": {**made["spec"], **wrong}}
        answer = await server.api.post(LEASES.collection_path(server.namespace), body)
        assert (answer.status, answer.reason) == (422, "Invalid"), wrong


async def test_a_replacement_of_another_uid_is_a_conflict(server: Served) -> None:
    """Rule K1.1"""
    made = await server.api.create(LEASES, lease(server, "one"))
    other = {**made["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}
    path = LEASES.object_path("leader", server.namespace)
    answer = await server.api.put(path, {**made, "metadata": other})
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_an_event_is_made_and_becomes_a_series(server: Served) -> None:
    """Rules K11.1 and K11.2"""
    await server.api.create(EVENTS, event(server))
    path = EVENTS.object_path("event", server.namespace)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}}
    patched = (await server.api.patch(path, series)).expect(200)
    assert patched["series"] == series["series"]
    assert patched["eventTime"] == TIME


async def test_the_longest_event_is_taken(server: Served) -> None:
    """Rule K11.1"""
    most = {"reason": "R" * 128, "action": "A" * 128, "note": "n" * 1_024}
    await server.api.create(EVENTS, event(server, **most))


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": "R" * 129},
        {"action": "A" * 129},
        {"note": "n" * 1_025},
        {"note": "ü" * 600},
        {"reportingInstance": "i" * 129},
        {"reason": ""},
        {"action": ""},
        {"type": "Odd"},
        {"eventTime": None},
        {"reportingController": "not qualified/at/all"},
        {"reportingController": ""},
        {"reportingInstance": ""},
    ],
    ids=str,
)
async def test_an_event_outside_its_limits_is_invalid(
    server: Served, wrong: dict[str, Any]
) -> None:
    """Rule K11.1"""
    path = EVENTS.collection_path(server.namespace)
    answer = await server.api.post(path, event(server, **wrong))
    assert (answer.status, answer.reason) == (422, "Invalid"), answer.object


async def test_an_event_is_where_what_it_is_about_is(server: Served) -> None:
    """Rule K11.1: `default` for what is in no namespace."""
    path = EVENTS.collection_path(server.namespace)
    about = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    answer = await server.api.post(path, event(server, regarding=about))
    assert (answer.status, answer.reason) == (422, "Invalid")
    there = event(server, server.unique("event"), regarding=about)
    there["metadata"]["namespace"] = "default"
    await server.api.create(EVENTS, there)


async def test_a_time_of_an_event_needs_six_digits(server: Served) -> None:
    """Rule K11.1"""
    path = EVENTS.collection_path(server.namespace)
    answer = await server.api.post(path, event(server, eventTime="2026-01-01T00:00:00.1Z"))
    assert answer.status == 400


async def test_an_event_that_is_gone_is_not_found_at_its_patch(server: Served) -> None:
    """Rule K11.2: then it is made again."""
    path = EVENTS.object_path("event", server.namespace)
    answer = await server.api.patch(path, {"series": {"count": 2, "lastObservedTime": TIME}})
    assert (answer.status, answer.reason) == (404, "NotFound")
