"""The views of devices and placements name who has which device, at every position."""

from engine.engine import Engine
from events.messages import ObjectSeen
from projections.views.now import device_rows
from projections.views.project import Views
from projections.views.rows import Row
from tests.scheduling.builders import EngineHarness, gone
from tests.scheduling.slots import REAL, SLOT, WITH_SLOTS, slot_node, slot_pod


def rows(harness: EngineHarness) -> list[tuple[object, ...]]:
    """Device, healthy and pod of each device of n1."""
    return [(row[1], row[6], row[9]) for row in device_rows(harness.state.cluster, "n1")]


def test_each_device_has_a_row_with_its_health_and_pods() -> None:
    harness = EngineHarness(features=WITH_SLOTS)
    harness.show_all("Node", slot_node("n1", "a-b-c", broken="c"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.show_the_rest()
    harness.cycle()
    assert rows(harness) == [("a", 1, "default/p"), ("b", 1, ""), ("c", 0, "")]
    assert device_rows(harness.state.cluster, "n1")[0] == (
        *("n1", "a", SLOT, "", "", "", 1, 1, "", "default/p"),
    )
    twice = [
        slot_pod("p", 1, on="n1", phase="Running"),
        slot_pod("q", 1, on="n1", phase="Running", annotations={REAL: "a"}),
    ]
    harness.show_all("Pod", *twice)
    assert rows(harness)[0] == ("a", 1, "default/p, default/q")
    for one in twice:
        harness.see(gone(one))
    assert rows(harness)[0] == ("a", 1, "")
    harness.see(gone(slot_node("n1", "a-b-c", broken="c")))
    assert rows(harness) == []


def test_a_correction_changes_the_rows_of_devices_and_of_the_placement() -> None:
    harness = EngineHarness(features=WITH_SLOTS)
    state, head = harness.state, harness.engine.head
    harness.engine = Engine(state, head, views=Views(state))

    def changed(view: str) -> list[Row]:
        found = [one.views[view] for one in harness.batches if view in one.views]
        return found[-1].upserted

    harness.show_all("Node", slot_node("n1", "a-b"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.show_the_rest()
    harness.cycle()
    assert [row[6] for row in changed("placement")] == ['["a"]']
    running = slot_pod("p", 1, on="n1", phase="Running", annotations={REAL: "b"})
    harness.see(ObjectSeen(running))
    harness.show_all("Node", slot_node("n1", "a-b", free="a"))
    assert [row[6] for row in changed("placement")] == ['["b"]']
    assert [(row[1], row[9]) for row in changed("device")] == [("a", ""), ("b", "default/p")]
