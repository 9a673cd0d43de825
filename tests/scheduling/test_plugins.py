"""Plugins beside muster, as the core sees them: what they read, and when they are asked again."""

from collections.abc import Iterator

import pytest

from events.normalize import JsonObject
from features.table import FEATURES
from projections import snapshot
from projections.pod_class import PodClass
from projections.state import State
from scheduling.pod_topology.plugin_columns import NodeFilter, NodeScore, NodeView
from tests.checkout import ROOT
from tests.scheduling.builders import EngineHarness, node, pod, raw

TEAM = "team"


class OneOfTeam(NodeFilter):
    """A node holds one pod of a team."""

    name = "one-of-team"
    version = "1"
    pod_labels = (TEAM,)

    def filter(self, pod: PodClass, node: NodeView) -> str:
        if not pod.plugin_labels:
            return ""
        has_one = any(pod.plugin_labels[0] in other.facts.labels for other in node.pods)
        return "had a pod of the team" if has_one else ""


class Marked(NodeScore):
    """Marked nodes come first."""

    name = "marked"
    version = "1"

    def score(self, pod: PodClass, node: NodeView) -> float:
        return 1e9 if "marked" in node.labels else -5.0


class Broken(NodeFilter):
    """Raises."""

    name = "broken"
    version = "1"

    def filter(self, pod: PodClass, node: NodeView) -> str:
        raise LookupError(node.name)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The plugins are installed for the test."""
    plugins = (OneOfTeam, Marked, Broken)
    FEATURES.policy_table.add(*plugins)
    yield
    for one in plugins:
        del FEATURES.policy_table.plugins[one.name]


def policy(*names: str) -> dict[str, object]:
    """Rules with these plugins."""
    named: list[JsonObject] = [{"name": one} for one in ("gang", "predicates", *names)]
    return {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": named}]}


def placed(harness: EngineHarness) -> dict[str, str]:
    """Name of each pod to its node, or nothing."""
    return {one.facts.name: one.node for one in harness.state.cluster.pods.values()}


def begun(*names: str, nodes: tuple[bytes, ...], pods: tuple[bytes, ...] = ()) -> EngineHarness:
    """A cluster after its first cycle."""
    harness = EngineHarness(policy=policy(*names))
    harness.show_all("Node", *nodes)
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    harness.cycle()
    harness.state.validate()
    return harness


def labelled(
    name: str, team: str, *, on: str = "", phase: str = "Pending", group: str = ""
) -> bytes:
    """A pod of a team, perhaps of a gang."""
    annotations: JsonObject = {"scheduling.k8s.io/group-name": group} if group else {}
    metadata: JsonObject = {"labels": {TEAM: team}, "annotations": annotations}
    return pod(name, on=on, phase=phase, metadata=metadata)


def test_pods_that_differ_in_a_label_that_a_plugin_reads_are_decided_apart() -> None:
    harness = begun(
        "one-of-team",
        nodes=(node("n1"), node("n2")),
        pods=(labelled("a1", "a"), labelled("a2", "a"), labelled("a3", "a"), labelled("b1", "b")),
    )
    found = placed(harness)
    assert sorted((found["a1"], found["a2"])) == ["n1", "n2"]
    assert (found["a3"], bool(found["b1"])) == ("", True)


def test_pods_of_one_gang_see_where_the_others_are_tried() -> None:
    harness = begun("one-of-team", nodes=(node("n1"), node("n2")))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all("Pod", *(labelled(f"p{index}", "a", group="g") for index in range(2)))
    harness.cycle()
    harness.cycle()
    assert sorted(placed(harness).values()) == ["n1", "n2"]


def test_a_pod_that_loses_the_label_makes_room() -> None:
    harness = begun("one-of-team", nodes=(node("n1"),), pods=(labelled("a1", "a"),))
    harness.show_all("Pod", labelled("a1", "a", on="n1", phase="Running"), labelled("a2", "a"))
    harness.cycle()
    assert placed(harness) == {"a1": "n1", "a2": ""}
    harness.show_all("Pod", labelled("a1", "z", on="n1", phase="Running"), labelled("a2", "a"))
    harness.cycle()
    assert placed(harness) == {"a1": "n1", "a2": "n1"}


def test_a_policy_that_names_the_plugin_later_holds_for_pods_that_wait() -> None:
    harness = begun(nodes=(node("n1", cpu=0),), pods=(labelled("a1", "a"), labelled("a2", "a")))
    assert placed(harness) == {"a1": "", "a2": ""}
    harness.change_policy(policy("one-of-team"))
    harness.show_all("Node", node("n1"))
    harness.cycle()
    harness.state.validate()
    assert sorted(placed(harness).values()) == ["", "n1"]
    harness.change_policy(policy())
    harness.cycle()
    harness.state.validate()
    assert placed(harness) == {"a1": "n1", "a2": "n1"}
    assert not any(one.plugin_labels for one in _classes(harness.state))


@pytest.mark.parametrize("name", sorted(FEATURES.policy_table.plugins))
def test_no_module_but_its_own_names_a_plugin(name: str) -> None:
    elsewhere = {
        "projections/policy/policy.py",  # the built-in policy
        *("simulator/openb.py", "simulator/spot_gpu_objects.py"),  # policies of workloads
        *("projections/views/catalogue.py", "projections/pod_groups.py"),  # columns and slots
        *(
            "replay/why_state.py",
            "scheduling/explain/waiting.py",
            "scheduling/explain/bounds.py",
            "scheduling/explanation.py",
        ),  # columns, checks
        *("scheduling/quota/queue_order.py", "projections/job_order.py"),  # slots, keys
        *("projections/policy/pools.py", "daemon/cli/groups.py"),  # a decider and a key
        "features/pools/explain.py",  # a key of what an operator states
        *("daemon/cli/group_operations.py", "daemon/cli/state.py"),  # an operation, a column
        *(
            "replay/job_list.py",
            "daemon/cluster/group_overrides.py",
        ),  # what a job or an operator states
        "replay/redaction.py",  # a field of nodes
        *("replay/fact_changes.py", "replay/tenant_answer.py"),  # names of values and checks
    }
    ambiguous = ("capacity", "gang", "priority")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("projections", "scheduling", "features", "engine", "replay", "daemon")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{name}"' in path.read_text(encoding="utf-8")
    ]
    file = FEATURES.policy_table.plugins[name].__module__.replace(".", "/") + ".py"
    allowed = elsewhere if name in ambiguous else {"projections/policy/policy.py"}
    assert [one for one in found if one not in allowed] == [file]


def _classes(state: State) -> list[PodClass]:
    return [one.pod_class for one in state.cluster.pods.values() if not one.node]


def test_a_snapshot_keeps_the_classes_of_labelled_pods() -> None:
    harness = begun(
        "one-of-team", nodes=(node("n1"),), pods=(labelled("a1", "a"), labelled("a2", "a"))
    )
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload, FEATURES)
    restored.validate()
    assert snapshot.take(restored) == payload


def test_points_are_kept_within_bounds() -> None:
    harness = begun(
        "marked", nodes=(node("n1"), node("n2", labels={"marked": ""})), pods=(pod("p"),)
    )
    assert placed(harness) == {"p": "n2"}


def test_a_plugin_that_raises_costs_the_group_its_cycle_and_not_the_daemon() -> None:
    harness = begun("broken", nodes=(node("n1"),), pods=(pod("p"),))
    (group,) = harness.state.cluster.groups.values()
    assert group.decided.refusals["allocate"].code == "InternalError"
    assert "LookupError" in group.decided.refusals["allocate"].message
