"""The figures behind the names: counted from durable records, read from State."""

import pytest
from msgspec import structs

from daemon.cluster.client.calls import BIND_POD, CALLS, WATCH
from daemon.metrics.closed import call_of, cause_of, code_of, resource_of, status_of
from daemon.metrics.sources import Lag
from events.cluster import ObjectUnreadable
from events.decision import Placement
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from events.outcome import BindFailed, BindOutcomeUnknown, PodBound
from events.watch import (
    WENT_BACK,
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    WatchClosed,
)
from features.leaf_switches.documents import SwitchGauge
from projections.observed_kind import UNREADABLE
from tests.daemon.metrics.builders import (
    CLUSTER,
    Figures,
    batch_of,
    made,
    played,
    samples,
    value,
)
from tests.features.ascend.builders import policy
from tests.features.leaf_switches.builders import map_of
from tests.scheduling.builders import EngineHarness


async def test_a_queue_is_exported_in_cards_cores_and_bytes() -> None:
    metrics = await played()
    cards = {"queue": "research", "resource": "H200"}
    assert value(metrics, "muster_queue_capability_cards", **cards) == 3
    assert value(metrics, "muster_queue_allocated_cards", **cards) == 3
    assert value(metrics, "muster_queue_request_cards", **cards) == 5
    assert value(metrics, "muster_queue_limit_cards", **cards) == 3
    assert value(metrics, "muster_queue_capability_cpu_cores", queue="research") == 4
    assert value(metrics, "muster_queue_allocated_cpu_cores", queue="research") == 3


async def test_what_is_without_limit_has_no_capability_and_all_else() -> None:
    metrics = await played()
    for measure in ("capability", "limit"):
        name = f"muster_queue_{measure}_memory_bytes"
        assert value(metrics, name, queue="research") is None
    assert value(metrics, "muster_queue_allocated_memory_bytes", queue="research") == 0


async def test_cards_of_all_nodes_are_summed_by_model() -> None:
    metrics = await played()
    names = ("cards", "healthy_cards", "allocated_cards", "free_cards", "quota_cards")
    found = [value(metrics, f"muster_{one}", card="H200") for one in names]
    assert found == [10, 8, 3, 5, 3]


def test_leaf_switches_are_counted_by_what_they_are() -> None:
    harness = EngineHarness(policy=policy())
    gauge = SwitchGauge()
    assert {*gauge.counts(harness.state.cluster).values()} == {0}
    switches = [
        {"tor_ip": "a", "server": []},
        {"tor_ip": "b", "server": []},
        {"tor_ip": "c", "server": [], "IsSharedTor": 1},
        {"tor_ip": "d", "server": [], "IsSharedTor": 1, "IsHealthy": 1},
    ]
    harness.see(ObjectSeen(map_of({"tor_count": 4, "server_list": switches})))
    assert gauge.counts(harness.state.cluster) == {
        "idle": 2,
        "shared": 1,
        "exclusive": 0,
        "unhealthy": 1,
    }


async def test_cards_that_only_quotas_name_are_none_and_quotas_add_up() -> None:
    more = """
  - kind: Queue
    metadata: {name: more, annotations: {volcano.sh/card.quota: '{"H200": 100, "K80": 2}'}}
"""
    metrics = await played(CLUSTER + more)
    assert value(metrics, "muster_quota_cards", card="H200") == 103
    found = [value(metrics, f"muster_{one}", card="K80") for one in ("cards", "quota_cards")]
    assert found == [0, 2]


async def test_pending_pod_groups_are_counted_by_queue_and_reason() -> None:
    metrics = await played()
    waiting = {"queue": "research", "code": "InsufficientScalarQuota"}
    assert value(metrics, "muster_pending_pod_groups", **waiting) == 2
    assert value(metrics, "muster_pending_pods", queue="research") == 2


async def test_a_group_that_waits_in_two_lines_counts_once() -> None:
    pods = """
cluster:
  - kind: PodGroup
    metadata: {name: g}
    spec: {minMember: 2}
    status: {phase: Inqueue}
  - kind: Pod
    metadata: {name: plain, annotations: {scheduling.k8s.io/group-name: g}}
    spec: {containers: [{}]}
  - kind: Pod
    metadata: {name: big, annotations: {scheduling.k8s.io/group-name: g}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
"""
    metrics = await played(pods)
    state = metrics.sources.state()
    assert state is not None
    assert len(state.cluster.scheduling_queue.of(state.cluster.groups["default/g"])) == 2
    groups = [one for one in samples(metrics) if one.name == "muster_pending_pod_groups"]
    assert [one.value for one in groups] == [1]
    assert value(metrics, "muster_pending_pods", queue="default") == 2


