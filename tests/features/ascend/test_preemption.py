"""Preemption frees chips that a pod can use together: a ring, a card, a mesh."""

import msgspec
import pytest

from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.pipeline import PipelineDecided
from tests.features.ascend.builders import T, chips, npu_node, npu_pod, started
from tests.features.ascend.test_virtual_npus import core_node, core_pod
from tests.scheduling.builders import EngineHarness

PLUGINS = ("priority", "conformance", "volcano-npu", "predicates")
PREEMPTING: dict[str, object] = {
    "actions": "enqueue, allocate, preempt",
    "tiers": [{"plugins": [{"name": one} for one in PLUGINS]}],
}
CORE = "huawei.com/npu-core"


def decided(harness: EngineHarness) -> tuple[list[str], list[str]]:
    """The victims, and the devices that the preemptor is to get."""
    events = [event_of(one) for one in harness.records]
    victims = [
        each.pod.rpartition("/")[2]
        for one in events
        if isinstance(one, EvictionDecided)
        for each in one.evictions
    ]
    nominated = [
        name
        for one in events
        if isinstance(one, PipelineDecided)
        for placement in one.placements
        for name in placement.devices
    ]
    return sorted(victims), nominated


def running(name: str, held: tuple[int, ...], priority: int = 0, kind: str = "") -> bytes:
    """A pod with chips of node n."""
    return npu_pod(
        name,
        len(held),
        kind=kind,
        on="n",
        phase="Running",
        priority=priority,
        annotations={T: chips(*held)},
    )


@pytest.mark.parametrize(
    ("kind", "size", "there", "count", "victims", "given"),
    [
        # Two chips of each ring are free: only a whole ring serves four.
        ("", 8, {"a-1": (0, 1), "b-2": (4, 5)}, 4, ["a-1"], (0, 1, 2, 3)),
        # One pod of low priority in each ring: both together would free four chips, but in two rings.
        (
            "",
            8,
            {"a-1": (0, 1), "b-3": (2, 3), "c-2": (4, 5), "d-2": (6, 7)},
            4,
            ["c-2", "d-2"],
            (4, 5, 6, 7),
        ),
        ("", 8, {"a": (0,), "b": (4,)}, 8, ["a", "b"], tuple(range(8))),
        # Two half-used cards have two free dies, which serve no pair.
        ("module-a3-16", 4, {"a-1": (0,), "b-2": (2,)}, 2, ["a-1"], (0, 1)),
        ("module-a3-16", 4, {"a-2": (0,), "b-1": (2,)}, 4, ["a-2", "b-1"], (0, 1, 2, 3)),
        ("module-910b-8", 8, {"a-1": (0, 1, 2), "b-2": (3, 4, 5, 6, 7)}, 2, ["a-1"], (0, 1)),
    ],
)
def test_the_victims_free_chips_in_the_right_groups_and_no_others_are_evicted(
    kind: str,
    size: int,
    there: dict[str, tuple[int, ...]],
    count: int,
    victims: list[str],
    given: tuple[int, ...],
) -> None:
    harness = started(npu_node("n", size, kind=kind), given=PREEMPTING)
    pods = [
        running(name, held, int(name.partition("-")[2] or 0), kind) for name, held in there.items()
    ]
    harness.show_all("Pod", *pods, npu_pod("high", count, kind=kind, priority=10))
    harness.cycle()
    assert decided(harness) == (victims, [f"Ascend910-{number}" for number in given])


def test_no_pod_is_evicted_if_the_groups_stay_broken() -> None:
    harness = started(npu_node("n"), given=PREEMPTING)
    pods = [running("a", (0,), 20), running("b", (1, 2)), running("c", (4,), 20)]
    harness.show_all("Pod", *pods, npu_pod("high", 4, priority=10))
    harness.cycle()
    assert decided(harness) == ([], [])


def refusal(harness: EngineHarness) -> tuple[str, str]:
    group = harness.state.cluster.groups["default/podgroup-uid-high"]
    found = group.decided.refusals["preempt"]
    return found.code, found.message


def test_jobs_in_super_pods_evict_no_pods() -> None:
    kind = "module-a3-16-super-pod"
    whole = msgspec.json.decode(npu_node("n", 16, kind=kind))
    whole["metadata"]["annotations"]["superPodID"] = "1"
    harness = started(msgspec.json.encode(whole), given=PREEMPTING)
    low = running("low", tuple(range(16)), kind=kind)
    harness.show_all("Pod", low, npu_pod("high", 16, kind=kind, priority=10))
    harness.cycle()
    assert decided(harness) == ([], [])
    text = "no pods are evicted in favour of a job with such devices (ascend)"
    assert refusal(harness) == ("NoVictims", text)


def test_jobs_with_virtual_npus_evict_no_pods() -> None:
    harness = started(core_node("n", 1), given=PREEMPTING)
    notes = {CORE: "0"}
    low = npu_pod("low", requests={CORE: "8"}, on="n", phase="Running", annotations=notes)
    high = msgspec.json.decode(core_pod("high", 4))
    high["spec"]["priority"] = 10
    harness.show_all("Pod", low, msgspec.json.encode(high))
    harness.cycle()
    assert decided(harness) == ([], [])
    text = "no pods are evicted in favour of a job with such devices (ascend-vnpu)"
    assert refusal(harness) == ("NoVictims", text)
