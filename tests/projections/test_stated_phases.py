"""Which phases of PodGroup objects are trusted: those of the first list of the log, and no others."""

import pytest

from events.messages import DeletionSeen, ListStarted, ObjectSeen
from events.watch import WatchClosed
from features.table import FEATURES
from projections.pod_groups import PHASES
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, node, raw


def group(name: str, phase: str, uid: str = "") -> bytes:
    named = {"uid": uid} if uid else {}
    return raw(
        "PodGroup",
        name,
        metadata=named,
        spec={"minMember": 1, "minResources": {"cpu": "64"}},
        status={"phase": phase, "running": 7},
    )


def harness() -> EngineHarness:
    """A small node and a group that is admitted, and everything listed."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("PodGroup", group("before", "Inqueue"))
    harness.show_the_rest()
    harness.cycle()
    return harness


def phase_of(harness: EngineHarness, name: str) -> str:
    return harness.state.cluster.groups[f"default/{name}"].decided.phase


@pytest.mark.parametrize("phase", [*PHASES, "Anything"])
def test_a_phase_in_the_first_list_is_taken_if_it_is_one_and_fits_the_pods(phase: str) -> None:
    listed = EngineHarness()
    listed.show_all("PodGroup", group("g", phase))
    kept = phase if phase in ("Inqueue", "Completed") else "Pending"
    assert phase_of(listed, "g") == kept


@pytest.mark.parametrize("phase", [*PHASES, "Anything"])
def test_a_phase_of_a_group_that_comes_later_is_not(phase: str) -> None:
    later = harness()
    later.see(ObjectSeen(group("g", phase)))
    assert phase_of(later, "g") == "Pending"
    assert phase_of(later, "before") == "Inqueue"


def test_a_list_after_a_gap_is_not_the_first_one() -> None:
    again = harness()
    again.see(
        WatchClosed(resource="PodGroup", resource_version="9", cause="expired", has_gap=True),
        ListStarted("PodGroup"),
    )
    again.show_all("PodGroup", group("before", "Inqueue"), group("forged", "Inqueue"))
    assert phase_of(again, "forged") == "Pending"
    assert phase_of(again, "before") == "Inqueue"


def test_a_list_after_a_restart_is_not_the_first_one() -> None:
    again = harness()
    again.start()
    again.show_all("PodGroup", group("before", "Inqueue"), group("forged", "Inqueue"))
    assert phase_of(again, "forged") == "Pending"
    assert phase_of(again, "before") == "Inqueue"


@pytest.mark.parametrize("count", [10**30, -1, 2**63, "many", 1.5])
def test_counts_that_no_one_can_have_change_nothing(count: object) -> None:
    hostile = harness()
    status = {"phase": "Inqueue", "running": count}
    seen = raw("PodGroup", "g", spec={"minMember": 1, "minResources": {"cpu": "64"}}, status=status)
    hostile.see(ObjectSeen(seen))
    assert phase_of(hostile, "g") == "Pending"
    hostile.cycle()
    assert restore(take(hostile.state), FEATURES).position == hostile.state.position


def test_a_group_that_is_created_again_under_its_name_begins_as_pending() -> None:
    again = harness()
    again.see(
        DeletionSeen(group("before", "Inqueue")), ObjectSeen(group("before", "Inqueue", "uid-2"))
    )
    assert phase_of(again, "before") == "Pending"


def test_a_restored_state_and_a_restarted_daemon_trust_no_phase_either() -> None:
    before = harness()
    state = restore(take(before.state), FEATURES)
    assert state.cluster.are_groups_listed
    assert state.cluster.groups["default/before"].decided.listed_phase == "Inqueue"
    state.validate()
    assert not state.cluster.trusts_stated_phase


def test_a_shadow_takes_the_phase_of_the_scheduler_that_decides() -> None:
    shadow = harness()
    shadow.state.cluster.is_shadow = True
    shadow.see(ObjectSeen(group("g", "Inqueue")))
    assert phase_of(shadow, "g") == "Inqueue"


def test_decisions_end_the_trust_in_the_first_phase() -> None:
    running = EngineHarness()
    running.show_all("Node", node("n1"))
    running.show_all("PodGroup", group("g", "Running"))
    running.show_the_rest()
    assert running.state.cluster.groups["default/g"].decided.listed_phase == "Running"
    running.cycle()
    assert phase_of(running, "g") in ("Pending", "Inqueue")
    assert running.state.cluster.groups["default/g"].decided.listed_phase == ""
