"""What is written about faults for other programs: nodes, retries, restarts and their reasons."""

import json
from textwrap import dedent

import pytest
from msgspec import structs

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from engine.engine import Engine
from events.decisions.reschedule import RescheduleDecided, RestartedPod
from events.messages import Accepted, Answer, ConfigMapRequest, OutcomeUnknown, Rejected, Reply
from events.record import GENESIS
from features.ascend.fault_config_maps import (
    BYTES_MAX,
    FAULTS,
    RESTARTS,
    FaultNodes,
    RestartRecords,
)
from features.table import FEATURES
from projections import snapshot
from projections.reschedule_records import JOBS_MAX, RECORDS_MAX, TASKS_MAX, JobRecords, add_record
from projections.rescheduling import Retries
from projections.state import State
from projections.written_config_map import WrittenConfigMap
from simulator.scenario import parse_scenario

SECOND = 1_000_000_000

SCENARIO = """
scenario: a chip of the second of four nodes breaks, and the job of two pods is restarted
until: 60s
policy:
  actions: "enqueue, allocate"
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}, PLUGIN]}]
cluster:
  - kind: Node
    metadata:
      name: "n{i}"
      labels: {accelerator: huawei-Ascend910, host-arch: huawei-arm, accelerator-type: module}
      annotations:
        baseDeviceInfos: '{"Ascend910-0":{},"Ascend910-1":{},"Ascend910-2":{},"Ascend910-3":{},"Ascend910-4":{},"Ascend910-5":{},"Ascend910-6":{},"Ascend910-7":{}}'
    status: {allocatable: {cpu: "64", huawei.com/Ascend910: "8"}}
    count: 4
  - apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {name: train, labels: {ring-controller.atlas: ascend-910, fault-scheduling: grace}}
    spec:
      minAvailable: 2
      tasks:
        - name: worker
          replicas: 2
          template:
            metadata: {labels: {ring-controller.atlas: ascend-910}}
            spec:
              nodeSelector: {host-arch: huawei-arm, accelerator-type: module}
              containers: [{name: main, resources: {requests: {huawei.com/Ascend910: "8"}, limits: {huawei.com/Ascend910: "8"}}}]
steps:
  - {at: 0s, devices: [{node: n1, report: {}}, {node: n2, report: {}}, {node: n3, report: {}}, {node: n4, report: {}}]}
  - {at: 10s, fail: [{node: n2, device: Ascend910-3, code: 80E18005}, {node: n3, device: Ascend910-1, kind: network}, {node: n4, device: Ascend910-0, level: SubHealthFault}]}
"""


async def state_of(plugin: str = "{name: volcano-npu}") -> State:
    log = MemoryLog()
    text = dedent(SCENARIO.replace("PLUGIN", plugin))
    run = await simulate(parse_scenario(text, "maps.yaml"), log, with_views=False)
    return run.state


def asked(state: State) -> dict[str, ConfigMapRequest]:
    hooks = state.cluster.features.of(WrittenConfigMap)
    found = {one.what: one for hook in hooks for one in hook.requests(state.cluster)}
    assert bool(found) == any(one.is_due(state.cluster) for one in hooks)
    return found


def answer(state: State, request: ConfigMapRequest, reply: Reply) -> None:
    engine = Engine(state, structs.replace(GENESIS, position=state.position))
    engine.report([Answer(request, reply)], state.now_ns)


async def test_nodes_are_listed_with_their_worst_state_and_healthy_ones_are_not() -> None:
    state = await state_of()
    nodes = json.loads(asked(state)[FAULTS].data["fault-node"])
    assert [(one["NodeName"], one["NodeHealthState"]) for one in nodes] == [
        ("n2", "CardUnhealthy"),
        ("n3", "CardNetworkUnhealthy"),
    ]
    second, third = nodes
    assert second["UnhealthyNPU"] == ["Ascend910-3"]
    assert second["NetworkUnhealthyNPU"] == []
    assert third["NetworkUnhealthyNPU"] == ["Ascend910-1"]
    assert second["FaultDeviceList"] == [
        {
            "fault_type": "CardUnhealthy",
            "npu_name": "Ascend910-3",
            "fault_handling": "SeparateNPU",
            "fault_code": "80E18005",
        }
    ]
    assert second["UpdateTime"] == state.now_ns // SECOND


