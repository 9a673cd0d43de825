"""The simulated cluster does what an API server and kubelets would."""

from events.messages import Accepted, BindRequest, Rejected
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from tests.simulator.builders import SECOND, bind, scenario, seen, simulated

ONE_NODE = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10, nvidia.com/gpu: 2}}}
"""


def pods(*names: str, spec: str = "{}", annotations: str = "{}") -> str:
    """Entries of `cluster`, one pod each."""
    return "".join(
        f"  - {{kind: Pod, metadata: {{name: {name}, annotations: {annotations}}}, spec: {spec}}}\n"
        for name in names
    )


def card(count: int) -> str:
    """The spec of a pod that asks for cards."""
    return f"{{containers: [{{resources: {{limits: {{nvidia.com/gpu: {count}}}}}}}]}}"


def test_the_first_look_is_a_list_of_every_kind_nodes_first() -> None:
    made = SimulatedCluster(scenario(ONE_NODE + pods("b", "a")))
    shown = seen(made)
    assert shown[:2] == ["Node/n1", "listed Node 1"]
    assert shown[-3:] == ["Pod/a Pending", "Pod/b Pending", "listed Pod 2"]
    assert seen(made) == []


def test_a_new_reader_gets_a_list_of_what_is_there_now() -> None:
    made = simulated(ONE_NODE + pods("a"))
    bind(made, "a")
    made.relist()
    assert "Pod/a Running n1" in seen(made)


def test_a_pod_without_a_scheduler_is_ours_and_gets_what_admission_gives() -> None:
    made = simulated(
        ONE_NODE
        + "  - {kind: PriorityClass, metadata: {name: high}, value: 9}\n"
        + pods("a", spec="{priorityClassName: high, containers: [{resources: {limits: {cpu: 1}}}]}")
    )
    pod = made.find("Pod", "default", "a") or {}
    spec = section(pod, "spec")
    assert (spec["schedulerName"], spec["priority"]) == ("muster", 9)
    assert spec["containers"] == [{"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}}}]
    assert section(pod, "metadata")["uid"] == "uid-000003"
    assert section(pod, "metadata")["creationTimestamp"] == "1970-01-01T00:00:00Z"


def test_a_bound_pod_starts_runs_and_finishes() -> None:
    made = simulated(
        "start_delay: 2s\n" + ONE_NODE + pods("a", annotations="{muster.sh/run-seconds: 5}")
    )
    assert bind(made, "a") == Accepted()
    assert seen(made) == ["Pod/a Pending n1"]
    assert made.next_event_ns == 2 * SECOND
    made.advance(2 * SECOND)
    assert seen(made) == ["Pod/a Running n1"]
    made.advance(60 * SECOND)
    assert seen(made) == ["Pod/a Succeeded n1"]
    assert made.settled
    assert not any(made.used("n1").values())


def test_without_a_delay_a_pod_runs_at_the_instant_it_is_bound() -> None:
    made = simulated(ONE_NODE + pods("a"))
    bind(made, "a")
    assert seen(made) == ["Pod/a Pending n1", "Pod/a Running n1"]


def test_annotations_of_a_binding_are_merged() -> None:
    made = simulated(ONE_NODE + pods("a", annotations="{x: y}"))
    request = BindRequest(3, "default", "a", "uid-000002", "n1", {"devices": "0,1"})
    assert made.bind(request) == Accepted()
    pod = made.find("Pod", "default", "a") or {}
    assert section(pod, "metadata", "annotations") == {"x": "y", "devices": "0,1"}
    assert made.bind(request) == Accepted()
    assert [call.result for call in made.journal] == ["done", "again"]


def test_a_binding_that_cannot_be_is_refused() -> None:
    made = simulated(
        ONE_NODE
        + pods("a")
        + pods("gated", spec="{schedulingGates: [{name: g}]}")
        + '  - {kind: Pod, metadata: {name: going, deletionTimestamp: "2026-01-01T00:00:00Z"}}\n'
    )
    refusals = [
        bind(made, "none"),
        bind(made, "gated"),
        bind(made, "going"),
        bind(made, "a", uid="x"),
    ]
    bind(made, "a")
    refusals.append(bind(made, "a", node="n2"))
    codes = [reply.code for reply in refusals if isinstance(reply, Rejected)]
    assert codes == ["NotFound", "Conflict", "Conflict", "Conflict", "Conflict"]
    done = [call for call in made.journal if call.result == "done"]
    assert [(call.subject, call.value, call.decision) for call in done] == [("default/a", "n1", 7)]


def test_a_kubelet_rejects_what_its_node_cannot_hold() -> None:
    made = simulated(ONE_NODE + pods("a", "b", spec=card(2)))
    bind(made, "a")
    assert bind(made, "b") == Accepted()
    assert made.used("n1")["nvidia.com/gpu"] == 2
    pod = made.find("Pod", "default", "b") or {}
    assert section(pod, "status")["phase"] == "Failed"
    assert section(pod, "status")["reason"] == "UnexpectedAdmissionError"


def test_the_reason_of_a_rejection_names_the_resource() -> None:
    made = simulated(
        ONE_NODE
        + pods("cpu", spec="{containers: [{resources: {requests: {cpu: 5}}}]}")
        + pods("memory", spec="{containers: [{resources: {requests: {memory: 9Gi}}}]}")
        + pods("selector", spec="{nodeSelector: {a: b}}")
    )
    reasons = []
    for name in ("cpu", "memory", "selector"):
        bind(made, name)
        reasons.append(section(made.find("Pod", "default", name) or {}, "status")["reason"])
    assert reasons == ["OutOfcpu", "OutOfmemory", "NodeAffinity"]


def test_any_node_name_is_taken_but_a_node_that_is_not_there_runs_nothing() -> None:
    made = simulated(ONE_NODE + pods("a"))
    assert bind(made, "a", node="nowhere") == Accepted()
    assert seen(made) == ["Pod/a Pending nowhere"]
    assert made.settled


def test_a_node_that_is_not_ready_starts_its_pods_when_it_returns() -> None:
    made = simulated(
        ONE_NODE
        + pods("a")
        + """\
