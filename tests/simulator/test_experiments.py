"""Experiments of many trials, which are restarted from their checkpoints."""

import pytest

from events.errors import DocumentError
from events.messages import EvictRequest
from events.normalize import Json, JsonObject
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from simulator.scenario import parse_scenario
from tests.scenarios.play import play
from tests.simulator.builders import SECOND, bind, scenario, seen, simulated

NODE = (
    "cluster:\n  - {kind: Node, metadata: {name: n1}, "
    "status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 8}}}\n"
)


def experiment(spec: str, name: str = "e1") -> str:
    """An experiment in the cluster."""
    return (
        "  - {kind: Experiment, apiVersion: simulator.muster.sh/v1, "
        + f"metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"
    )


def released(second: int, *names: str) -> str:
    """A step that asks pods to release their resources."""
    merge = "{metadata: {annotations: {muster.sh/release-requested: '2026-01-01T00:00:00Z'}}}"
    patches = ", ".join(f"{{kind: Pod, name: {name}, merge: {merge}}}" for name in names)
    return f"  - {{at: {second}s, patch: [{patches}]}}\n"


def evict(made: SimulatedCluster, name: str) -> None:
    """Evict a pod."""
    made.evict(EvictRequest(8, "default", name, "", "n1"))


def pods(made: SimulatedCluster) -> dict[str, str]:
    """The pods of the cluster, and the phase of each."""
    found = made.store.objects().get("Pod", {})
    return {key[2]: str(section(one, "status")["phase"]) for key, one in sorted(found.items())}


def account(made: SimulatedCluster, name: str = "e1") -> JsonObject:
    """What the result document says of an experiment."""
    found = made.experiments[f"default/{name}"]
    assert isinstance(found, dict)
    return found


def counts(
    completed: int, restarts: int, work: float, lost: float, *, trials: int = 1, failed: int = 0
) -> JsonObject:
    """The account of an experiment."""
    return {
        "trials": trials,
        "completed": completed,
        "failed": failed,
        "restarts": restarts,
        "work_slot_seconds": work,
        "lost_slot_seconds": lost,
    }


def annotations(made: SimulatedCluster, name: str) -> dict[str, Json]:
    """Annotations of a pod."""
    return dict(section(made.find("Pod", "default", name) or {}, "metadata", "annotations"))


def test_a_trial_pod_says_what_it_is() -> None:
    made = simulated(
        NODE
        + experiment(
            "slotsPerTrial: 4, workSlotSeconds: 100.5, checkpointEverySeconds: 30, "
            "checkpointSeconds: 2, priority: 70, weight: 1.5, maxSlots: 8, pool: p, "
            "labels: {team: x, n: 1}, annotations: {muster.sh/preemption-timeout: 5m}"
        )
    )
    pod = made.find("Pod", "default", "e1-1-r1") or {}
    metadata = section(pod, "metadata")
    assert metadata["annotations"] == {
        "muster.sh/preemption-timeout": "5m",
        "muster.sh/job": "e1",
        "muster.sh/submitted-at": "1970-01-01T00:00:00Z",
        "muster.sh/checkpoint-seconds": "2",
        "muster.sh/priority": "70",
        "muster.sh/weight": "1.5",
        "muster.sh/max-slots": "8",
        "muster.sh/pool": "p",
        "muster.sh/work-slot-seconds": "100.5",
        "muster.sh/checkpoint-every-seconds": "30",
        "volcano.sh/task-index": "1",
    }
    assert metadata["labels"] == {
        "team": "x",
        "n": "1",
        "muster.sh/task": "e1-1",
        "determined.ai/task_type": "TRIAL",
    }
    spec = section(pod, "spec")
    asked: JsonObject = {"nvidia.com/gpu": "4"}
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"] == [
        {"name": "trial", "resources": {"requests": asked, "limits": asked}}
    ]
    owner = made.find("Experiment", "default", "e1") or {}
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    assert isinstance(owners[0], dict)
    assert owners[0]["uid"] == section(owner, "metadata")["uid"]
    assert owners[0]["controller"] is True


