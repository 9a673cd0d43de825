"""The audit finds a wrong value in each attribute of each index."""

from pathlib import Path
from typing import ClassVar, Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from events.messages import DeletionSeen, ObjectSeen
from features.table import FEATURES
from projections.cluster import Cluster
from projections.index import Index
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.queues import Queue
from projections.state import State
from tests.example_count import examples
from tests.features.ascend.builders import npu_node, sub_healthy_report
from tests.features.gpu_shares.test_gpu_shares import node as shared_node
from tests.mutations import DERIVED, undetected
from tests.properties.machine import History
from tests.scenarios.play import HERE, play, scenario_of
from tests.scheduling.builders import EngineHarness, node, pod, raw
from tests.scheduling.slots import REAL, WITH_SLOTS, slot_node, slot_pod
from tests.scheduling.test_rejected_pods import pod as rejected_pod
from tests.scheduling.topology.builders import hyper_node


def brought() -> list[Index]:
    """The indexes of all features."""
    made = [one() for one in FEATURES.indexes]
    return [one for one in made if isinstance(one, Index)]


ATTRIBUTES: Final = {
    *((index.name, one) for index in Cluster(FEATURES).indexes.all for one in index.COMPARED),
    *((index.name, one) for index in brought() for one in index.COMPARED),
    *(("node", one) for one in Node.COMPARED),
    *(("queue", one) for one in Queue.COMPARED),
    *(("pod group", one) for one in PodGroup.COMPARED),
}

FILES: Final = sorted(HERE.rglob("*.yaml"))


def full() -> State:
    """A State with what scenarios seldom end with: a tree of queues, budgets, foreign groups, invalid HyperNodes."""
    capacity = {"name": "capacity", "enableHierarchy": True}
    actions = "reschedule, allocate"
    harness = EngineHarness(
        policy={
            "actions": actions,
            "tiers": [{"plugins": [capacity, {"name": "volcano-npu"}]}],
            "pools": [{"name": "fast", "nodeSelector": {"disk": "fast"}}, {"name": "default"}],
        },
        features=WITH_SLOTS,
    )
    harness.show_all("Node", node("n1"), node("n2"), slot_node("n3", "a-b"), shared_node("n4", 2))
    limited = {"annotations": {"muster.sh/namespaces": "default"}}
    harness.show_all(
        "Queue",
        raw("Queue", "eng", spec={}),
        raw("Queue", "dev", metadata=limited, spec={"parent": "eng"}),
    )
    owner = {"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    harness.show_all(
        "PodGroup",
        raw("PodGroup", "g", metadata={"ownerReferences": [owner]}, spec={"minMember": 1}),
        raw("PodGroup", "h", spec={"minMember": 1, "queue": "eng"}),
        raw("PodGroup", "k", spec={"minMember": 1}, status={"phase": "Unknown"}),
    )
    names_group = {"annotations": {"scheduling.k8s.io/group-name": "h"}}
    in_queue = {"annotations": {"scheduling.volcano.sh/queue-name": "dev"}}
    harness.show_all(
        "Pod",
        pod("a", metadata={**in_queue, "labels": {"app": "x"}}),
        pod("other", metadata=names_group, spec={"schedulerName": "volcano"}),
        slot_pod("s0", 1, on="n3", phase="Running", annotations={REAL: "a"}),
        slot_pod("s1", 1, on="n3", phase="Running", annotations={REAL: "a"}),
    )
    spec = {"namespace": "default", "name": "g", "uid": "uid-g", "priority": 60}
    override = raw("GroupOverride", "default.g", spec=spec, apiVersion="muster.sh/v1alpha1")
    harness.show_all("GroupOverride", override)
    harness.show_the_rest()
    harness.see(
        ObjectSeen(pod("k-0", metadata={"annotations": {"scheduling.k8s.io/group-name": "k"}}))
    )
    job = raw("Job", "j", apiVersion="batch.volcano.sh/v1alpha1", spec={"schedulerName": "volcano"})
    selector = {"matchLabels": {"app": "x"}}
    harness.see(
        ObjectSeen(raw("PodDisruptionBudget", "b", metadata=DEFAULT, spec={"selector": selector}))
    )
    harness.cycle()
    harness.see(
        ObjectSeen(job),
        DeletionSeen(job),
        ObjectSeen(hyper_node("s1", 1, "n1", children=("s2",))),
        ObjectSeen(hyper_node("s2", 2, "n2", children=("s1",))),
        ObjectSeen(hyper_node("s3", 3, children=("s1",))),
        ObjectSeen(rejected_pod("rejected")),
        ObjectSeen(npu_node("n5", 16, annotations={"superPodID": "1"})),
        ObjectSeen(sub_healthy_report("n5")),
        ObjectSeen(pod("on-n6", on="n6", phase="Running")),
        ObjectSeen(raw("PodGroup", "m", spec={"minMember": 2}, status={"phase": "Running"})),
        ObjectSeen(pod("m-0", on="n1", phase="Running", metadata=IN_GROUP_M)),
    )
    return harness.state


