"""The account of a run: waiting, evictions and use, reckoned by hand."""

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from events.normalize import JsonObject
from replay.run_report import RunReport
from simulator.scenario import parse_scenario
from tests.scenarios.play import play

SCENARIO = """
scenario: a spot pod gives way after ten seconds, another waits for the end of who took its place
policy:
  actions: allocate, backfill, preempt
  tiers:
    - plugins: [{name: priority}, {name: gang, enablePreemptable: false}]
    - plugins: [{name: predicates}, {name: capacity-card}]
until: 45s
cluster:
  - {kind: PriorityClass, metadata: {name: hp}, value: 1000}
  - {kind: PriorityClass, metadata: {name: spot}, value: 100}
  - kind: Node
    metadata: {name: n1, labels: {nvidia.com/gpu.product: A10}}
    status: {allocatable: {cpu: 8, pods: 110, nvidia.com/gpu: 5}}
  - {kind: Queue, metadata: {name: q, annotations: {volcano.sh/card.quota: '{"A10": 4}'}}}
  - kind: Pod
    metadata:
      name: first
      annotations:
        scheduling.volcano.sh/queue-name: q
        volcano.sh/card.name: A10
        muster.sh/stop-seconds: 5
    spec:
      priorityClassName: spot
      containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 2}}}]
steps:
  - at: 10s
    apply:
      - kind: Pod
        metadata:
          name: urgent
          annotations:
            scheduling.volcano.sh/queue-name: q
            volcano.sh/card.name: A10
            muster.sh/run-seconds: 20
        spec:
          priorityClassName: hp
          containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 4}}}]
  - at: 12s
    apply:
      - kind: Pod
        metadata:
          name: second
          annotations: {scheduling.volcano.sh/queue-name: q, volcano.sh/card.name: A10}
        spec:
          priorityClassName: spot
          containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 2}}}]
"""


async def account_of(text: str) -> JsonObject:
    """The account of a scenario."""
    played = await play(parse_scenario(text, "account.yaml"))
    assert played.divergence is None
    account = played.result.document["account"]
    assert isinstance(account, dict)
    return account


async def test_waiting_time_by_priority_class_runs_from_first_seen_to_bound() -> None:
    account = await account_of(SCENARIO)
    assert account["waiting"] == {
        "hp": {
            "pods": 1,
            "started": 1,
            "never_started": 0,
            "seconds": {"mean": 5.0, "p50": 5.0, "p90": 5.0, "p99": 5.0, "max": 5.0},
        },
        "spot": {
            "pods": 2,
            "started": 2,
            "never_started": 0,
            "seconds": {"mean": 11.5, "p50": 0.0, "p90": 23.0, "p99": 23.0, "max": 23.0},
        },
    }


async def test_evictions_are_reported_with_lost_pod_and_card_seconds() -> None:
    account = await account_of(SCENARIO)
    assert account["evictions"] == {
        "spot": {
            "pods": 1,
            "by": {"preempt": 1},
            "lost_pod_seconds": 10.0,
            "lost_card_seconds": 20.0,
        }
    }


async def test_use_is_a_mean_over_time_and_a_peak() -> None:
    """2 cards for 10 s, 4 for 20 s, 2 for 10 s: 120 card-seconds of 45 s x 4, and of 45 s x 5."""
    account = await account_of(SCENARIO)
    assert account["use"] == {
        "q": {
            "A10": {
                "quota": 4.0,
                "mean": 2.6667,
                "peak": 4,
                "of_quota": 0.6667,
                "of_cluster": 0.5333,
            }
        }
    }
    assert account["cards"] == {"A10": {"there": 5.0, "mean": 2.6667, "of_cluster": 0.5333}}
    assert account["above_quota"] == {"pods": 0, "decisions": []}


async def test_never_started_pods_differ_from_pods_already_running() -> None:
    is_there = "    status: {phase: Running}\n    spec:\n      nodeName: n1\n"
    text = SCENARIO.replace("until: 45s", "until: 30s").replace("    spec:\n", is_there, 1)
    waiting = (await account_of(text))["waiting"]
    assert isinstance(waiting, dict)
    spot = waiting["spot"]
    assert isinstance(spot, dict)
    assert (spot["pods"], spot["started"], spot["never_started"]) == (1, 0, 1)