def test_as_many_trials_run_as_may() -> None:
    made = simulated(NODE + experiment("trials: 5, maxConcurrentTrials: 2, workSlotSeconds: 10"))
    assert [*pods(made)] == ["e1-1-r1", "e1-2-r1"]
    bind(made, "e1-1-r1")
    made.advance(10 * SECOND)
    assert pods(made) == {
        "e1-1-r1": "Succeeded",
        "e1-2-r1": "Pending",
        "e1-3-r1": "Pending",
    }
    assert account(made) == counts(1, 0, 10, 0, trials=5)


@pytest.mark.parametrize(("limit", "made_pods"), [("", 16), ("maxConcurrentTrials: 0, ", 20)])
def test_sixteen_trials_run_unless_stated_otherwise(limit: str, made_pods: int) -> None:
    made = simulated(NODE + experiment(f"{limit}trials: 20, workSlotSeconds: 10"))
    assert len(pods(made)) == made_pods


def test_a_released_trial_goes_on_with_the_work_that_is_left() -> None:
    spec = (
        "slotsPerTrial: 4, workSlotSeconds: 400, checkpointEverySeconds: 30, checkpointSeconds: 5"
    )
    made = simulated(NODE + experiment(spec) + "steps:\n" + released(40, "e1-1-r1"))
    bind(made, "e1-1-r1")
    made.advance(44 * SECOND)
    assert pods(made) == {"e1-1-r1": "Running"}
    made.advance(45 * SECOND)
    assert pods(made) == {"e1-1-r1": "Succeeded", "e1-1-r2": "Pending"}
    given = annotations(made, "e1-1-r2")
    assert given["muster.sh/work-slot-seconds"] == "240"
    assert given["muster.sh/submitted-at"] == "1970-01-01T00:00:00Z"
    bind(made, "e1-1-r2")
    made.advance(105 * SECOND)
    assert pods(made)["e1-1-r2"] == "Succeeded"
    assert account(made) == counts(1, 1, 400, 0)
    assert made.settled


def test_an_evicted_trial_goes_on_from_its_last_checkpoint() -> None:
    spec = "slotsPerTrial: 2, workSlotSeconds: 200, checkpointEverySeconds: 30"
    made = simulated(NODE + experiment(spec))
    bind(made, "e1-1-r1")
    made.advance(70 * SECOND)
    evict(made, "e1-1-r1")
    assert pods(made) == {"e1-1-r2": "Pending"}
    assert annotations(made, "e1-1-r2")["muster.sh/work-slot-seconds"] == "80"
    assert account(made) == counts(0, 1, 140, 20)
    bind(made, "e1-1-r2")
    made.advance(110 * SECOND)
    assert account(made) == counts(1, 1, 220, 20)


def test_a_trial_without_checkpoints_loses_all_when_it_is_evicted() -> None:
    made = simulated(NODE + experiment("workSlotSeconds: 100"))
    bind(made, "e1-1-r1")
    made.advance(99 * SECOND)
    evict(made, "e1-1-r1")
    assert annotations(made, "e1-1-r2")["muster.sh/work-slot-seconds"] == "100"
    assert account(made) == counts(0, 1, 99, 99)


def test_a_checkpoint_that_is_cut_short_keeps_nothing() -> None:
    spec = "workSlotSeconds: 100, checkpointEverySeconds: 30, checkpointSeconds: 10"
    made = simulated(NODE + experiment(spec) + "steps:\n" + released(50, "e1-1-r1"))
    bind(made, "e1-1-r1")
    made.advance(55 * SECOND)
    evict(made, "e1-1-r1")
    assert account(made) == counts(0, 1, 50, 20)


def test_a_pod_that_takes_time_to_stop_is_followed_when_it_is_gone() -> None:
    spec = "workSlotSeconds: 100, annotations: {muster.sh/stop-seconds: 5}"
    made = simulated(NODE + experiment(spec))
    bind(made, "e1-1-r1")
    made.advance(10 * SECOND)
    evict(made, "e1-1-r1")
    assert [*pods(made)] == ["e1-1-r1"]
    made.advance(15 * SECOND)
    assert [*pods(made)] == ["e1-1-r2"]
    assert account(made) == counts(0, 1, 10, 10)