async def test_a_pod_group_in_bind_backoff_counts_as_pending() -> None:
    metrics = await played()
    state = metrics.sources.state()
    assert state is not None
    group = next(one for one in state.cluster.groups.values() if one.pending)
    state.cluster.bind_backoffs.until[group.key] = state.now_ns + 10**9
    state.cluster.pod_groups.settle_decided(state.cluster, group.key)
    labels = {"queue": "research", "code": "BackingOff"}
    assert value(metrics, "muster_pending_pod_groups", **labels) == 1
    assert value(metrics, "muster_pending_pods", queue="research") == 2


async def test_a_queue_that_is_gone_leaves_no_series() -> None:
    gone = CLUSTER + "steps:\n  - {at: 5s, delete: [{kind: Queue, name: research}]}\n"
    gone += "".join(
        f"  - {{at: 5s, delete: [{{kind: Pod, namespace: default, name: a-{index}}}]}}\n"
        for index in range(1, 6)
    )
    metrics = await played(gone)
    assert [one for one in samples(metrics) if one.labels.get("queue") == "research"] == []
    assert value(metrics, "muster_decisions_total", kind="bind") == 3


async def test_decisions_and_records_are_counted_once_durable() -> None:
    metrics = await played()
    assert value(metrics, "muster_decisions_total", kind="bind") == 3
    assert value(metrics, "muster_decisions_total", kind="refuse") == 2
    assert value(metrics, "muster_decisions_total", kind="evict") == 0
    assert value(metrics, "muster_placements_total", queue="research") == 3
    assert value(metrics, "muster_records_total", kind="gang_bind_decided") == 3
    assert value(metrics, "muster_outcomes_total", kind="pod_bound", code="") == 3
    counted = sum(one.value for one in samples(metrics) if one.name == "muster_records_total")
    assert counted == value(metrics, "muster_log_position")


def failed(code: str) -> BindFailed:
    return BindFailed(
        pod="default/a", uid="u", node="n", code=code, message="", latency_ns=40_000_000
    )


def test_bindings_are_timed_by_result() -> None:
    metrics = made()
    metrics.counted.observe_batch(
        batch_of(
            PodBound(pod="default/a", uid="u", node="n", latency_ns=40_000_000),
            failed("Conflict"),
            failed("made up by an admission webhook"),
            BindOutcomeUnknown(pod="default/a", uid="u", node="n", message=""),
        ),
        0.001,
    )
    count = "muster_bind_seconds_count"
    assert value(metrics, count, result="bound") == 1
    assert value(metrics, count, result="failed") == 2
    assert value(metrics, count, result="unknown") == 1
    assert value(metrics, "muster_bind_seconds_sum", result="failed") == pytest.approx(0.08)
    assert value(metrics, "muster_bind_seconds_bucket", result="bound", le="0.025") == 0
    assert value(metrics, "muster_bind_seconds_bucket", result="bound", le="0.05") == 1
    outcomes = "muster_outcomes_total"
    assert value(metrics, outcomes, kind="bind_failed", code="Conflict") == 1
    assert value(metrics, outcomes, kind="bind_failed", code="Other") == 1


async def test_a_wait_is_from_the_creation_of_the_pod_to_its_decision() -> None:
    metrics = await played(CLUSTER.replace("count: 5", "count: 1"))
    state = metrics.sources.state()
    assert state is not None
    [uid] = state.cluster.pods
    pod = state.cluster.pods[uid]
    facts = structs.replace(pod.facts, created_ns=88_000_000_000)
    state.cluster.pods[uid] = structs.replace(pod, facts=facts)
    where = Placement(pod="default/a-1", uid=uid, node="n1")
    gone = Placement(pod="default/b", uid="gone", node="n1")
    decided = GangBindDecided(pod_group="g", queue="research", placements=(where, gone))
    metrics.counted.observe_batch(batch_of(decided), 0.001)
    assert value(metrics, "muster_wait_seconds_sum", queue="research") == 12
    assert value(metrics, "muster_wait_seconds_count", queue="research") == 1


