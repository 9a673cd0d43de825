"""The requeue index finds the classes that wait for an event, and a difference from State is found."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from projections.scheduling_queue import EquivalenceGroup
from projections.wakeup_events import ALL_RESOURCES, WakeupEvents
from scheduling.requeue_index import COLUMNS_MAX, RequestTable, RequeueIndex
from tests.scheduling.builders import EngineHarness, node, pod
from tests.scheduling.topology.builders import group, hyper_node, member, see, session_of, two_racks


def classes(count: int) -> list[EquivalenceGroup]:
    """Classes of which only the identity matters."""
    return [cast("EquivalenceGroup", SimpleNamespace(number=at)) for at in range(count)]


def within(table: RequestTable, **amounts: int) -> list[int]:
    """The numbers of the classes whose requests are within these amounts."""
    found = table.within(lambda name: amounts.get(name, 0))
    return sorted(one.number for rows in found for one in rows.values())  # type: ignore[attr-defined]


def test_requests_are_found_by_what_a_node_has() -> None:
    table, made = RequestTable(), classes(40)
    for at, one in enumerate(made):
        table.add((("cpu", at), (f"card-{at % 10}", 1)), one)
    assert within(table, cpu=100) == []
    assert within(table, cpu=21, **{"card-1": 1}) == [1, 11, 21]
    for one in made[:20]:
        table.discard((("cpu", made.index(one)), (f"card-{made.index(one) % 10}", 1)), one)
    assert within(table, cpu=21, **{"card-1": 1}) == [21]
    table.add((("memory", 1 << 70),), made[0])
    assert within(table, memory=(1 << 70) - 1) == [0], "larger amounts are left to the caller"
    assert within(table, memory=1) == []
    assert within(table, cpu=39, **{f"card-{at}": 1 for at in range(10)}) == list(range(20, 40))


def test_only_so_many_resources_have_a_column() -> None:
    table, made = RequestTable(), classes(COLUMNS_MAX + 2)
    for at, one in enumerate(made):
        table.add(((f"r-{at}", 1),), one)
    assert within(table) == [COLUMNS_MAX, COLUMNS_MAX + 1], "the others are left to the caller"


def waiting() -> tuple[EngineHarness, RequeueIndex]:
    """A pod that is refused by a node, and its index."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod", pod("big", cards=4))
    harness.show_the_rest()
    harness.cycle()
    index = harness.engine.decider.session.requeue_index
    index.audit()
    return harness, index


def test_a_class_is_found_by_the_node_that_it_waits_for() -> None:
    harness, index = waiting()
    harness.see()
    assert not index.candidates(WakeupEvents(nodes_freed={"n1": 1}))
    assert not index.candidates(WakeupEvents(quota_released={"default": {ALL_RESOURCES: None}}))
    harness.state.cluster.nodes.nodes["n1"].free["example.com/card"] = 4
    assert index.candidates(WakeupEvents(nodes_freed={"n1": 1}))
    assert index.candidates(WakeupEvents(nodes_freed={"n1": 1}), "allocate")
    assert not index.candidates(WakeupEvents(nodes_freed={"n1": 1}), "enqueue")


def test_a_gang_with_a_topology_waits_for_hyper_nodes() -> None:
    harness = two_racks(cpu=1)
    see(harness, group("g", 3, {"mode": "hard", "highestTierAllowed": 1}))
    see(harness, *(member(f"g-{at}", "g") for at in range(3)))
    harness.cycle()
    index = session_of(harness).requeue_index
    assert not index.candidates(WakeupEvents())
    assert index.candidates(WakeupEvents(hyper_nodes_changed_at=7))
    see(harness, hyper_node("a", 1, "a1", "a2", "c"))
    index.audit()


def no_key(index: RequeueIndex) -> None:
    """A class that is not found by what it waits for."""
    index.by_action["allocate"].by_key.clear()


def no_request(index: RequeueIndex) -> None:
    """A class that is not found by the request of its pods."""
    index.by_action["allocate"].by_request.clear()


def other_amount(index: RequeueIndex) -> None:
    """A request with another amount."""
    for tables in index.by_action["allocate"].by_request.values():
        for table in tables.values():
            table.amounts[0] += 1


def no_head(index: RequeueIndex) -> None:
    """A change of the head is not followed."""
    index.by_head.clear()


def quota_too_many(index: RequeueIndex) -> None:
    """A class that waits for a quota for which it does not wait."""
    of_action = index.by_action["allocate"]
    of_action.by_quota["default"] = {"cpu": dict(of_action.all)}


@pytest.mark.parametrize("mutate", [no_key, no_request, other_amount, no_head, quota_too_many])
def test_the_audit_finds_what_differs(mutate: Callable[[RequeueIndex], None]) -> None:
    _, index = waiting()
    mutate(index)
    with pytest.raises(AssertionError, match=r"requeue index: .* (kept and not|counted and not)"):
        index.audit()