def test_a_failed_trial_is_restarted_until_it_has_failed_too_often() -> None:
    steps = "".join(f"  - {{at: {at}s, fail: [{{pod: e1-1-r{at}}}]}}\n" for at in (1, 2))
    spec = "workSlotSeconds: 100, maxRestarts: 1, trials: 2, maxConcurrentTrials: 1"
    made = simulated(NODE + experiment(spec) + "steps:\n" + steps)
    for at in (1, 2):
        bind(made, f"e1-1-r{at}")
        made.advance(at * SECOND)
    assert pods(made) == {"e1-1-r1": "Failed", "e1-1-r2": "Failed", "e1-2-r1": "Pending"}
    assert account(made) == counts(0, 1, 2, 2, trials=2, failed=1)


def test_work_on_a_stopped_node_does_not_count() -> None:
    fault = "steps:\n  - {at: 50s, fail: [{node: n1, for: 100s}]}\n"
    spec = "workSlotSeconds: 1000, checkpointEverySeconds: 20"
    made = simulated(NODE + experiment(spec) + fault)
    bind(made, "e1-1-r1")
    made.advance(149 * SECOND)
    assert account(made) == counts(0, 0, 50, 0)
    made.advance(150 * SECOND)
    assert account(made) == counts(0, 1, 50, 10)


def test_the_pods_of_a_large_trial_are_one_gang() -> None:
    spec = "trials: 2, slotsPerTrial: 8, podsPerTrial: 2, workSlotSeconds: 800"
    made = simulated(NODE + experiment(spec))
    assert [*pods(made)] == ["e1-1-r1-0", "e1-1-r1-1", "e1-2-r1-0", "e1-2-r1-1"]
    pod = made.find("Pod", "default", "e1-2-r1-1") or {}
    labels = section(pod, "metadata", "labels")
    assert labels["pod-group.scheduling.sigs.k8s.io/name"] == "e1-2"
    assert labels["pod-group.scheduling.sigs.k8s.io/min-available"] == "2"
    assert annotations(made, "e1-2-r1-1")["muster.sh/work-slot-seconds"] == "400"
    for name in ("e1-1-r1-0", "e1-1-r1-1"):
        bind(made, name)
    made.advance(100 * SECOND)
    assert account(made) == counts(1, 0, 800, 0, trials=2)


def test_a_released_gang_goes_on_as_a_whole() -> None:
    spec = "slotsPerTrial: 8, podsPerTrial: 2, workSlotSeconds: 800, checkpointSeconds: 1"
    steps = "steps:\n" + released(40, "e1-1-r1-0", "e1-1-r1-1")
    made = simulated(NODE + experiment(spec) + steps)
    for name in ("e1-1-r1-0", "e1-1-r1-1"):
        bind(made, name)
    made.advance(41 * SECOND)
    assert pods(made) == {"e1-1-r2-0": "Pending", "e1-1-r2-1": "Pending"}
    assert annotations(made, "e1-1-r2-0")["muster.sh/work-slot-seconds"] == "240"
    assert account(made) == counts(0, 1, 320, 0)


def test_a_gang_that_loses_a_pod_is_restarted_as_a_whole() -> None:
    spec = "slotsPerTrial: 2, podsPerTrial: 2, workSlotSeconds: 200, checkpointEverySeconds: 30"
    made = simulated(NODE + experiment(spec))
    for name in ("e1-1-r1-0", "e1-1-r1-1"):
        bind(made, name)
    made.advance(40 * SECOND)
    evict(made, "e1-1-r1-0")
    assert pods(made) == {"e1-1-r2-0": "Pending", "e1-1-r2-1": "Pending"}
    assert account(made) == counts(0, 1, 80, 20)


def test_changed_options_are_written_on_the_pods() -> None:
    merge = "{spec: {priority: 80, maxSlots: null, weight: 3}}"
    patch = f"steps:\n  - {{at: 1s, patch: [{{kind: Experiment, name: e1, merge: {merge}}}]}}\n"
    made = simulated(NODE + experiment("priority: 50, maxSlots: 4") + patch)
    made.advance(SECOND)
    given = annotations(made, "e1-1-r1")
    assert (given["muster.sh/priority"], given["muster.sh/weight"]) == ("80", "3")
    assert "muster.sh/max-slots" not in given


