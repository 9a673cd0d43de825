"""A world can be made again from its scenario and the calls made of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.errors import UsageError
from events.messages import BindRequest, PodGroupPhaseRequest, Request
from simulator.cluster import SimulatedCluster
from simulator.journal import execute_and_record, fingerprint, rebuild_cluster
from tests.simulator.builders import SECOND, scenario

CARDS = 3
SCENARIO = scenario(
    f"""\
    start_delay: 1s
    cluster:
      - {{kind: Node, metadata: {{name: "n{{i}}"}}, status: {{allocatable: {{nvidia.com/gpu: {CARDS}}}}}, count: 2}}
      - {{kind: PodGroup, metadata: {{name: g}}}}
      - kind: Pod
        metadata: {{name: "p{{i}}", annotations: {{muster.sh/run-seconds: "7", muster.sh/stop-seconds: "2"}}}}
        spec: {{containers: [{{resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}
        count: 6
      - kind: Job
        metadata: {{name: j}}
        spec: {{parallelism: 2, completions: 9, template: {{spec: {{containers: [{{resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}}}
    steps:
      - {{at: 3s, delete: [{{kind: Pod, name: p1}}]}}
      - {{at: 5s, fail: [{{pod: j-0}}]}}
      - {{at: 8s, patch: [{{kind: Node, name: n1, merge: {{status: {{conditions: [{{type: Ready, status: Unknown}}]}}}}}}]}}
      - {{at: 12s, delete: [{{kind: Node, name: n1}}]}}
    """
)
names = st.sampled_from([*(f"p{index}" for index in range(1, 7)), *(f"j-{n}" for n in range(4))])
requests: st.SearchStrategy[Request] = st.builds(
    BindRequest, st.just(1), st.just("default"), names, st.just(""), st.sampled_from(["n1", "n2"])
) | st.builds(
    PodGroupPhaseRequest,
    st.just(2),
    st.just("default"),
    st.just("g"),
    st.just(""),
    st.sampled_from(["Inqueue", "Running"]),
)
histories = st.lists(st.tuples(st.integers(0, 2 * SECOND), requests), max_size=20)


@settings(max_examples=150, deadline=None)
@given(histories)
def test_the_same_calls_give_the_same_cluster_and_no_node_is_overcommitted(
    history: list[tuple[int, Request]],
) -> None:
    simulated = SimulatedCluster(SCENARIO)
    calls = []
    for pause, request in history:
        # A world that is looked at more often is no other world.
        simulated.advance(simulated.now_ns + pause // 2)
        simulated.advance(simulated.now_ns + pause - pause // 2)
        calls.append(execute_and_record(simulated, request)[1])
        for node in ("n1", "n2"):
            assert 0 <= simulated.used(node).get("nvidia.com/gpu", 0) <= CARDS
    again = rebuild_cluster(SCENARIO, calls)
    again.advance(simulated.now_ns)
    assert again.journal == simulated.journal
    simulated.relist()
    assert again.poll_watch() == simulated.poll_watch()
    bound = [
        call.subject for call in simulated.journal if (call.verb, call.result) == ("bind", "done")
    ]
    assert len(bound) == len(set(bound))


def test_calls_of_another_scenario_are_refused() -> None:
    simulated = SimulatedCluster(SCENARIO)
    _, call = execute_and_record(simulated, BindRequest(1, "default", "p1", "", "n1"))
    with pytest.raises(UsageError, match="the calls do not fit the scenario: bind default/p1"):
        rebuild_cluster(scenario("cluster: []"), [call])


def test_a_scenario_is_known_by_what_it_does() -> None:
    text = "cluster: [{kind: Node, metadata: {name: n1}}]\n"
    assert fingerprint(scenario(text)) == fingerprint(scenario(text + "expect: {pods: null}\n"))
    assert fingerprint(scenario(text)) != fingerprint(scenario(text + "start_delay: 1s\n"))
    policy = "policy: {actions: allocate}\n"
    assert fingerprint(scenario("cycles: 2\n" + policy)) == fingerprint(
        scenario(policy + "cycles: 2\n")
    )
