"""A second device family, registered like whole cards: it chooses nodes, and names the devices that pods get."""

import msgspec
import pytest

from daemon.metrics.gauges import waiting
from engine.pending_requests import bindings_and_evictions
from events.codec import event_of
from events.decision import Decision
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.messages import Answer, BindRequest, ObjectSeen, Rejected
from projections import snapshot
from replay.why_state import pod_standing
from tests.checkout import ROOT
from tests.scheduling.builders import EngineHarness, gone, raw
from tests.scheduling.slots import DECIDED, REAL, WITH_SLOTS, slot_node, slot_pod


def begun(*nodes: bytes, policy: dict[str, object] | None = None) -> EngineHarness:
    """A cluster with these nodes and without pods."""
    harness = EngineHarness(policy=policy, features=WITH_SLOTS)
    harness.show_all("Node", *nodes)
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.cycle()
    return harness


def given(harness: EngineHarness) -> dict[str, tuple[str, ...]]:
    """Name of each pod to its node and devices."""
    pods = harness.state.cluster.pods.values()
    return {one.facts.name: (one.node, *one.devices) for one in pods if one.node}


def test_a_family_chooses_the_node_and_the_decision_names_the_devices() -> None:
    harness = begun(slot_node("n1", "a-b-c-d"), slot_node("n2", "x-y"))
    harness.show_all("Pod", slot_pod("p", 2), slot_pod("without", 0))
    harness.cycle()
    assert given(harness) == {"p": ("n2", "x", "y"), "without": ("n2",)}
    binds = [one for one in map(event_of, harness.records) if isinstance(one, GangBindDecided)]
    found = {one.pod: one.devices for event in binds for one in event.placements}
    assert found == {"default/p": ("x", "y"), "default/without": ()}


def test_pods_of_one_gang_get_different_devices_and_none_is_given_twice() -> None:
    harness = begun(slot_node("n1", "a-b-c-d-e"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all(
        "Pod", *(slot_pod(f"p{index}", 2, group="g") for index in range(2)), slot_pod("q", 1)
    )
    harness.cycle()
    harness.cycle()
    names = [device for _, *devices in given(harness).values() for device in devices]
    assert sorted(names) == ["a", "b", "c", "d", "e"]


def test_a_node_with_enough_free_devices_of_which_none_are_neighbours_does_not_serve_the_pod() -> (
    None
):
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("left", 1), slot_pod("mid", 1), slot_pod("right", 1))
    harness.cycle()
    assert given(harness) == {"left": ("n1", "a"), "mid": ("n1", "b"), "right": ("n1", "c")}
    harness.see(gone(slot_pod("left", 1)), gone(slot_pod("right", 1)))
    harness.show_all("Pod", slot_pod("mid", 1, on="n1", phase="Running"), slot_pod("pair", 2))
    harness.cycle()
    assert "pair" not in given(harness)
    [group] = [one for one in harness.state.cluster.groups.values() if one.pending]
    refusal = group.decided.refusals["allocate"]
    assert (refusal.message, refusal.limit, refusal.never_fits) == (
        "0/1 nodes are unavailable: 1 node(s) had no 2 slots in a row.",
        "devices",
        False,
    )
    pod = group.pending[0]
    condition = pod_standing(harness.state, pod, None).facts["condition"]
    assert condition.startswith("PodScheduled=False, Unschedulable; nodes have room by the rules")
    counted = {one.name: one.samples for one in waiting(harness.state.cluster)}
    [sample] = counted["muster_pods_without_scale_up"]
    assert (sample.labels, sample.value) == ({"queue": "default"}, 1)
    harness.see(gone(slot_pod("mid", 1)))
    harness.cycle()
    assert given(harness) == {"pair": ("n1", "a", "b")}


def test_devices_are_kept_while_the_pod_runs_and_across_a_snapshot() -> None:
    harness = begun(slot_node("n1", "a-b"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    harness.show_all("Pod", slot_pod("p", 1, on="n1", phase="Running"))
    assert given(harness) == {"p": ("n1", "a")}
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload, WITH_SLOTS)
    assert restored.cluster.pods["uid-p"].devices == ("a",)
    assert snapshot.take(restored) == payload
    restored.validate()
    harness.show_all("Pod", slot_pod("p", 1, on="n1", phase="Running"), slot_pod("q", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a"), "q": ("n1", "b")}
    harness.show_all("Pod", slot_pod("p", 1, on="n1", phase="Succeeded"), slot_pod("r", 1))
    harness.cycle()
    assert given(harness)["r"] == ("n1", "a")


def test_a_pod_that_waits_for_victims_gets_its_devices_when_they_are_gone() -> None:
    named = [{"name": one} for one in ("priority", "conformance", "predicates")]
    harness = begun(
        slot_node("n1", "a-b"),
        policy={"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": named}]},
    )
    harness.show_all("Pod", slot_pod("low", 1), slot_pod("other", 1))
    harness.cycle()
    running = [slot_pod(one, 1, on="n1", phase="Running") for one in ("low", "other")]
    harness.show_all("Pod", *running, slot_pod("high", 2, priority=10))
    harness.cycle()
    nominated = [one for one in map(event_of, harness.records) if isinstance(one, PipelineDecided)]
    assert [one.devices for event in nominated for one in event.placements] == [("a", "b")]
    harness.see(*(gone(one) for one in running))
    harness.cycle()
    assert given(harness) == {"high": ("n1", "a", "b")}


def test_a_pod_is_evicted_whose_device_is_in_the_way() -> None:
    named = [{"name": one} for one in ("priority", "conformance", "predicates")]
    harness = begun(
        slot_node("n1", "a-b-c"),
        policy={"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": named}]},
    )
    harness.show_all("Pod", slot_pod("left", 1), slot_pod("mid", 1), slot_pod("right", 1))
    harness.cycle()
    harness.see(gone(slot_pod("left", 1)), gone(slot_pod("right", 1)))
    harness.show_all(
        "Pod", slot_pod("mid", 1, on="n1", phase="Running"), slot_pod("high", 2, priority=10)
    )
    harness.cycle()
    events = [one for one in map(event_of, harness.records) if isinstance(one, EvictionDecided)]
    assert [one.pod for event in events for one in event.evictions] == ["default/mid"]


