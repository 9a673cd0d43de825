"""What the log, the views, `why` and a snapshot say of HyperNodes."""

from pathlib import Path

import pytest

from features.table import FEATURES
from projections import snapshot
from projections.node_updates import drop_hyper_node
from projections.views.now import topology_rows
from scheduling.explain.waiting import WaitingExplanation
from scheduling.requeue import is_cycle_due
from tests.scenarios.play import HERE, name_of, play, scenario_of
from tests.scheduling.builders import EngineHarness, gone, node, raw
from tests.scheduling.test_explain import explained
from tests.scheduling.topology.builders import (
    group,
    hyper_node,
    member,
    nodes_of,
    see,
    session_of,
    two_racks,
)

SCENARIOS = sorted((HERE / "topology").glob("*.yaml"))


def _body(path: Path) -> str:
    """A scenario without its sentence."""
    return path.read_text(encoding="utf-8").partition("\n")[2]


def _faults(harness: EngineHarness) -> list[str]:
    return [one for one in harness.kinds() if one.startswith("config_invalid")]


def test_an_invalid_hypernode_is_reported_once_per_change() -> None:
    harness = two_racks()
    harness.cycle()
    assert _faults(harness) == []
    see(harness, hyper_node("t", 2, children=("a",)))
    harness.cycle()
    assert _faults(harness) == ["config_invalid HyperNode//a"]
    see(harness, hyper_node("t", 3, children=("a",)))
    harness.cycle()
    assert _faults(harness) == []
    harness.see(gone(hyper_node("t", 2)))
    harness.cycle()
    see(harness, hyper_node("t", 2, children=("a",)))
    harness.cycle()
    assert _faults(harness) == ["config_invalid HyperNode//a"]


@pytest.mark.parametrize(
    "spec", [{"tier": "low"}, {"tier": 1, "members": 7}, {"members": [{"type": 1}]}]
)
def test_a_hypernode_that_cannot_be_read_has_no_members(spec: dict[str, object]) -> None:
    harness = two_racks()
    see(harness, raw("HyperNode", "a", spec=spec))
    harness.cycle()
    assert _faults(harness) == ["config_invalid HyperNode//a"]
    assert harness.state.cluster.nodes.hyper_tree.above("a1") == []


def test_a_gang_that_is_bound_because_of_a_hypernode_says_so() -> None:
    harness = two_racks(cpu=1)
    see(harness, group("g", 3, {"mode": "hard", "highestTierAllowed": 1}))
    see(harness, *(member(f"g-{at}", "g") for at in range(3)))
    harness.cycle()
    see(harness, hyper_node("a", 1, "a1", "a2", "c"))
    shown = harness.state.position
    harness.cycle()
    [bound] = [one for one in harness.records if one.kind.startswith("gang_bind_decided")]
    assert bound.cause == shown


def test_hypernodes_may_be_nested_to_any_depth() -> None:
    harness = two_racks()
    see(harness, *(hyper_node(f"d{at}", at, children=(f"d{at - 1}",)) for at in range(3, 1050)))
    see(harness, hyper_node("d2", 2, children=("s",)), hyper_node("s", 1, "a1", "b1"))
    see(harness, group("g", 2, {"mode": "hard", "highestTierAllowed": 1000}))
    see(harness, member("g-0", "g"), member("g-1", "g"))
    harness.cycle()
    assert len(nodes_of(harness, "g")) == 2


def test_an_irrelevant_hypernode_change_makes_no_cycle_due() -> None:
    harness = two_racks()
    see(harness, group("g", 1), member("g-1", "g"))
    harness.cycle()
    harness.cycle()
    see(harness, hyper_node("t", 1, "c"))
    assert not is_cycle_due(harness.state, harness.now_ns)


def test_the_view_names_the_domains_of_a_node_the_closest_first() -> None:
    harness = two_racks()
    see(harness, node("d", labels={"example.com/hypernode": "by-label"}))
    cluster = harness.state.cluster
    assert [row[4] for row in topology_rows(cluster, "a1")] == ["a,s"]
    assert [row[4] for row in topology_rows(cluster, "d")] == ["by-label"]
    drop_hyper_node(cluster, "s")
    assert sorted(cluster.changed_rows.topology) == ["a1", "a2", "b1", "b2"]
    assert [row[4] for row in topology_rows(cluster, "a1")] == ["a"]


def test_why_names_the_domain_that_comes_nearest_and_what_it_lacks() -> None:
    harness = two_racks(cpu=1)
    see(harness, group("g", 3, {"mode": "hard", "highestTierAllowed": 1}))
    see(harness, *(member(f"g-{at}", "g") for at in range(3)))
    harness.cycle()
    found = WaitingExplanation(
        session_of(harness), harness.state.cluster.groups["default/g"]
    ).explain()
    assert found is not None
    texts = {one.level: one.text for one in found.hurdles}
    assert texts["network"] == "its pods must be within a HyperNode of tier 1 or below"
    assert (
        "0/2 nodes of HyperNode a (tier 1) are unavailable: 2 Insufficient cpu." in texts["nodes"]
    )
    assert texts["nodes"].endswith("that the gang lacks: a comes nearest, with room for 2.")


def test_why_names_what_is_wrong_with_the_tree() -> None:
    harness = two_racks()
    see(harness, hyper_node("t", 2, children=("a",)))
    see(harness, group("g", 1, {"mode": "soft"}), member("g-1", "g"))
    harness.cycle()
    found = WaitingExplanation(
        session_of(harness), harness.state.cluster.groups["default/g"]
    ).explain()
    assert found is not None
    assert found.code == "TopologyNotReady"
    assert not {one.level: one.passed for one in found.hurdles}["network"]


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
async def test_every_node_that_was_chosen_comes_out_best_again(path: Path) -> None:
    choices = await explained(_body(path))
    assert [(one.pod, one.domain) for one in choices if not one.agrees] == []
    for made in choices:
        for one in made.ranked:
            assert sum(one.parts.values()) == one.score


async def test_a_choice_names_the_domain_and_what_closeness_added() -> None:
    path = HERE / "topology" / "running_pods_decide_the_domain_of_a_gang.yaml"
    [made] = await explained(_body(path))
    assert (made.domain, made.nodes, made.candidates) == ("HyperNode b (tier 1)", 2, 1)
    path = HERE / "topology" / "pods_of_a_soft_gang_go_near_each_other.yaml"
    near, far = await explained(_body(path))
    assert near.domain == "HyperNode b (tier 1)"
    # Best by tier and alone: 100 points. The other rack is of the same spine: 50, and none of the group.
    assert [one.parts for one in near.ranked] == [{"network": 100_000}]
    assert [one.parts for one in far.ranked] == [{"network": 50_000}] * 2


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
async def test_a_snapshot_keeps_the_network(path: Path) -> None:
    played = await play(scenario_of(path))
    state = played.end.state
    restored = snapshot.restore(snapshot.take(state), FEATURES)
    restored.validate()
    kept, there = state.cluster.nodes.hyper_tree, restored.cluster.nodes.hyper_tree
    assert (there.facts, there.nodes, there.parents) == (kept.facts, kept.nodes, kept.parents)
    assert (there.circular, there.multi_parent) == (kept.circular, kept.multi_parent)
    assert snapshot.take(restored) == snapshot.take(state)