steps:
  - {at: 1s, patch: [{kind: Node, name: n1, merge: {status: {conditions: [{type: Ready, status: Unknown}]}}}]}
  - {at: 9s, patch: [{kind: Node, name: n1, merge: {status: {conditions: [{type: Ready, status: "True"}]}}}]}
"""
    )
    made.advance(SECOND)
    bind(made, "a")
    assert seen(made) == ["Node/n1", "Pod/a Pending n1"]
    made.advance(9 * SECOND)
    assert seen(made) == ["Node/n1", "Pod/a Running n1"]


def test_what_is_in_the_cluster_is_taken_as_it_stands() -> None:
    made = SimulatedCluster(
        scenario(
            ONE_NODE
            + """\
  - {kind: Pod, metadata: {name: old}, spec: {nodeName: n1, containers: [{resources: {limits: {nvidia.com/gpu: 3}}}]}, status: {phase: Running}}
  - {kind: Pod, metadata: {name: adrift}, status: {phase: Running}}
  - {kind: Pod, metadata: {name: going, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {nodeName: n1}, status: {phase: Running}}
  - {kind: PodGroup, metadata: {name: g}, status: {phase: Inqueue}}
  - {kind: Queue, metadata: {name: q}, status: {state: Closed}}
"""
        )
    )
    made.advance(3600 * SECOND)
    assert made.used("n1") == {"nvidia.com/gpu": 3, "pods": 2}
    shown = seen(made)
    assert "Pod/going Running n1 terminating" in shown
    assert "Pod/adrift Running" in shown
    assert "PodGroup/g Inqueue" in shown


def test_a_deleted_pod_leaves_in_the_time_that_it_takes_to_stop() -> None:
    made = simulated(
        ONE_NODE
        + pods("slow", annotations="{muster.sh/stop-seconds: 30}")
        + pods("quick", "waiting")
        + """\
steps:
  - {at: 1s, delete: [{kind: Pod, name: slow}, {kind: Pod, name: quick}, {kind: Pod, name: waiting}]}
"""
    )
    bind(made, "slow")
    bind(made, "quick")
    seen(made)
    made.advance(SECOND)
    assert seen(made) == [
        "Pod/slow Running n1 terminating",
        "gone Pod/quick Running n1",
        "gone Pod/waiting Pending",
    ]
    assert made.used("n1")["pods"] == 1
    made.advance(31 * SECOND)
    assert seen(made) == ["gone Pod/slow Running n1 terminating"]


def test_a_pod_of_a_node_that_does_not_answer_stays_until_it_is_deleted_by_force() -> None:
    made = simulated(
        ONE_NODE
        + pods("a")
        + """\
steps:
  - {at: 1s, patch: [{kind: Node, name: n1, merge: {status: {conditions: [{type: Ready, status: Unknown}]}}}]}
  - {at: 2s, delete: [{kind: Pod, name: a}]}
  - {at: 9s, delete: [{kind: Pod, name: a}]}
"""
    )
    bind(made, "a")
    made.advance(8 * SECOND)
    assert seen(made)[-1] == "Pod/a Running n1 terminating"
    made.advance(9 * SECOND)
    assert seen(made) == ["gone Pod/a Running n1 terminating"]


def test_a_failed_pod_frees_its_node() -> None:
    made = simulated(
        ONE_NODE
        + pods("a", spec=card(2))
        + "steps: [{at: 1s, fail: [{pod: default/a, exit_code: 137}]}]\n"
    )
    bind(made, "a")
    made.advance(SECOND)
    assert seen(made)[-1] == "Pod/a Failed n1"
    assert made.used("n1")["nvidia.com/gpu"] == 0


def test_the_pods_of_a_deleted_node_are_gone_with_it() -> None:
    made = simulated(ONE_NODE + pods("a") + "steps: [{at: 1s, delete: [{kind: Node, name: n1}]}]\n")
    bind(made, "a")
    seen(made)
    made.advance(SECOND)
    assert seen(made) == ["gone Node/n1", "gone Pod/a Running n1"]


def test_applying_again_changes_and_keeps_what_is_not_said() -> None:
    made = simulated(
        ONE_NODE
        + pods("a")
        + """\
steps:
  - {at: 1s, apply: [{kind: Pod, metadata: {name: a, labels: {x: y}}}]}
  - {at: 2s, patch: [{kind: Pod, name: a, merge: {metadata: {name: other, uid: other, labels: {x: null}}}}]}
"""
    )
    bind(made, "a")
    seen(made)
    made.advance(SECOND)
    assert seen(made) == ["Pod/a Running n1"]
    made.advance(2 * SECOND)
    pod = made.find("Pod", "default", "a") or {}
    assert section(pod, "metadata")["uid"] == "uid-000002"
    assert section(pod, "metadata", "labels") == {}


def test_the_same_calls_make_the_same_world() -> None:
    def play() -> list[object]:
        made = SimulatedCluster(scenario(ONE_NODE + pods("a", "b", spec=card(1))), origin_ns=10**18)
        first: list[object] = [*made.poll_watch()]
        bind(made, "a")
        made.advance(SECOND)
        bind(made, "b")
        return [*first, *made.poll_watch(), *made.journal]

    assert play() == play()
