"""Trial pods: work in slot-seconds, checkpoints, and how they exit on request."""

import pytest

from events.errors import DocumentError
from events.messages import EvictRequest
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from tests.simulator.builders import SECOND, bind, scenario, seen, simulated

NODE = (
    "cluster:\n  - {kind: Node, metadata: {name: n1}, "
    "status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 8}}}\n"
)


def pod(*annotations: str, cards: int = 0, spec: str = "") -> str:
    """A pod `a` in the cluster, with annotations of muster."""
    given = ", ".join(f"muster.sh/{one}" for one in annotations)
    asked = f"resources: {{limits: {{nvidia.com/gpu: {cards}}}}}" if cards else ""
    return (
        NODE
        + f"  - {{kind: Pod, metadata: {{name: a, annotations: {{{given}}}}}, "
        + f"spec: {{{spec}containers: [{{name: c, {asked}}}]}}}}\n"
    )


def asked_at(second: int) -> str:
    """A step that asks the pod to release its resources."""
    merge = "{metadata: {annotations: {muster.sh/release-requested: '2026-01-01T00:00:00Z'}}}"
    return f"  - {{at: {second}s, patch: [{{kind: Pod, name: a, merge: {merge}}}]}}\n"


def phase(made: SimulatedCluster) -> str:
    """Phase of the pod, or `gone`."""
    found = made.find("Pod", "default", "a")
    return "gone" if found is None else str(section(found, "status")["phase"])


def phases(made: SimulatedCluster, *seconds: float) -> list[str]:
    """Phase of the pod at these times."""
    found = []
    for second in seconds:
        made.advance(int(second * SECOND))
        found.append(phase(made))
    return found


@pytest.mark.parametrize(
    ("cards", "slots", "seconds"), [(0, "", 90), (1, "", 90), (4, "", 22.5), (0, "3", 30)]
)
def test_a_trial_works_faster_with_more_slots(cards: int, slots: str, seconds: float) -> None:
    stated = [f"work-slots: {slots}"] if slots else []
    made = simulated(pod("work-slot-seconds: 90", *stated, cards=cards))
    bind(made, "a")
    assert phases(made, seconds - 0.5, seconds) == ["Running", "Succeeded"]


def test_a_request_to_release_is_followed_by_a_checkpoint_and_an_exit() -> None:
    text = pod("work-slot-seconds: 100", "checkpoint-seconds: 10") + "steps:\n" + asked_at(20)
    made = simulated(text)
    bind(made, "a")
    assert phases(made, 20, 29, 30) == ["Running", "Running", "Succeeded"]
    made.advance(200 * SECOND)
    assert made.settled


def test_work_that_would_end_while_the_checkpoint_is_written_is_not_done() -> None:
    text = pod("work-slot-seconds: 25", "checkpoint-seconds: 10") + "steps:\n" + asked_at(20)
    made = simulated(text)
    bind(made, "a")
    assert phases(made, 25, 29, 30) == ["Running", "Running", "Succeeded"]


def test_a_pod_that_writes_no_checkpoints_ignores_the_request() -> None:
    made = simulated(pod("work-slot-seconds: 100") + "steps:\n" + asked_at(20))
    bind(made, "a")
    assert phases(made, 99, 100) == ["Running", "Succeeded"]


@pytest.mark.parametrize("time", ["run-seconds: 100", "stop-seconds: 1"])
def test_any_pod_may_exit_on_request(time: str) -> None:
    made = simulated(pod(time, "checkpoint-seconds: 0") + "steps:\n" + asked_at(20))
    bind(made, "a")
    assert phases(made, 19, 20) == ["Running", "Succeeded"]


def test_a_pod_that_was_asked_before_it_ran_exits_when_it_runs() -> None:
    text = "start_delay: 5s\n" + pod("run-seconds: 100", "checkpoint-seconds: 2")
    made = simulated(text + "steps:\n" + asked_at(1))
    bind(made, "a")
    assert phases(made, 4, 5, 6, 7) == ["Pending", "Running", "Running", "Succeeded"]


def test_a_pod_that_ran_from_the_start_is_asked_too() -> None:
    text = (
        NODE
        + "  - {kind: Pod, metadata: {name: a, annotations: {muster.sh/checkpoint-seconds: 2, "
        + "muster.sh/release-requested: now}}, spec: {nodeName: n1}, status: {phase: Running}}\n"
    )
    assert phases(simulated(text), 1, 2) == ["Running", "Succeeded"]


def test_a_second_request_changes_nothing() -> None:
    text = pod("run-seconds: 100", "checkpoint-seconds: 10") + "steps:\n" + asked_at(20)
    merge = "{metadata: {annotations: {muster.sh/release-requested: later}}}"
    made = simulated(text + f"  - {{at: 25s, patch: [{{kind: Pod, name: a, merge: {merge}}}]}}\n")
    bind(made, "a")
    assert phases(made, 29, 30) == ["Running", "Succeeded"]


def test_a_pod_may_be_evicted_while_it_writes() -> None:
    text = pod("run-seconds: 100", "checkpoint-seconds: 10") + "steps:\n" + asked_at(20)
    made = simulated(text)
    bind(made, "a")
    made.advance(25 * SECOND)
    made.evict(EvictRequest(8, "default", "a", "", "n1"))
    assert phase(made) == "gone"


def test_a_trial_that_terminates_does_not_finish_its_work() -> None:
    made = simulated(pod("work-slot-seconds: 20", "stop-seconds: 30"))
    bind(made, "a")
    made.advance(10 * SECOND)
    made.evict(EvictRequest(8, "default", "a", "", "n1"))
    assert phases(made, 20, 39, 40) == ["Running", "Running", "gone"]


def test_a_stopped_node_hears_of_the_request_when_it_is_back() -> None:
    text = pod("run-seconds: 100", "checkpoint-seconds: 2") + "steps:\n"
    fault = "  - {at: 1s, fail: [{switch: s1, for: 60s}]}\n"
    hyper = "  - {kind: HyperNode, metadata: {name: s1}, spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n1}}}]}}\n"
    text = text.replace("steps:\n", hyper + "steps:\n") + fault + asked_at(20)
    made = simulated(text)
    bind(made, "a")
    assert phases(made, 59, 62, 63) == ["Running", "Running", "Succeeded"]


def test_restarted_containers_go_on_from_the_last_checkpoint() -> None:
    text = pod("work-slot-seconds: 100", "checkpoint-every-seconds: 30", cards=1)
    fault = "steps:\n  - {at: 70s, fail: [{node: n1, device: nvidia.com/gpu, index: 0, exit_code: 1}]}\n"
    made = simulated(text + fault)
    bind(made, "a")
    assert phases(made, 109, 110) == ["Running", "Succeeded"]


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("work-slot-seconds: many", "'many' is not a number of seconds"),
        ("checkpoint-seconds: -1", "'-1' is not a number of seconds"),
        ("checkpoint-every-seconds: 0", "must be longer than nothing"),
        ("work-slots: 0", "'0' is not a number of slots"),
    ],
)
def test_what_is_no_number_is_an_error(annotation: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        scenario(pod(annotation))


def test_the_request_is_seen_as_a_change_of_the_pod() -> None:
    made = simulated(pod("run-seconds: 100", "checkpoint-seconds: 1") + "steps:\n" + asked_at(20))
    bind(made, "a")
    seen(made)
    made.advance(30 * SECOND)
    assert seen(made) == ["Pod/a Running n1", "Pod/a Succeeded n1"]