async def test_restarts_are_listed_with_their_reasons() -> None:
    state = await state_of()
    text = asked(state)[RESTARTS].data["recent-reschedule-records"]
    ((key, job),) = json.loads(text).items()
    assert key.startswith("default/train")
    assert (job["JobID"], job["TotalRescheduleTimes"], job["AdditionalInfo"]) == (key, 1, "")
    (record,) = job["RescheduleRecords"]
    assert record["RescheduleTimeStamp"] == 10
    assert record["LogFileFormatTime"] == "I0101 00:00:10.000000"
    (reason,) = record["ReasonOfTask"]
    assert reason == {
        "RescheduleReason": "CardUnhealthy",
        "PodName": "train-worker-1",
        "NodeName": "n2",
        "NodeRankIndex": "1",
    }


async def test_without_the_plugin_of_the_vendor_nothing_is_written() -> None:
    state = await state_of("{name: nodeorder}")
    assert asked(state) == {}


@pytest.mark.parametrize(
    ("reply", "is_asked_again"),
    [(Accepted(), False), (Rejected("Forbidden", "no"), False), (OutcomeUnknown("lost"), True)],
)
async def test_each_is_written_again_when_it_changes(reply: Reply, is_asked_again: bool) -> None:
    state = await state_of()
    request = asked(state)[FAULTS]
    answer(state, request, reply)
    assert (FAULTS in asked(state)) == is_asked_again
    assert RESTARTS in asked(state)
    state.cluster.reschedulings.reports.changed_at[FAULTS] += 1000
    assert FAULTS in asked(state)


async def test_what_is_written_and_the_records_are_part_of_snapshots() -> None:
    state = await state_of()
    answer(state, asked(state)[FAULTS], Accepted())
    again = snapshot.restore(snapshot.take(state), FEATURES)
    assert [*asked(again)] == [RESTARTS]
    assert RestartRecords().records_text(again.cluster) == RestartRecords().records_text(
        state.cluster
    )


def decided(key: str, pods: int) -> RescheduleDecided:
    members = tuple(
        RestartedPod(f"default/p-{at}", f"u{at}", "n" * 63, at, "CardUnhealthy", "broken")
        for at in range(pods)
    )
    return RescheduleDecided(
        pod_group=key,
        queue="q",
        evictions=(),
        action="reschedule",
        mode="grace",
        scope="job",
        members=members,
    )


def test_records_are_bounded_by_pods_records_and_jobs() -> None:
    kept: dict[str, JobRecords] = {}
    for at in range(15):
        add_record(kept, "uid", decided("default/a", 12), at)
    one = kept["default/a"]
    assert (one.total, len(one.records)) == (15, RECORDS_MAX)
    assert [record.at_ns for record in one.records] == [*range(14, 4, -1)]
    assert len(one.records[0].reasons) == TASKS_MAX
    add_record(kept, "another", decided("default/a", 1), 99)
    assert kept["default/a"].total == 1, "another workload of this name"
    for number in range(JOBS_MAX + 5):
        add_record(kept, "uid", decided(f"default/j{number}", 1), 100)
    assert len(kept) == JOBS_MAX
    assert "default/a" not in kept


async def test_texts_are_bounded_and_say_so() -> None:
    state = await state_of()
    book = state.cluster.reschedulings
    for number in range(JOBS_MAX):
        for at in range(RECORDS_MAX):
            add_record(
                book.reports.records,
                "uid",
                decided(f"default/{'j' * 200}{number}", 12),
                1000 * number + at,
            )
    text = RestartRecords().records_text(state.cluster)
    assert BYTES_MAX // 4 < len(text) <= BYTES_MAX
    jobs = json.loads(text)
    assert f"default/{'j' * 200}{JOBS_MAX - 1}" in jobs, "the newest stay"
    assert all("oldest" in one["AdditionalInfo"] for one in jobs.values())
    for number in range(20_000):
        book.retries[f"default/{number}"] = Retries("u" * 36, 3)
    retries = json.loads(FaultNodes().retries_text(state.cluster))
    assert "default/19999" in retries
    assert "default/0" not in retries
    assert (
        len(FaultNodes().nodes_text(state.cluster)) + len(FaultNodes().retries_text(state.cluster))
        <= BYTES_MAX
    )
