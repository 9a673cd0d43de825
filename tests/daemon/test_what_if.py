"""A branch of a simulated log: without a change it is decided as recorded, with one it shows the effect."""

from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

from daemon.log.memory import MemoryLog
from daemon.queries.replay import replay_log
from daemon.queries.what_if import what_if
from daemon.simulation import simulate
from events.daemon import DaemonStarted
from events.errors import UsageError
from replay.log_time import LogTime
from replay.what_if_comparison import Branch, first_difference, moved_pods
from simulator import stateful_set
from simulator.scenario import Scenario, parse_scenario
from simulator.scenario_sources import load_sources
from simulator.what_if_change import parse_change
from tests.scenarios.play import FILES, name_of, scenario_of

NO_CHANGE = "steps: []"
SECOND = 1_000_000_000

SHOWN_NOWHERE = {
    "controllers/a_delayed_answer_is_dropped_when_the_pod_is_back": "a delayed policy of a Job",
    "controllers/a_group_needs_the_minimum_of_each_task": "it ends before the cluster answers",
    "controllers/a_pod_pending_timeout_aborts_its_job": "a delayed policy of a Job",
    "controllers/an_aborted_job_is_resumed_by_a_command": "a Command",
    "faults/in_mode_external_grace_a_fault_is_written_on_its_pod_and_nothing_is_deleted": (
        "the health of devices in the status of pods"
    ),
    "resize/a_pod_that_shrinks_frees_its_node_when_its_kubelet_has_done_it": (
        "the resize of a pod in its status"
    ),
    "devices/parts_of_a_chip_share_its_image_unit_and_its_virtual_groups": "a device plugin that confirms nothing",
    **dict.fromkeys(
        (
            "pools/a_cap_of_zero_pauses_a_running_job",
            "pools/a_gang_preempts_as_a_whole",
            "pools/a_more_important_newcomer_takes_what_is_becoming_free",
            "pools/a_partial_exit_of_victims_starts_nothing_less_important",
            "pools/a_second_pass_of_priority_releases_nobody_else",
            "pools/a_second_pass_releases_nobody_else",
            "pools/slots_that_become_free_for_a_task_are_given_to_no_other",
            "pools/the_newest_tasks_are_released_and_their_slots_wait_for_the_cause",
            "pools/two_gangs_wait_each_for_its_own_victims",
        ),
        "when pods exit that are asked to",
    ),
}
"""Scenarios whose log does not show all that led to it, and what it lacks (`docs/what-if.md`)."""

CARDS = """
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: NVIDIA-H200}}
    status: {allocatable: {cpu: "64", memory: 64Gi, pods: "100", nvidia.com/gpu: "8"}}
    count: 2
  - apiVersion: scheduling.volcano.sh/v1beta1
    kind: Queue
    metadata: {name: red, annotations: {volcano.sh/card.quota: '{"NVIDIA-H200": 2}'}}
    spec: {capability: {cpu: "64", memory: 64Gi}}
"""


def pods(count: int, annotations: str = "") -> str:
    """Manifests of pods a-1, a-2 ... of the queue red, each of one card."""
    names = "scheduling.volcano.sh/queue-name: red, volcano.sh/card.name: NVIDIA-H200"
    limits = "resources: {requests: {cpu: '1'}, limits: {nvidia.com/gpu: '1'}}"
    return (
        (
            "{apiVersion: v1, kind: Pod, count: COUNT, metadata: {name: 'a-{i}', annotations: {NAMES}},"
            " spec: {containers: [{name: c, LIMITS}]}}"
        )
        .replace("COUNT", str(count))
        .replace("NAMES", names + annotations)
        .replace("LIMITS", limits)
    )


FOUR_PODS = f"""{CARDS}
steps:
  - {{at: 5s, apply: [{pods(4, ", muster.sh/run-seconds: '20'")}]}}
  - {{at: 15s, delete: [{{kind: Node, name: n1}}]}}
"""
"""Two of four pods wait for quota; at 15 s a node is lost."""

QUOTA_OF_FOUR = """
steps:
  - at: 0s
    patch:
      - kind: Queue
        name: red
        merge: {metadata: {annotations: {volcano.sh/card.quota: '{"NVIDIA-H200": 4}'}}}
"""