MANY_QUEUES = """
cluster:
  - kind: Node
    metadata: {name: n1}
    status: {allocatable: {cpu: 100, memory: 16Gi, pods: 110}}
  - kind: Queue
    metadata: {name: "team-{i}"}
    spec: {capability: {cpu: 2}}
    count: 3
  - kind: Pod
    metadata: {name: "a-{i}", annotations: {scheduling.volcano.sh/queue-name: "team-{i}"}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    count: 3
"""


async def test_queues_beyond_the_bound_share_a_series() -> None:
    metrics = await played(MANY_QUEUES, queues_max=1)
    allocated = "muster_queue_allocated_cpu_cores"
    labels = {one.labels["queue"] for one in samples(metrics) if "queue" in one.labels}
    own, other = sorted(labels, key=lambda name: name == "other")
    assert other == "other"
    assert own.startswith("team-")
    assert value(metrics, allocated, queue=own) == 1
    assert value(metrics, allocated, queue="other") == 2
    assert value(metrics, "muster_queue_capability_cpu_cores", queue=own) == 2
    # The limits of several queues do not add up to a limit that means something.
    assert value(metrics, "muster_queue_capability_cpu_cores", queue="other") is None


HOSTILE = """
policy:
  actions: "enqueue, allocate"
  tiers: [{plugins: [{name: gang}]}, {plugins: [{name: predicates}, {name: PLUGIN}]}]
cluster:
  - kind: Node
    metadata: {name: "h200", labels: {nvidia.com/gpu.product: H200}}
    status: {allocatable: {cpu: 100, nvidia.com/gpu: 1}, capacity: {nvidia.com/gpu: 1}}
  - kind: Node
    metadata: {name: "a100", labels: {nvidia.com/gpu.product: A100}}
    status: {allocatable: {cpu: 100, nvidia.com/gpu: 1}, capacity: {nvidia.com/gpu: 1}}
  - kind: Queue
    metadata: {name: research, annotations: {volcano.sh/card.quota: '{"H200": 9, "A100": 9}'}}
    spec: {}
  - kind: Pod
    metadata: {name: "q-{i}", annotations: {scheduling.volcano.sh/queue-name: "made-up-{i}"}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    count: 30
  - kind: Pod
    metadata: {name: "r-1", annotations: {scheduling.volcano.sh/queue-name: research}}
    spec: {containers: [{resources: {limits: {"example.com/r-1": 2, "example.com/r-2": 3}}}]}
  - kind: Pod
    metadata:
      name: "c-{i}"
      annotations: {scheduling.volcano.sh/queue-name: research, volcano.sh/card.name: "A100|H200|K40-{i}"}
    spec: {containers: [{resources: {limits: {nvidia.com/gpu: 2}}}]}
    count: 3
"""


async def test_a_tenant_who_invents_queues_makes_no_series_of_them() -> None:
    """Pods may name queues that do not exist; a thousand such names would be a thousand series of each metric."""
    metrics = await played(HOSTILE.replace("PLUGIN", "capacity"))
    queues = {one.labels["queue"] for one in samples(metrics) if "queue" in one.labels}
    assert queues == {"research", "other"}
    assert value(metrics, "muster_pending_pods", queue="other") == 30


@pytest.mark.parametrize(
    ("plugin", "sums"), [("capacity", {"other": 5}), ("capacity-card", {"choice": 6})]
)
async def test_a_tenant_who_invents_resources_makes_no_series_of_them(
    plugin: str, sums: dict[str, int]
) -> None:
    """Nor do those who combine card models in all the ways that there are."""
    metrics = await played(HOSTILE.replace("PLUGIN", plugin))
    requested = {
        one.labels["resource"]: one.value
        for one in samples(metrics)
        if one.name == "muster_queue_request_cards" and one.labels["queue"] == "research"
    }
    assert [name for name in requested if "example" in name or "|" in name] == []
    assert {name: requested[name] for name in sums} == sums
    for name in sums:
        labels = {"queue": "research", "resource": name}
        assert value(metrics, "muster_queue_limit_cards", **labels) is None