def test_a_group_whose_requests_a_family_refuses_is_unschedulable_until_it_changes() -> None:
    harness = begun(slot_node("n1", "a-b-c-d"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all(
        "Pod", slot_pod("p0", 2, group="g"), slot_pod("p1", 1, group="g"), slot_pod("q", 1)
    )
    harness.cycle()
    assert given(harness) == {"q": ("n1", "a")}
    refusal = harness.state.cluster.groups["default/g"].decided.refusals["allocate"]
    text = "1 slots are no pairs, in a job of several pods"
    assert (refusal.code, refusal.message) == ("InvalidResourceRequest", text)
    harness.show_all("Node", slot_node("n1", "a-b-c-d"), slot_node("n2", "x-y-z"))
    harness.see(gone(slot_pod("q", 1)))
    records = len(harness.records)
    harness.cycle()
    decided = [one for one in map(event_of, harness.records[records:]) if isinstance(one, Decision)]
    assert decided == []
    harness.show_all("Pod", slot_pod("p0", 2, group="g"), slot_pod("p2", 2, group="g"))
    harness.cycle()
    assert given(harness) == {"p0": ("n2", "x", "y"), "p2": ("n1", "a", "b")}


def test_a_terminating_pod_keeps_its_devices_until_it_is_gone() -> None:
    harness = begun(slot_node("n1", "a-b"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    leaving = slot_pod("p", 1, on="n1", phase="Running", deletionTimestamp="2026-01-01T00:00:00Z")
    harness.show_all("Pod", leaving, slot_pod("q", 2))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a")}
    [group] = [one for one in harness.state.cluster.groups.values() if one.decided.nominations]
    assert [one.devices for one in group.decided.nominations.values()] == [("a", "b")]
    harness.see(gone(leaving))
    harness.cycle()
    assert given(harness) == {"q": ("n1", "a", "b")}


def test_a_nominated_pod_holds_its_devices() -> None:
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    leaving = slot_pod("p", 1, on="n1", phase="Running", deletionTimestamp="2026-01-01T00:00:00Z")
    harness.show_all("Pod", leaving, slot_pod("q", 3))
    harness.cycle()
    harness.show_all("Pod", leaving, slot_pod("q", 3), slot_pod("small", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a")}
    harness.see(gone(leaving))
    harness.cycle()
    assert given(harness) == {"q": ("n1", "a", "b", "c")}


@pytest.mark.parametrize("key", [DECIDED, REAL])
def test_pods_of_other_schedulers_have_the_devices_that_their_annotations_name(key: str) -> None:
    harness = EngineHarness(features=WITH_SLOTS)
    foreign = slot_pod(
        "f", 2, on="n1", phase="Running", scheduler="other", annotations={key: "b-c"}
    )
    harness.show_all("Pod", foreign)
    harness.show_all("Node", slot_node("n1", "a-b-c-d"))
    harness.show_the_rest()
    harness.show_all("Pod", foreign, slot_pod("p", 1), slot_pod("q", 1))
    harness.cycle()
    assert given(harness) == {"f": ("n1", "b", "c"), "p": ("n1", "a"), "q": ("n1", "d")}
    restored = snapshot.restore(snapshot.take(harness.state), WITH_SLOTS)
    restored.validate()
    assert restored.cluster.pods["uid-f"].decided.are_devices_reported is (key == REAL)


def test_nothing_is_given_on_a_node_while_it_is_unknown_which_devices_a_pod_has() -> None:
    harness = begun(slot_node("n1", "a-b-c-d"))
    foreign = slot_pod("f", 1, on="n1", phase="Running", scheduler="other")
    harness.show_all("Pod", foreign, slot_pod("p", 1))
    harness.cycle()
    assert given(harness) == {"f": ("n1",)}
    named = slot_pod("f", 1, on="n1", phase="Running", scheduler="other", annotations={REAL: "a"})
    harness.show_all("Pod", named, slot_pod("p", 1))
    harness.cycle()
    assert given(harness) == {"f": ("n1", "a"), "p": ("n1", "b")}


def test_devices_that_a_device_plugin_gave_instead_of_those_decided_count_when_its_report_says_so() -> (
    None
):
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a")}
    real = slot_pod("p", 1, on="n1", phase="Running", annotations={DECIDED: "a", REAL: "c"})
    harness.show_all("Pod", real, slot_pod("q", 2))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a"), "q": ("n1", "b", "c")}
    [(code, message)] = harness.state.cluster.config_errors.current["Pod/default/p"]
    assert (code, message.partition(":")[0]) == (
        "UnconfirmedDeviceAnnotation",
        "its annotations name c, but it was given a",
    )
    harness.see(gone(slot_pod("q", 2)))
    harness.show_all("Node", slot_node("n1", "a-b-c", free="a-b"))
    assert given(harness) == {"p": ("n1", "c")}
    assert harness.state.cluster.config_errors.current == {}
    harness.show_all("Pod", real, slot_pod("r", 2))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "c"), "r": ("n1", "a", "b")}


def test_a_correction_wakes_a_group_that_waits_for_neighbours() -> None:
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("left", 1), slot_pod("mid", 1))
    harness.cycle()
    harness.see(gone(slot_pod("left", 1)))
    running = slot_pod("mid", 1, on="n1", phase="Running")
    harness.show_all("Pod", running, slot_pod("pair", 2))
    harness.cycle()
    assert given(harness) == {"mid": ("n1", "b")}
    harness.see(ObjectSeen(slot_pod("mid", 1, on="n1", phase="Running", annotations={REAL: "a"})))
    harness.cycle()
    assert given(harness) == {"mid": ("n1", "b")}
    harness.show_all("Node", slot_node("n1", "a-b-c", free="b-c"))
    harness.cycle()
    assert given(harness) == {"mid": ("n1", "a"), "pair": ("n1", "b", "c")}


def test_a_device_with_two_holders_is_taken_once_and_an_error_of_its_node() -> None:
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a")}
    both = [
        slot_pod("p", 1, on="n1", phase="Running"),
        slot_pod("f", 1, on="n1", phase="Running", scheduler="other", annotations={REAL: "a"}),
    ]
    harness.show_all("Pod", *both)
    harness.cycle()
    error = ("DeviceHeldTwice", "a is held by pods default/f, default/p")
    assert harness.state.cluster.config_errors.current == {"Node//n1": (error,)}
    harness.show_all("Node", slot_node("n1", "a-b-c-d"))
    harness.show_all("Pod", *both, slot_pod("r", 2))
    harness.cycle()
    assert given(harness)["r"] == ("n1", "b", "c")
    payload = snapshot.take(harness.state)
    assert snapshot.take(snapshot.restore(payload, WITH_SLOTS)) == payload
    said = [one for one in map(event_of, harness.records) if isinstance(one, ConfigInvalid)]
    assert [(one.subject, one.code, one.message) for one in said] == [("Node//n1", *error)]
    harness.see(gone(slot_pod("f", 1)))
    assert harness.state.cluster.config_errors.current == {}


def test_a_statement_of_the_devices_of_another_pod_is_an_error_of_the_pod_alone() -> None:
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("p", 1), slot_pod("q", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a"), "q": ("n1", "b")}
    q = slot_pod("q", 1, on="n1", phase="Running", annotations={REAL: "a"})
    harness.show_all("Pod", slot_pod("p", 1, on="n1", phase="Running"), q)
    harness.cycle()
    assert list(harness.state.cluster.config_errors.current) == ["Pod/default/q"]
    harness.see(gone(slot_pod("p", 1)))
    harness.show_all("Node", slot_node("n1", "a-b-c", free="a-c"))
    harness.show_all("Pod", q, slot_pod("r", 1))
    harness.cycle()
    assert given(harness) == {"q": ("n1", "b"), "r": ("n1", "a")}


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("a-b", f"annotation {REAL} names 2 slots of 1"),
        ("x", "its annotations name the device 'x', which its node does not have"),
        (
            "a" * 5000,
            f"annotation {REAL} is longer than 4096 bytes, or has control characters",
        ),
    ],
)
def test_an_annotation_that_cannot_be_true_is_an_error_of_the_pod_and_the_decision_stands(
    stated: str, message: str
) -> None:
    harness = begun(slot_node("n1", "a-b-c"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    for phase in ("Pending", "Running"):
        wrong = slot_pod("p", 1, on="n1", phase=phase, annotations={REAL: stated})
        harness.show_all("Pod", wrong)
        harness.cycle()
    assert given(harness) == {"p": ("n1", "a")}
    said = [one for one in map(event_of, harness.records) if isinstance(one, ConfigInvalid)]
    assert [(one.subject, one.code) for one in said] == [
        ("Pod/default/p", "InvalidDeviceAnnotation")
    ]
    assert said[0].message == message
    harness.show_all("Pod", slot_pod("p", 1, on="n1", phase="Running", annotations={REAL: "b"}))
    assert given(harness) == {"p": ("n1", "a")}
    [(code, _)] = harness.state.cluster.config_errors.current["Pod/default/p"]
    assert code == "UnconfirmedDeviceAnnotation"


def test_a_pod_that_was_bound_after_all_has_the_devices_of_that_decision() -> None:
    harness = begun(slot_node("n1", "a-b"))
    harness.show_all("Pod", slot_pod("p", 1))
    harness.cycle()
    [request] = bindings_and_evictions(harness.state)
    assert isinstance(request, BindRequest)
    refused = Answer(request, Rejected("Forbidden", "no role allows this"))
    assert harness.engine.report([refused], harness.now_ns) is not None
    assert given(harness) == {}
    late = slot_pod("p", 1, on="n1", phase="Running", annotations=request.annotations)
    harness.show_all("Pod", late)
    assert given(harness) == {"p": ("n1", "a")}


def test_devices_are_omitted_from_records_of_families_that_name_none() -> None:
    harness = begun(slot_node("n1", "a-b"))
    harness.show_all("Pod", slot_pod("without", 0))
    harness.cycle()
    [event] = [one for one in map(event_of, harness.records) if isinstance(one, GangBindDecided)]
    assert b"devices" not in msgspec.json.encode(event.placements)


@pytest.mark.parametrize("text", ["gpu.shared", "nvidia.com/mig-", "whole_cards"])
def test_no_module_but_its_own_names_whole_cards(text: str) -> None:
    allowed = {"scheduling/device_families/whole_cards.py", "scheduling/device_family_table.py"}
    packages = ("projections", "scheduling", "features", "engine", "replay", "daemon")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    naming = {path.relative_to(ROOT).as_posix() for path in files if text in path.read_text()}
    assert naming <= allowed
    assert naming