async def log_of(scenario: Scenario | str) -> MemoryLog:
    if isinstance(scenario, str):
        scenario = parse_scenario("scenario: a test\n" + dedent(scenario), "test.yaml")
    scenario = load_sources(scenario, lambda name: Path(name).read_text(encoding="utf-8")).scenario
    log = MemoryLog()
    await simulate(scenario, log, with_views=False)
    return log


async def branch_of(
    log: MemoryLog, at: LogTime, change: str = NO_CHANGE, kept: MemoryLog | None = None
) -> Branch:
    return await what_if(
        log,
        at,
        lambda history, length_ns: parse_change(
            change,
            "change.yaml",
            objects=None if history is None else history.names,
            length_ns=length_ns,
        ),
        kept=kept,
    )


def ends_of_batches(log: MemoryLog) -> list[int]:
    """Positions at which a branch can begin: the cluster is listed, and something follows."""
    records = log.memory.records
    listed = max(one.position for one in records if one.kind.startswith("kind_listed"))
    ends = [one.position for one, after in pairwise(records) if after.batch != one.batch]
    return [end for end in ends if end >= listed]


def assert_as_recorded(branch: Branch) -> None:
    assert first_difference(branch.recorded, branch.model) is None
    assert branch.model.total() == branch.recorded.total()
    assert branch.model.groups == branch.recorded.groups
    assert branch.changed.decisions == branch.model.decisions


SHOWN = [one for one in FILES if name_of(one) not in SHOWN_NOWHERE]