async def test_cards_count_as_long_as_their_node_is_there() -> None:
    """5 cards for 30 of 45 s; 2 of them in use for 10 s and 4 for 15 s, until their pod goes with the node."""
    lost = "\n  - {at: 30s, delete: [{kind: Node, name: n1}]}\n"
    account = await account_of(SCENARIO.rstrip("\n") + lost)
    assert account["cards"] == {"A10": {"there": 3.3333, "mean": 1.7778, "of_cluster": 0.5333}}


async def test_without_capacity_card_waiting_is_reported_and_card_use_is_not() -> None:
    account = await account_of(SCENARIO.replace("{name: capacity-card}", "{name: capacity}"))
    waiting = account["waiting"]
    assert isinstance(waiting, dict)
    assert list(waiting) == ["hp", "spot"]
    assert account["use"] == {}
    assert account["above_quota"] == {"pods": 0, "decisions": []}


async def test_a_quota_that_is_lowered_below_its_use_is_not_our_doing() -> None:
    lowered = """
  - at: 20s
    patch:
      - kind: Queue
        name: q
        merge: {metadata: {annotations: {volcano.sh/card.quota: '{"A10": 1}'}}}
"""
    account = await account_of(SCENARIO.rstrip("\n") + lowered)
    assert account["above_quota"] == {"pods": 0, "decisions": []}
    # 4 cards for 20 s and 1 for 25 s are allowed; 2 for 10 s and 4 for 20 s are used.
    assert account["use"] == {
        "q": {
            "A10": {
                "quota": 2.3333,
                "mean": 2.2222,
                "peak": 4,
                "of_quota": 0.9524,
                "of_cluster": 0.4444,
            }
        }
    }


async def test_a_decision_above_quota_is_reported_with_its_position() -> None:
    """Had the quota been 1, each of the three bindings would have been beyond it."""
    log, account = MemoryLog(), RunReport()
    end = await simulate(parse_scenario(SCENARIO, "account.yaml"), log, with_views=False)
    async for entries in log.read():
        for entry in entries:
            content = entry.content
            if entry.record.subject == "Queue//q" and content is not None:
                content = content.replace(b'\\"A10\\": 4', b'\\"A10\\": 1')
            account.add(entry.record, event_of(entry.record), content)
    above = account.document(end.cluster.now_ns)["above_quota"]
    assert isinstance(above, dict)
    assert above["pods"] == 3
    decisions = above["decisions"]
    assert isinstance(decisions, list)
    found = [one for one in decisions if isinstance(one, dict)]
    assert [one["allocated"] for one in found] == [2, 4, 2]
    assert {(one["queue"], one["card"], one["quota"]) for one in found} == {("q", "A10", 1)}


RELEASES = """
scenario: two pods are asked to release for a more important one
policy:
  pools: [{name: default, decider: priority, preemptionTimeout: 10s}]
until: 120s
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 100, pods: 110, nvidia.com/gpu: 8}}}
steps:
  - at: 1s
    apply:
      - kind: Pod
        metadata: {name: saves, annotations: {muster.sh/priority: "10", muster.sh/checkpoint-seconds: "5"}}
        spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}
      - kind: Pod
        metadata: {name: stays, annotations: {muster.sh/priority: "10"}}
        spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}
  - at: 61s
    apply:
      - kind: Pod
        metadata: {name: urgent, annotations: {muster.sh/priority: "90"}}
        spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 8}}}]}
"""


async def test_a_pod_that_is_asked_and_then_evicted_counts_once() -> None:
    """Both are asked at 61 s. One writes a checkpoint until 66 s; the other is evicted at 71 s, after 70 s."""
    account = await account_of(RELEASES)
    assert account["evictions"] == {
        "none": {
            "pods": 2,
            "by": {"release": 2},
            "lost_pod_seconds": 70.0,
            "lost_card_seconds": 0.0,
        }
    }


FAILURE = """
  - at: 64s
    fail: [{pod: default/saves, exit_code: 1}]
"""


async def test_a_pod_that_fails_after_it_was_asked_loses_its_work() -> None:
    account = await account_of(RELEASES.rstrip("\n") + FAILURE)
    found = account["evictions"]
    assert isinstance(found, dict)
    # 63 s until it failed, and 70 s of the one that is evicted.
    assert found["none"] == {
        "pods": 2,
        "by": {"release": 2},
        "lost_pod_seconds": 133.0,
        "lost_card_seconds": 0.0,
    }
