"""Faults that are written on pods for a controller outside: how often it is tried, and what is kept of it."""

import pytest

from daemon.log.memory import MemoryLog
from daemon.queries.replay import replay_log
from daemon.simulation import SimulationRun, simulate
from events.codec import event_of
from events.decisions.faults_marked import FaultsMarked
from events.messages import Accepted, OutcomeUnknown, PodMarkRequest, Rejected, Reply
from events.outcome import StatusUpdated, StatusUpdateFailed
from features.table import FEATURES
from projections import snapshot
from projections.fault_marks import TRIES_MAX
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from simulator.scenario import parse_scenario

TEXT = """
scenario: two pods of a job that another controller restarts
policy:
  actions: "enqueue, reschedule, allocate"
  configurations: [{name: reschedule, arguments: {conditions: [Broken], ARGUMENTS}}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - {kind: Node, metadata: {name: "n{i}"}, status: {allocatable: {cpu: 1}}, count: 2}
  - apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {name: train, labels: {fault-scheduling: MODE}}
    spec:
      minAvailable: 2
      tasks:
        - name: worker
          replicas: 2
          template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}
until: 100s
steps:
  - {at: 10s, fail: [{node: n1, condition: Broken, for: 30s}]}
"""
ANNOTATION = "huawei.com/pod-status"


async def played(
    steps: str = "", mode: str = "external-force", arguments: str = ""
) -> tuple[MemoryLog, SimulationRun]:
    text = TEXT.replace("MODE", mode).replace("ARGUMENTS", arguments)
    log = MemoryLog()
    run = await simulate(parse_scenario(text + steps, "marks.yaml"), log, with_views=False)
    assert (await replay_log(log)).divergence is None
    return log, run


def marks(log: MemoryLog) -> list[FaultsMarked]:
    events = [event_of(record) for record in log.memory.records]
    return [one for one in events if isinstance(one, FaultsMarked)]


def written(run: SimulationRun) -> dict[str, object]:
    """The annotation of each pod."""
    pods = run.cluster.store.objects()["Pod"]
    return {
        key[2]: section(pod, "metadata", "annotations").get(ANNOTATION) for key, pod in pods.items()
    }


@pytest.mark.parametrize("mode", ["external-force", "external-grace"])
async def test_the_fault_of_a_pod_is_decided_and_written_once(mode: str) -> None:
    log, run = await played(mode=mode)
    (mark,) = marks(log)
    assert mark.mode == mode
    assert [one.node for one in mark.members] == ["n1"]
    assert sorted(written(run).items(), key=str) == [
        ("train-worker-0", "Unhealthy-NodeUnhealthy"),
        ("train-worker-1", None),
    ]
    assert not run.state.cluster.reschedulings.marks, "the fault is over"


async def test_a_fault_that_comes_again_is_decided_again() -> None:
    log, _ = await played("  - {at: 60s, fail: [{node: n1, condition: Broken, for: 10s}]}\n")
    assert len(marks(log)) == 2


async def test_a_fault_within_the_tolerance_is_not_written() -> None:
    log, run = await played(arguments="tolerance: 31s")
    assert not marks(log)
    assert set(written(run).values()) == {None}


async def test_a_mark_is_gone_with_its_pod() -> None:
    log, run = await played("  - {at: 20s, delete: [{kind: Pod, name: train-worker-0}]}\n")
    assert len(marks(log)) == 1
    assert not run.state.cluster.reschedulings.marks


async def test_it_is_tried_three_times_if_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PodMarkRequest] = []

    def mark_pod(_: SimulatedCluster, request: PodMarkRequest) -> Reply:
        asked.append(request)
        return OutcomeUnknown("the connection was lost")

    monkeypatch.setattr(SimulatedCluster, "mark_pod", mark_pod)
    cycles = "".join(
        f"  - {{at: {at}s, patch: [{{kind: Node, name: n2, merge: {{metadata: {{labels: {{at: a{at}}}}}}}}}]}}\n"
        for at in range(12, 24, 2)
    )
    log, _ = await played(cycles)
    assert len(asked) == TRIES_MAX
    assert len({one.decision for one in asked}) == 1
    failed = [event_of(one) for one in log.memory.records if one.kind.startswith("status_update_f")]
    assert [one.what for one in failed if isinstance(one, StatusUpdateFailed)] == ["pod-status"] * 3


async def test_a_refusal_is_final_and_a_success_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies: list[Reply] = [Rejected("NotFound", "it is gone"), Accepted()]
    monkeypatch.setattr(SimulatedCluster, "mark_pod", lambda *_: replies.pop(0))
    log, _ = await played("  - {at: 60s, fail: [{node: n1, condition: Broken, for: 10s}]}\n")
    assert not replies
    outcomes = [event_of(record) for record in log.memory.records]
    found = [
        type(one)
        for one in outcomes
        if isinstance(one, StatusUpdated | StatusUpdateFailed) and one.what == "pod-status"
    ]
    assert found == [StatusUpdateFailed, StatusUpdated]


async def test_marks_are_part_of_snapshots() -> None:
    text = TEXT.replace("MODE", "external-force").replace("ARGUMENTS", "").replace("100s", "20s")
    log = MemoryLog()
    run = await simulate(parse_scenario(text, "marks.yaml"), log, with_views=False)
    (mark,) = run.state.cluster.reschedulings.marks.values()
    assert mark.is_done
    restored = snapshot.restore(snapshot.take(run.state), FEATURES)
    assert restored.cluster.reschedulings.marks == run.state.cluster.reschedulings.marks
