"""Quantities larger than any cluster has, alone and in sums, do not disturb scheduling."""

from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from events.normalize import JsonObject
from projections.pod_class import AMOUNT_MAX
from projections.quantity import MAX
from projections.views.now import queue_rows
from tests.scheduling.builders import EngineHarness, node, pod, raw

MANY = 300
"""So many times the largest amount of memory is more than 64 bits hold."""
ENORMOUS: JsonObject = {"memory": "1Ei"}


def bound(harness: EngineHarness) -> list[str]:
    """The nodes given since this was last asked."""
    records, harness.records = harness.records, []
    events = [event_of(one) for one in records]
    gangs = [one for one in events if isinstance(one, GangBindDecided)]
    return [placement.node for one in gangs for placement in one.placements]


def test_a_node_that_is_enormously_overcommitted_takes_nothing_and_breaks_nothing() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"), node("n2"))
    others: JsonObject = {
        "schedulerName": "other",
        "containers": [{"resources": {"requests": ENORMOUS}}],
    }
    harness.show_all("Pod", *[pod(f"o-{one}", on="n1", spec=others) for one in range(MANY)])
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("p")))
    harness.cycle()
    assert bound(harness) == ["n2"]
    harness.see(
        ObjectSeen(
            raw("Pod", "q", spec={**others, "schedulerName": "muster"}, status={"phase": "Pending"})
        )
    )
    harness.see(ObjectSeen(pod("r")))
    harness.cycle()
    assert bound(harness) == ["n2"]


def test_enormous_reservations_add_up_to_what_a_database_can_hold() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    spec: JsonObject = {"minMember": 1, "minResources": ENORMOUS}
    harness.show_all("PodGroup", *[raw("PodGroup", f"g-{one}", spec=spec) for one in range(MANY)])
    harness.show_the_rest()
    harness.cycle()
    assert harness.state.cluster.queues["default"].inqueue["memory"] > MAX
    rows = queue_rows(harness.state.cluster, "default")
    assert max(cell for row in rows for cell in row if isinstance(cell, int)) == MAX


def test_an_enormous_quota_is_as_good_as_any_large_one() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", labels={"example.com/card.product": "X"}))
    quota = f'{{"X": {10**30}}}'
    harness.show_all(
        "Queue", raw("Queue", "default", metadata={"annotations": {"volcano.sh/card.quota": quota}})
    )
    harness.show_the_rest()
    harness.see(
        ObjectSeen(pod("p", cards=2, metadata={"annotations": {"volcano.sh/card.name": "X"}}))
    )
    harness.cycle()
    assert bound(harness) == ["n1"]
    facts = harness.state.cluster.queues["default"].facts
    assert facts is not None
    assert facts.quota == {"X": AMOUNT_MAX}