DEFAULT: Final = {"namespace": "default"}
IN_GROUP_M: Final = {"annotations": {"scheduling.k8s.io/group-name": "m"}}


def test_a_wrong_value_in_seldom_attributes_is_found() -> None:
    missed, tried = undetected(full())
    assert not missed, missed
    assert tried >= SELDOM, sorted(SELDOM - tried)


SELDOM: Final = {
    *(("HyperNodes", one) for one in ("circular", "multi_parent")),
    *(("foreign pod groups", one) for one in ("groups", "pod_counts", "queues")),
    ("budgets", "all"),
    *(("group overrides", one) for one in ("by_group", "group_of")),
    ("namespace access", "queues"),
    *(("faulty pods", one) for one in ("pods", "by_group", "closed", "stranded")),
    ("cards", "units"),
    ("configuration errors", "unreported"),
    ("holders of devices", "errors"),
    ("holders of devices", "pods"),
    ("queue", "sums"),
    ("rejected pods", "uids"),
    ("status updates", "phases"),
    ("SuperPoDs", "sub_healthy"),
}
"""Attributes without a value in the State at the end of scenarios."""


NAMED: Final = (
    "cards/nominated_cards_are_charged_to_the_quota",
    "faults/under_leaf_switches_a_switch_stays_with_a_restarted_job_whose_pod_there_is_gone",
    "gangs/a_role_that_has_its_minimum_may_fail",
    "tenants/pods_of_many_namespaces_of_one_tenant_close_nodes_to_that_tenant_only",
    "volumes/claims_of_controllers_are_made_and_bound",
)
"""Scenarios that end with values that others seldom end with."""


def with_words(*words: str) -> list[Path]:
    """Return the scenarios in which one of the words stands."""
    return [one for one in FILES if any(word in one.read_text("utf-8") for word in words)]


async def test_a_wrong_value_in_each_attribute_of_each_index_is_found() -> None:
    tried: set[tuple[str, str]] = set()
    some = (
        *FILES[::20],
        *with_words("kind: HyperNode", "superPodID")[::5],
        *with_words("basic-tor-node-cm")[::5],
        *with_words("guarantee:")[:2],
        *(HERE / f"{one}.yaml" for one in NAMED),
    )
    for path in some:
        state = (await play(scenario_of(path))).end.state
        missed, mutated = undetected(state)
        assert not missed, f"{path.stem}: {missed}"
        tried |= mutated
    untried = {
        one
        for one in ATTRIBUTES - tried
        if one not in SELDOM and one[1] not in (*DERIVED, "deleted_owners")
    }
    assert not untried, f"no scenario has a value to mutate: {sorted(untried)}"


class Mutated(History):
    """A history at whose end each index gets wrong values, one at a time."""

    tried: ClassVar[set[tuple[str, str]]] = set()

    def teardown(self) -> None:
        super().teardown()
        missed, mutated = undetected(self.engine.state)
        assert not missed, missed
        Mutated.tried |= mutated


def test_a_wrong_value_at_the_end_of_any_history_is_found() -> None:
    profile = settings(
        max_examples=examples(40),
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Mutated, settings=profile)
    assert {index for index, _ in Mutated.tried} >= {
        "node",
        "queue",
        "pod group",
        "scheduling queue",
    }
