"""The requeue index finds the classes that wait for an event, and a difference from State is found."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from events.messages import ObjectSeen
from projections.scheduling_queue import EquivalenceGroup
from projections.wakeup_events import ALL_RESOURCES, WakeupEvents
from scheduling.requeue_index import COLUMNS_MAX, AmountTable, RequestTable, RequeueIndex
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw
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


def overcommitted(large: int) -> tuple[EngineHarness, RequeueIndex]:
    """Pods of one cpu and gangs of `large` queues of their own wait until the cluster can reserve their minimum."""
    plugins = [{"name": one} for one in ("priority", "gang", "overcommit", "predicates")]
    harness = EngineHarness(
        policy={"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": plugins}]}
    )
    harness.show_all("Node", node("n1", cpu=10))
    runs = [pod(f"runs-{at}", on="n1", phase="Running") for at in range(12)]
    harness.show_all("Pod", *runs, pod("waits"))
    harness.show_all("Queue", *(raw("Queue", f"q{at}", spec={}) for at in range(large)))
    minimum = {"minMember": 1, "minResources": {"cpu": "4"}}
    gangs = [raw("PodGroup", f"g{at}", spec={**minimum, "queue": f"q{at}"}) for at in range(large)]
    harness.show_all("PodGroup", *gangs)
    harness.show_the_rest()
    harness.cycle()
    return harness, session_of(harness).requeue_index


def test_only_groups_whose_minimum_can_be_reserved_are_asked_again() -> None:
    harness, index = overcommitted(20)
    session = session_of(harness)
    examined = session.groups_examined
    harness.see(gone(pod("runs-0", on="n1", phase="Running")))
    assert len(index.candidates(harness.state.cluster.wakeup_events)) == 21
    harness.kinds()
    harness.cycle()
    waits = next(key for key in harness.state.cluster.groups if "waits" in key)
    assert f"enqueue_decided PodGroup/{waits}" in harness.kinds()
    assert session.groups_examined <= examined + 2, "the gangs are not asked"
    for at in range(1, 6):
        harness.see(gone(pod(f"runs-{at}", on="n1", phase="Running")))
    harness.cycle()
    admitted = [one for one in harness.kinds() if one.startswith("enqueue_decided")]
    assert admitted == ["enqueue_decided PodGroup/default/g0"]


def test_a_group_that_could_evict_is_asked_although_nothing_can_be_reserved() -> None:
    harness, index = overcommitted(1)
    urgent = raw("PriorityClass", "urgent", value=10)
    harness.see(ObjectSeen(urgent))
    spec = {"minMember": 1, "minResources": {"cpu": "13"}, "priorityClassName": "urgent"}
    harness.see(ObjectSeen(raw("PodGroup", "u", spec=spec)))
    harness.cycle()
    harness.see(gone(pod("runs-0", on="n1", phase="Running")))
    events = harness.state.cluster.wakeup_events
    asked = index.candidates(events, "enqueue").values()
    assert "default/u" in [one.head.key for one in asked]
    assert "default/g0" not in [one.head.key for one in asked]
    assert len(index.candidates(events)) == 3


def test_amounts_are_found_up_to_what_is_available() -> None:
    table, made = AmountTable(), classes(4)
    for one, amount in zip(made, (5, 3, 5, 9), strict=True):
        table.add(amount, one)
    table.discard(9, made[3])

    def numbers(most: int | None) -> list[int]:
        return [one.number for found in table.within(most) for one in found.values()]  # type: ignore[attr-defined]

    assert (numbers(2), numbers(3), numbers(8), numbers(None)) == ([], [1], [1, 0, 2], [1, 0, 2])


def no_amount(index: RequeueIndex) -> None:
    """A class that is not found by the amount that it waits for."""
    for of_action in index.by_action.values():
        of_action.by_amount.clear()


def test_the_audit_finds_a_class_without_the_amount_that_it_waits_for() -> None:
    _, index = overcommitted(1)
    index.audit()
    no_amount(index)
    with pytest.raises(AssertionError, match="counted and not kept"):
        index.audit()


@pytest.mark.parametrize("mutate", [no_key, no_request, other_amount, no_head, quota_too_many])
def test_the_audit_finds_what_differs(mutate: Callable[[RequeueIndex], None]) -> None:
    _, index = waiting()
    mutate(index)
    with pytest.raises(AssertionError, match=r"requeue index: .* (kept and not|counted and not)"):
        index.audit()
