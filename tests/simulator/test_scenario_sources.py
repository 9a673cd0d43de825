"""What a scenario names is read and put into it."""

import pytest

from events.errors import DocumentError
from events.policy_document import read_policy_document
from simulator.openb import POLICY
from simulator.scenario_sources import load_sources
from tests.simulator.builders import scenario
from tests.simulator.test_openb import NODES, PODS

FILES = {
    "policy.yaml": "actions: allocate\ntiers: []\n",
    "nodes.csv": NODES,
    "pods.csv": PODS,
    "order.csv": "pod,source_pod\nb,b\na,a\n",
}
TRACE = "trace: {format: openb, nodes: nodes.csv, pods: pods.csv"


def read(name: str) -> str:
    """A file by its name."""
    return FILES[name]


def test_a_scenario_that_names_nothing_is_complete() -> None:
    plain = scenario("cluster: []")
    assert load_sources(plain, read).scenario == plain
    assert load_sources(plain, read).notes is None


def test_a_policy_file_is_read() -> None:
    whole = load_sources(scenario("policy_file: policy.yaml"), read).scenario
    assert whole.policy == {"actions": "allocate", "tiers": []}


def test_a_trace_brings_nodes_pods_and_its_policy() -> None:
    done = load_sources(scenario(TRACE + "}"), read)
    assert (len(done.scenario.cluster), len(done.scenario.steps)) == (4, 3)
    assert done.scenario.policy == POLICY
    assert done.notes is not None
    assert done.notes.pods == 3


def test_a_policy_of_the_scenario_goes_before_that_of_the_trace() -> None:
    done = load_sources(scenario("policy_file: policy.yaml\n" + TRACE + "}"), read)
    assert done.scenario.policy == {"actions": "allocate", "tiers": []}


def test_an_order_of_arrival_is_read_and_played_one_a_period() -> None:
    text = "period: 2s\n" + TRACE + ", order: saturate, arrivals: order.csv}"
    steps = load_sources(scenario(text), read).scenario.steps
    assert [step.at_ns for step in steps] == [0, 2_000_000_000]


def test_a_workload_is_made_from_the_shipped_table() -> None:
    done = load_sources(scenario("workload: {name: openb, scale: 0.02}"), read)
    assert done.notes is not None
    assert (done.notes.nodes, done.notes.pods) == (30, 163)


def test_a_policy_that_is_no_mapping_is_refused_with_its_place() -> None:
    with pytest.raises(DocumentError, match=r"^p\.yaml:1: a policy must be a mapping"):
        read_policy_document("[]", "p.yaml")