async def assert_decided_again(path: Path) -> None:
    log = await log_of(scenario_of(path))
    ends = ends_of_batches(log)
    if ends:
        assert_as_recorded(await branch_of(log, LogTime(position=ends[len(ends) // 2])))


@pytest.mark.parametrize("path", SHOWN[::4], ids=name_of)
async def test_without_a_change_the_rest_of_a_log_is_decided_as_recorded(path: Path) -> None:
    await assert_decided_again(path)


@pytest.mark.soak
@pytest.mark.parametrize("path", [one for one in SHOWN if one not in SHOWN[::4]], ids=name_of)
async def test_without_a_change_the_rest_of_the_other_logs_is_decided_as_recorded(
    path: Path,
) -> None:
    await assert_decided_again(path)


async def test_a_branch_may_begin_behind_every_batch() -> None:
    log = await log_of(FOUR_PODS)
    ends = ends_of_batches(log)
    assert len(ends) > 5
    for end in ends:
        branch = await branch_of(log, LogTime(position=end))
        assert branch.head.position == end
        assert_as_recorded(branch)


async def test_a_position_inside_a_batch_begins_behind_the_batch_before() -> None:
    log = await log_of(FOUR_PODS)
    cycle = next(one for one in log.memory.records if one.kind.startswith("cycle_opened"))
    branch = await branch_of(log, LogTime(position=cycle.position))
    assert branch.head.position == cycle.position - 1
    assert branch.recorded.decisions
    assert_as_recorded(branch)


async def test_a_change_at_the_beginning_is_seen_by_a_cycle_of_the_same_moment() -> None:
    log = await log_of(FOUR_PODS)
    cycle = next(one for one in log.memory.records if one.kind.startswith("cycle_opened"))
    branch = await branch_of(log, LogTime(position=cycle.position), QUOTA_OF_FOUR)
    assert branch.at_ns == 5 * SECOND
    assert branch.changed.total().waits_ns == [0, 0, 0, 0]


async def test_a_larger_quota_places_the_pods_that_waited() -> None:
    log = await log_of(FOUR_PODS)
    branch = await branch_of(log, LogTime(since_start_ns=3 * SECOND), QUOTA_OF_FOUR)
    assert branch.recorded.total().waits_ns == [0, 0, 10 * SECOND, 10 * SECOND]
    assert branch.changed.total().waits_ns == [0, 0, 0, 0]
    pair = first_difference(branch.recorded, branch.changed)
    assert pair is not None
    assert pair.one is not None
    assert pair.other is not None
    assert (pair.one.decision.kind, pair.other.decision.kind) == ("refuse", "enqueue")
    assert pair.one.at_ns == pair.other.at_ns == 5 * SECOND
    assert_as_recorded(await branch_of(log, LogTime(since_start_ns=3 * SECOND)))


async def test_another_policy_decides_the_rest() -> None:
    log = await log_of(FOUR_PODS)
    without_quotas = """
        policy:
          actions: enqueue, allocate
          tiers: [{plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]}]
        """
    branch = await branch_of(log, LogTime(since_start_ns=3 * SECOND), dedent(without_quotas))
    assert branch.recorded.total().placed == 4
    assert branch.changed.total().waits_ns == [0, 0, 0, 0]


async def test_a_fault_that_is_dropped_did_not_happen() -> None:
    log = await log_of(FOUR_PODS)
    at = LogTime(since_start_ns=12 * SECOND)
    branch = await branch_of(log, at, "drop: [{kind: Node, name: n1}]")
    assert "n1" not in branch.model.state.cluster.nodes.nodes
    assert "n1" in branch.changed.state.cluster.nodes.nodes
    lost = [one for one in branch.recorded.nodes.values() if one == "n2"]
    assert len(lost) == len(branch.recorded.nodes)
    assert {"n1"} & set(branch.changed.nodes.values())


WEEK = """
until: 168h
start_delay: 30s
faults: {preset: high, seed: 2, after: 10m, scale: 20, card_condition: GpuUnhealthy}
policy:
  actions: "enqueue, reschedule, allocate"
  configurations:
    - {name: reschedule, arguments: {mode: grace, graceOverTime: 60s, conditions: [GpuUnhealthy], MORE}}
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H100}}
    status: {allocatable: {nvidia.com/gpu: 8}}
    count: 12
  - apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {name: "train-{i}"}
    count: 2
    spec:
      minAvailable: 4
      tasks:
        - name: worker
          replicas: 4
          template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""
"""Two gangs for a week, with faults from the tenth minute on."""

SAME_FAULTS = """
faults: {preset: high, seed: 2, scale: 20, card_condition: GpuUnhealthy}
drop: [{kind: Node}]
"""


async def test_the_same_faults_drawn_again_give_what_happened() -> None:
    log = await log_of(WEEK.replace("MORE", "reservation: 5m"))
    at = LogTime(since_start_ns=600 * SECOND)
    branch = await branch_of(log, at, SAME_FAULTS)
    recorded, changed = branch.recorded.total(), branch.changed.total()
    assert recorded.goodput.interruptions > 20
    assert first_difference(branch.recorded, branch.changed) is None
    assert changed == recorded
    assert branch.changed.goodput.card_ns == branch.recorded.goodput.card_ns


async def test_the_same_faults_can_meet_another_policy() -> None:
    log = await log_of(WEEK.replace("MORE", "reservation: 5m"))
    at = LogTime(since_start_ns=600 * SECOND)
    policy = WEEK[WEEK.index("policy:") : WEEK.index("cluster:")].replace("MORE", "tolerance: 70s")
    branch = await branch_of(log, at, policy + SAME_FAULTS)
    assert branch.changed.total().evicted < branch.recorded.total().evicted
    worked = branch.changed.total().goodput.useful
    assert 0 < worked < branch.changed.goodput.card_ns


async def test_records_that_are_not_there_cannot_be_dropped_by_kind() -> None:
    log = await log_of(FOUR_PODS)
    at = LogTime(since_start_ns=12 * SECOND)
    with pytest.raises(UsageError, match=r"no record after position .* is about any ConfigMap"):
        await branch_of(log, at, "drop: [{kind: ConfigMap}]")
    with pytest.raises(UsageError, match="namespace goes with a name"):
        await branch_of(log, at, "drop: [{kind: Pod, namespace: default}]")


async def test_a_node_that_is_deleted_takes_its_pods_along() -> None:
    # The last step makes the log go on for long enough.
    log = await log_of(
        CARDS
        + f"steps: [{{at: 5s, apply: [{pods(2)}]}},"
        + " {at: 50s, patch: [{kind: Node, name: n1, merge: {metadata: {labels: {a: b}}}}]}]"
    )
    at = LogTime(since_start_ns=10 * SECOND)
    change = "steps: [{at: 5s, delete: [{kind: Node, name: n1}]}]"
    branch = await branch_of(log, at, change)
    assert branch.recorded.total().card_ns == {"NVIDIA-H200": 2 * 40 * SECOND}
    there = [pod for pod in branch.model.state.cluster.pods.values() if pod.node == "n1"]
    assert there
    left = branch.changed.state.cluster.pods.values()
    assert not [pod for pod in left if pod.node == "n1"]
    hours = branch.changed.total().card_ns["NVIDIA-H200"]
    assert hours == 2 * 40 * SECOND - len(there) * 35 * SECOND


async def test_a_pod_that_is_placed_earlier_ends_earlier_after_the_recorded_time() -> None:
    """No annotation says how long it runs: the record shows that it failed 7 s after it started."""
    steps = f"""
        steps:
          - {{at: 5s, apply: [{pods(3)}]}}
          - {{at: 20s, fail: [{{pod: a-1}}]}}
          - {{at: 27s, fail: [{{pod: a-3}}]}}
          - {{at: 40s, patch: [{{kind: Node, name: n1, merge: {{metadata: {{labels: {{a: b}}}}}}}}]}}
        """
    log = await log_of(CARDS + dedent(steps))
    branch = await branch_of(log, LogTime(since_start_ns=3 * SECOND), QUOTA_OF_FOUR)
    recorded, changed = branch.recorded.groups, branch.changed.groups
    key = next(key for key, pod in branch.recorded.first_pod.items() if pod == "default/a-3")
    assert recorded[key].waits_ns == [15 * SECOND]
    assert changed[key].waits_ns == [0]
    assert recorded[key].card_ns == changed[key].card_ns == {"NVIDIA-H200": 7 * SECOND}


async def test_a_pod_that_was_drained_or_ended_by_its_node_stays_where_it_is_on_another_node() -> (
    None
):
    steps = f"""
        steps:
          - {{at: 5s, apply: [{pods(2)}]}}
          - {{at: 20s, patch: [{{kind: Node, name: n1, merge: {{spec: {{unschedulable: true}}}}}}]}}
          - {{at: 21s, delete: [{{kind: Pod, name: a-1}}]}}
          - {{at: 22s, patch: [{{kind: Pod, name: a-2, merge: {{status: {{phase: Failed, reason: Evicted}}}}}}]}}
          - {{at: 50s, patch: [{{kind: Node, name: n2, merge: {{metadata: {{labels: {{a: b}}}}}}}}]}}
        """
    log = await log_of(CARDS + dedent(steps))
    cordoned = (
        "steps: [{at: 0s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}]"
    )
    branch = await branch_of(log, LogTime(since_start_ns=3 * SECOND), cordoned)
    assert_as_recorded(await branch_of(log, LogTime(since_start_ns=3 * SECOND)))
    assert branch.recorded.nodes == {"default/a-1": "n1", "default/a-2": "n1"}
    assert branch.changed.nodes == {"default/a-1": "n2", "default/a-2": "n2"}
    pods_left = {one.key: one.status for one in branch.changed.state.cluster.pods.values()}
    assert pods_left == {"default/a-1": "running", "default/a-2": "running"}
    assert {one.key: one.status for one in branch.model.state.cluster.pods.values()} == {
        "default/a-2": "failed"
    }


async def test_a_pod_that_another_client_deleted_is_replaced_as_recorded() -> None:
    """The Deployment creates the same pod in both runs."""
    log = await log_of(
        dedent(PREEMPTION) + "  - {at: 40s, delete: [{kind: Pod, name: web-1-1}]}\n"
        "  - {at: 50s, delete: [{kind: Node, name: n1}]}\n"
    )
    for end in ends_of_batches(log)[:-1]:
        assert_as_recorded(await branch_of(log, LogTime(position=end)))


async def test_a_stateful_set_is_not_rolled_out_again_where_another_controller_named_its_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """
        cluster:
          - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
          - apiVersion: apps/v1
            kind: StatefulSet
            metadata: {name: db}
            spec:
              replicas: 2
              selector: {matchLabels: {app: db}}
              template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c}]}}
        steps:
          - {at: 20s, patch: [{kind: Node, name: n1, merge: {metadata: {labels: {a: b}}}}]}
          - {at: 30s, delete: [{kind: Pod, name: db-1}]}
        """
    with monkeypatch.context() as patched:
        patched.setattr(stateful_set, "revision_of", lambda _: "db-5d4f6c9b7")
        log = await log_of(text)
    branch = await branch_of(log, LogTime(since_start_ns=10 * SECOND))
    assert [one.decision.pod for one in branch.recorded.decisions][-1] == "default/db-1"
    assert_as_recorded(branch)


PREEMPTION = """
    policy:
      actions: enqueue, allocate, preempt
      tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
    cluster:
      - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
      - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
      - {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {}}
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 2
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}, annotations: {volcano.sh/preemptable: "true"}}
            spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
    steps:
      - at: 5s
        apply:
          - apiVersion: v1
            kind: Pod
            metadata: {name: urgent, annotations: {muster.sh/run-seconds: "20"}}
            spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
    """


async def test_an_eviction_is_avoided_where_another_node_has_room() -> None:
    log = await log_of(PREEMPTION)
    at = LogTime(since_start_ns=2 * SECOND)
    change = """
        steps:
          - at: 1s
            apply:
              - {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
        """
    branch = await branch_of(log, at, dedent(change))
    assert_as_recorded(await branch_of(log, at))
    assert branch.recorded.total().evicted == 1
    assert branch.changed.total().evicted == 0
    assert branch.changed.nodes["default/urgent"] == "n2"
    # The pod that the Deployment created in place of the evicted one is not created.
    replacements = {one for one in branch.recorded.nodes if one.startswith("default/web-")}
    assert replacements
    assert not replacements & {pod.key for pod in branch.changed.state.cluster.pods.values()}
    assert {one.pod for one in moved_pods(branch.recorded, branch.changed)} == {
        "default/urgent",
        *replacements,
    }


async def test_a_kept_branch_is_a_whole_log_that_replays() -> None:
    log, kept = await log_of(FOUR_PODS), MemoryLog()
    branch = await branch_of(log, LogTime(since_start_ns=12 * SECOND), QUOTA_OF_FOUR, kept)
    stands = branch.head.position
    assert [one.digest for one in kept.memory.records[:stands]] == [
        one.digest for one in log.memory.records[:stands]
    ]
    assert kept.memory.records[stands].kind == DaemonStarted.kind
    replayed = await replay_log(kept)
    assert replayed.divergence is None
    assert replayed.replay.head.position == kept.head.position > stands


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (LogTime(position=9_999), NO_CHANGE, "--at 9999: memory: holds positions 1 to "),
        (LogTime(position=0), NO_CHANGE, "--at 0: memory: holds positions 1 to "),
        (LogTime(position=3), NO_CHANGE, "the first lists of the cluster are not complete"),
        (
            LogTime(since_start_ns=9_999 * SECOND),
            NO_CHANGE,
            "--at 9999.000s is after its last record: memory: holds positions 1 to ",
        ),
        (LogTime(position=20), "stepz: []", "change.yaml:1: a change has no key 'stepz'"),
        (LogTime(position=20), "{}", "change.yaml:1: a change must have one of the keys"),
        (
            LogTime(position=20),
            "steps: [{at: 1s, delete: [{kind: Node, name: n9}]}]",
            "change.yaml:1: there is no Node n9 by then",
        ),
        (
            LogTime(position=20),
            "steps: [{at: 1h, delete: [{kind: Node, name: n1}]}]",
            "change.yaml:1: at: this step comes after the end of the log",
        ),
        (
            LogTime(position=20),
            "drop: [{kind: Node, name: n2}]",
            "change.yaml:1: drop: no record after position ",
        ),
        (
            LogTime(position=20),
            "policy: {}\npolicy_file: a.yaml",
            "change.yaml:2: policy_file cannot stand beside policy",
        ),
    ],
)
async def test_what_cannot_be_answered_is_one_line(at: LogTime, change: str, message: str) -> None:
    log = await log_of(FOUR_PODS)
    with pytest.raises(UsageError) as raised:
        await branch_of(log, at, change)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_redacted_object_is_named() -> None:
    log = await log_of(FOUR_PODS)
    pod = next(one for one in log.memory.records if one.subject == "Pod/default/a-1")
    assert pod.object is not None
    log.memory.contents[pod.object] = None
    with pytest.raises(
        UsageError, match=rf"position {pod.position}: the object of Pod/default/a-1"
    ):
        await branch_of(log, LogTime(position=16))