def test_a_deleted_experiment_takes_its_pods_with_it() -> None:
    steps = "steps:\n  - {at: 20s, delete: [{kind: Experiment, name: e1}]}\n"
    made = simulated(NODE + experiment("trials: 2, workSlotSeconds: 100") + steps)
    bind(made, "e1-1-r1")
    made.advance(20 * SECOND)
    assert pods(made) == {}
    assert account(made)["trials"] == 2


def test_a_trial_on_cpus_has_so_many_slots() -> None:
    made = simulated(NODE + experiment("resource: cpu, slotsPerTrial: 4, workSlotSeconds: 40"))
    bind(made, "e1-1-r1")
    made.advance(10 * SECOND)
    assert account(made) == counts(1, 0, 40, 0)


def test_names_in_use_are_skipped() -> None:
    other = "  - {kind: Pod, metadata: {name: e1-1-r1}}\n"
    made = simulated(NODE + other + experiment("workSlotSeconds: 40"))
    assert [*pods(made)] == ["e1-1-r1", "e1-1-r2"]


def test_muster_does_not_see_an_experiment() -> None:
    made = simulated(NODE + "steps:\n  - at: 1s\n    apply:\n    " + experiment("trials: 1"))
    made.advance(SECOND)
    assert seen(made) == ["Pod/e1-1-r1 Pending"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("trial: 3", "has no key 'trial'"),
        ("trials: 0", "trials must be a whole number of at least 1"),
        ("slotsPerTrial: 3, podsPerTrial: 2", "3 slots of a trial cannot be divided by 2 pods"),
        ("workSlotSeconds: long", "'long' is not a number of seconds"),
        ("checkpointEverySeconds: 0", "must be longer than nothing"),
        ("weight: heavy", "'heavy' is not a number"),
        ("labels: [a]", "labels must be a mapping"),
    ],
)
def test_a_wrong_experiment_is_an_error(spec: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        scenario(NODE + experiment(spec))


async def test_a_scenario_can_expect_how_much_work_was_lost() -> None:
    text = (
        "scenario: an experiment\nuntil: 600s\n"
        + NODE
        + experiment(
            "trials: 10, slotsPerTrial: 2, workSlotSeconds: 100, checkpointEverySeconds: 20"
        )
        + "steps:\n"
        + released(10, "e1-1-r1")
        + "  - {at: 35s, delete: [{kind: Pod, name: e1-2-r1}]}\n"
        + "expect:\n  experiments:\n    default/e1: {trials: 10, completed: 10, restarts: 2, "
        + "work_slot_seconds: 1030, lost_slot_seconds: 30}\n"
    )
    played = await play(parse_scenario(text, "test.yaml"))
    assert [str(one) for one in played.result.differences] == []
    assert played.divergence is None


async def test_trials_of_one_pod_are_one_pod_group_and_each_gang_is_another() -> None:
    text = (
        "scenario: experiments\nuntil: 60s\n"
        + NODE
        + experiment("trials: 3, workSlotSeconds: 100")
        + experiment("trials: 2, slotsPerTrial: 4, podsPerTrial: 2, workSlotSeconds: 40", "e2")
        + "steps:\n"
        + "  - {at: 5s, delete: [{kind: Pod, name: e2-1-r1-0}]}\n"
    )
    played = await play(parse_scenario(text, "test.yaml"))
    groups = played.result.document["pod_groups"]
    assert isinstance(groups, dict)
    owner = played.end.cluster.find("Experiment", "default", "e1") or {}
    uid = section(owner, "metadata")["uid"]
    assert [*groups] == ["default/e2-1", "default/e2-2", f"default/podgroup-{uid}"]
    # The second gang waits for the first: `e1` has three of the eight cards. 5 s of 4 slots are lost.
    assert account(played.end.cluster, "e2") == counts(2, 1, 100, 20, trials=2)
    assert played.divergence is None