async def test_waits_are_told_apart_by_queue_until_the_queue_is_gone() -> None:
    metrics = await played(MANY_QUEUES)
    state = metrics.sources.state()
    assert state is not None
    for uid, pod in state.cluster.pods.items():
        queue = pod.facts.name.replace("a-", "team-")
        facts = structs.replace(pod.facts, created_ns=70_000_000_000)
        state.cluster.pods[uid] = structs.replace(pod, facts=facts)
        where = Placement(pod=f"default/{pod.facts.name}", uid=uid, node="n1")
        decided = GangBindDecided(pod_group="g", queue=queue, placements=(where,))
        metrics.counted.observe_batch(batch_of(decided), 0.001)
    assert value(metrics, "muster_wait_seconds_sum", queue="team-2") == 30
    queue_there = state.cluster.queues.pop("team-2")
    assert queue_there.facts is not None
    assert value(metrics, "muster_wait_seconds_sum", queue="team-2") is None
    assert value(metrics, "muster_wait_seconds_sum", queue="team-1") == 30


def test_a_request_is_counted_by_verb_and_resource_as_in_client_go() -> None:
    metrics = made()
    metrics.counted.observe_request(BIND_POD.what, 201, 0.004)
    metrics.counted.observe_request(BIND_POD.what, 0, 60.0)
    metrics.counted.observe_request(WATCH["Job.batch.volcano.sh"].what, 200, 0.1)
    binding = {"verb": "POST", "resource": "pods", "subresource": "binding"}
    jobs = {"verb": "WATCH", "resource": "jobs.batch.volcano.sh", "subresource": ""}
    counted = "muster_api_requests_total"
    assert value(metrics, counted, **binding, code="201") == 1
    assert value(metrics, counted, **binding, code="<error>") == 1
    assert value(metrics, counted, **jobs, code="200") == 1
    assert value(metrics, "muster_api_request_duration_seconds_count", **binding) == 2


def test_every_call_of_the_table_has_labels_of_its_own() -> None:
    """Only calls that differ in nothing but their namespace may share them."""
    labels = {call_of(call.what) for call in CALLS}
    assert len(labels) == len(
        {(call.verb, call.resource.qualified, call.subresource) for call in CALLS}
    )
    assert [call for call in CALLS if "other" in call_of(call.what)] == []


def test_nodes_that_turn_pods_away_and_strangers_are_counted() -> None:
    metrics = made()
    metrics.counted.observe_batch(
        batch_of(
            ForeignPodPlaced(pod="default/a", uid="u", node="n", scheduler="other"),
            ForeignPodPlaced(pod="default/b", uid="v", node="n", scheduler="other"),
            BindRejectedByNode(
                pod="default/a", uid="u", node="n", reason="OutOfcpu", resources=("cpu",)
            ),
        ),
        0.001,
    )
    assert value(metrics, "muster_foreign_placements_total") == 2
    assert value(metrics, "muster_node_rejections_total") == 1


def test_what_is_no_object_is_counted() -> None:
    metrics = made()
    shown = ObjectUnreadable(reason="not JSON", shown_digest="0", size_bytes=1)
    metrics.counted.observe_batch(batch_of(shown, shown), 0.001)
    assert value(metrics, "muster_no_objects_total") == 2


async def test_objects_that_could_not_be_read_are_counted_by_kind() -> None:
    metrics = await played(CLUSTER)
    assert value(metrics, "muster_unreadable_objects", kind="Pod") == 0
    state = metrics.sources.state()
    assert state is not None
    state.cluster.config_errors.put("Pod/default/a", ((UNREADABLE, "a bug"),))
    state.cluster.config_errors.put("ReplicaSet/default/a", ((UNREADABLE, "a bug"),))
    state.cluster.config_errors.put("Queue//q", (("InvalidQuantity", "no bug of ours"),))
    assert value(metrics, "muster_unreadable_objects", kind="Pod") == 1
    assert value(metrics, "muster_unreadable_objects", kind="Queue") == 0


def test_watches_are_counted_by_kind_and_cause() -> None:
    metrics = made()
    metrics.sources.watches = lambda: [
        Figures(restarts={"cut": 2, "weather": 1, "tides": 4}),
        Figures("Node", state="waiting", last_event_seconds=None),
        Figures("Gadget", restarts={}),
    ]
    restarts = "muster_watch_restarts_total"
    assert value(metrics, restarts, kind="Pod", cause="cut") == 2
    assert value(metrics, restarts, kind="Pod", cause="other") == 5
    assert value(metrics, "muster_watch_open", kind="Pod") == 1
    assert value(metrics, "muster_watch_open", kind="Node") == 0
    assert value(metrics, "muster_watch_open", kind="other") == 1
    assert value(metrics, "muster_watch_age_seconds", kind="Node") is None
    assert value(metrics, "muster_watch_age_seconds", kind="Pod") == 2.5
    assert value(metrics, "muster_watch_events_total", kind="Pod") == 10
    assert value(metrics, "muster_watch_dropped_total", kind="Pod") == 1


def test_full_lists_and_servers_that_were_set_back_are_counted() -> None:
    """A server that is set back is one event, though each kind has a gap of its own."""
    metrics = made()
    closed = [
        WatchClosed(resource=kind, resource_version="9", cause=WENT_BACK, has_gap=True)
        for kind in ("Node", "Pod")
    ]
    cut = WatchClosed(resource="Pod", resource_version="9", cause="cut")
    lists = [
        KindCompared(resource="Pod", resource_version="9", count=7, differences=differences)
        for differences in (0, 3)
    ]
    metrics.counted.observe_batch(batch_of(*closed, cut, *lists), 0.01)
    assert value(metrics, "muster_revisions_went_back_total") == 1
    assert value(metrics, "muster_full_lists_total", kind="Pod") == 2
    assert value(metrics, "muster_full_list_differences_total", kind="Pod") == 3


def test_a_standby_says_how_far_it_is_behind() -> None:
    metrics = made()
    metrics.sources.lag = lambda: Lag(records=3, seconds=0.5)
    assert value(metrics, "muster_log_lag_records") == 3
    assert value(metrics, "muster_log_lag_seconds") == 0.5


def test_metrics_report_the_process_and_why_it_is_not_ready() -> None:
    metrics = made()
    assert value(metrics, "muster_ready") == 0
    assert value(metrics, "muster_not_ready", reason="start") == 1
    assert value(metrics, "muster_leader") == 0
    assert value(metrics, "muster_log_lag_records") is None
    resident = value(metrics, "process_resident_memory_bytes")
    assert resident is not None
    assert resident > 1_000_000


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (call_of("create pods/binding"), ("POST", "pods", "binding")),
        (call_of("get /version"), ("GET", "version", "")),
        (call_of("get /anything/a/user/made"), ("other", "other", "")),
        (status_of(201), "201"),
        (status_of(0), "<error>"),
        (status_of(99999), "<error>"),
        (cause_of("stalled"), "stalled"),
        (resource_of("Job.batch.volcano.sh"), "Job.batch.volcano.sh"),
        (code_of(""), ""),
        (code_of("OutOfLuck"), "Other"),
    ],
)
def test_what_comes_from_outside_is_mapped_onto_closed_lists(
    label: object, expected: object
) -> None:
    assert label == expected


async def test_faults_and_restarts_are_counted() -> None:
    metrics = await played(
        """
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {cpu: "4"}, conditions: [{type: Ready, status: "True"}]}
    count: 3
policy:
  actions: "reschedule, allocate"
  configurations: [{name: reschedule, arguments: {mode: force}}]
steps:
  - at: 1s
    apply:
      - apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {name: j}
        spec:
          minAvailable: 2
          tasks: [{name: w, replicas: 2, template: {spec: {containers: [{resources: {requests: {cpu: "4"}}}]}}}]
  - at: 10s
    patch: [{kind: Node, name: n2, merge: {status: {conditions: [{type: Ready, status: Unknown}]}}}]
"""
    )
    assert value(metrics, "muster_node_faults", effect="NodeUnhealthy") == 1
    assert value(metrics, "muster_faulty_pods", fault="NodeUnhealthy") == 0
    assert value(metrics, "muster_rescheduled_pods_total", scope="job") == 2
    assert value(metrics, "muster_restart_seconds_count", result="Restarted") == 1
    assert value(metrics, "muster_restarting_pod_groups") == 0
    assert value(metrics, "muster_stranded_pod_groups") == 0
