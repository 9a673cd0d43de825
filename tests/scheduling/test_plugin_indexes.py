"""An index that a plugin brings: kept up, audited, forked, rebuilt, and dropped with the plugin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import Struct

from events.messages import DeletionSeen, ObjectSeen
from events.normalize import JsonObject
from features.table import FEATURES
from projections import snapshot
from projections.cluster import Cluster
from projections.deltas import NodeChanged, PodChanged, RecordApplied
from projections.index import Index
from projections.nodes import NodeFacts
from projections.pod_class import PodClass
from projections.pods import Pod
from projections.state import State
from scheduling.pod_topology.plugin_columns import NodeFilter, NodeView
from tests.checkout import ROOT
from tests.mutations import undetected
from tests.scheduling.builders import EngineHarness, node, pod, raw


class TeamPods(Index):
    """The number of pods by node and team."""

    name = "pods of teams"
    COMPARED: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, int]] = {}

    def rebuilt(self, cluster: Cluster, /) -> TeamPods:
        twin = TeamPods()
        for one in cluster.pods.values():
            twin.add(one, 1)
        return twin

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        for one in changes:
            self.add(one.old, -1)
            self.add(one.new, 1)

    def add(self, one: Pod | None, sign: int) -> None:
        """Add a pod that occupies a node, or (-1) remove it."""
        if one is None or not one.occupies or not (team := team_of(one)):
            return
        teams = self.counts.setdefault(one.node, {})
        teams[team] = teams.get(team, 0) + sign
        if not teams[team]:
            del teams[team]
            if not teams:
                del self.counts[one.node]


class Zones(Index):
    """The number of nodes by zone."""

    name = "zones"
    COMPARED: ClassVar[tuple[str, ...]] = ("nodes",)

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.records: list[int] = []
        """Positions of the records that were applied since the index was built."""

    def rebuilt(self, cluster: Cluster, /) -> Zones:
        twin = Zones()
        for one in cluster.nodes.nodes.values():
            twin.add(one.facts, 1)
        return twin

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        self.add(delta.old, -1)
        self.add(delta.new, 1)

    def on_record(self, cluster: Cluster, delta: RecordApplied) -> None:
        self.records.append(cluster.position)

    def add(self, one: NodeFacts | None, sign: int) -> None:
        """Add a present node or (-1) remove it."""
        if one is not None:
            zone = one.labels.get("zone", "")
            self.nodes[zone] = self.nodes.get(zone, 0) + sign


def team_of(one: Pod | None) -> str:
    """The team of a pod."""
    return "" if one is None else dict(one.facts.labels).get("team", "")


class TeamLimit(Struct, frozen=True):
    """Arguments of the plugin."""

    most: int = 2


class FewOfTeam(NodeFilter):
    """At most `most` pods of a team on a node, counted by an index."""

    name = "few-of-team"
    version = "1"
    Arguments = TeamLimit
    pod_labels = ("team",)

    def indexes(self) -> Iterable[Index]:
        return (TeamPods(), Zones())

    def filter(self, pod: PodClass, node: NodeView) -> str:
        assert isinstance(self.config.arguments, TeamLimit)
        team = dict(pod.plugin_labels).get("team", "")
        count = node.index(TeamPods).counts.get(node.name, {}).get(team, 0)
        count += sum(team_of(one) == team for one in node.arriving)
        count -= sum(team_of(one) == team for one in node.leaving)
        assert count == sum(team_of(one) == team for one in node.pods)
        return f"had {count} pods of team {team}" if count >= self.config.arguments.most else ""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The plugin is installed for the test."""
    FEATURES.policy_table.add(FewOfTeam)
    yield
    del FEATURES.policy_table.plugins[FewOfTeam.name]


def policy(*names: str, actions: str = "enqueue, allocate, backfill, preempt") -> dict[str, object]:
    """A policy that names these plugins, too."""
    tiers = (("priority",), ("gang", "predicates", *names))
    named = [{"plugins": [{"name": one} for one in tier]} for tier in tiers]
    return {"actions": actions, "tiers": named}


def of_team(name: str, team: str, **more: str) -> bytes:
    """A pod of a team."""
    on, group, priority = (more.get(one, "") for one in ("on", "group", "priority"))
    annotations: JsonObject = {"volcano.sh/preemptable": "true"}
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    metadata: JsonObject = {"labels": {"team": team}, "annotations": annotations}
    spec: JsonObject = {"priority": int(priority)} if priority else {}
    return pod(name, on=on, phase="Running" if on else "Pending", metadata=metadata, spec=spec)


def begun(*names: str) -> EngineHarness:
    """Two nodes, with a gang, single pods and a running pod of two teams, after the first cycles."""
    harness = EngineHarness(policy=policy(*names))
    harness.show_all("Node", node("n1"), node("n2"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all(
        "Pod",
        of_team("r0", "red", on="n1"),
        *(of_team(f"g{index}", "red", group="g") for index in range(2)),
        *(of_team(f"b{index}", "blue") for index in range(5)),
    )
    harness.show_the_rest()
    harness.cycle()
    harness.cycle()
    harness.state.validate()
    return harness


def kept(state: State) -> dict[str, dict[str, int]]:
    """What the index holds; it is what the audit counts."""
    state.validate()
    return state.cluster.indexes.of(TeamPods).counts


def in_all(state: State) -> dict[str, int]:
    """Team to the number of its pods on all nodes."""
    found = kept(state).values()
    return {team: sum(one.get(team, 0) for one in found) for team in ("red", "blue")}


def has_index(state: State) -> bool:
    """Whether State keeps the index."""
    return any(isinstance(one, TeamPods) for one in state.cluster.indexes.all)


def test_pods_are_decided_by_the_index_and_by_what_is_tried() -> None:
    state = begun("few-of-team").state
    assert all(max(teams.values()) <= 2 for teams in kept(state).values())
    assert in_all(state) == {"red": 3, "blue": 4}


def test_a_victim_does_not_count_for_the_time_after_it_is_gone() -> None:
    harness = EngineHarness(policy=policy("few-of-team"))
    harness.show_all("Node", node("n1", cpu=2))
    harness.show_all("Pod", *(of_team(f"r{index}", "red", on="n1") for index in range(2)))
    harness.show_the_rest()
    harness.see(ObjectSeen(of_team("first", "red", priority="10")))
    harness.cycle()
    assert in_all(harness.state) == {"red": 2, "blue": 0}
    leaving = [one.facts.name for one in harness.state.cluster.pods.values() if one.evicted]
    assert len(leaving) == 1


def test_the_index_follows_pods_that_move_change_their_label_or_end() -> None:
    harness = begun("few-of-team")
    harness.see(ObjectSeen(of_team("r0", "blue", on="n1")))
    assert in_all(harness.state) == {"red": 2, "blue": 5}
    harness.see(DeletionSeen(of_team("r0", "blue", on="n1")))
    assert in_all(harness.state) == {"red": 2, "blue": 4}
    harness.cycle()
    harness.see(DeletionSeen(node("n2")))
    harness.cycle()
    assert in_all(harness.state) == {"red": 2, "blue": 4}


def test_a_plugin_index_follows_nodes_and_gets_each_record_once() -> None:
    harness = begun("few-of-team")
    index = harness.state.cluster.indexes.of(Zones)
    before = harness.state.position
    harness.see(ObjectSeen(node("n3", labels={"zone": "a"})), ObjectSeen(node("n1")))
    harness.see(ObjectSeen(node("n2", labels={"zone": "a"})))
    harness.state.validate()
    assert index.nodes == {"": 1, "a": 2}
    harness.see(DeletionSeen(node("n2", labels={"zone": "a"})))
    harness.state.validate()
    assert index.nodes == {"": 1, "a": 1}
    assert harness.state.cluster.indexes.of(Zones) is index
    # Both nodes of the first batch settle at its end.
    assert index.records[-3:] == list(range(before + 2, harness.state.position + 1))


def test_the_audit_finds_a_wrong_value_in_the_index() -> None:
    harness = begun("few-of-team")
    missed, tried = undetected(harness.state)
    assert not missed
    assert ("pods of teams", "counts") in tried
    harness.state.cluster.indexes.of(TeamPods).counts["n1"]["red"] += 1
    with pytest.raises(AssertionError, match=r"pods of teams counts, n1, red: kept \d, counted"):
        harness.state.validate()


def test_a_fork_has_an_index_of_its_own() -> None:
    harness = begun("few-of-team")
    fork = harness.state.fork()
    before = {name: dict(teams) for name, teams in kept(fork).items()}
    harness.see(DeletionSeen(of_team("r0", "red", on="n1")))
    assert kept(fork) == before != kept(harness.state)


def test_a_snapshot_does_not_hold_the_index_and_restoring_computes_it() -> None:
    harness = begun("few-of-team")
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload, FEATURES)
    assert kept(restored) == kept(harness.state)
    assert snapshot.take(restored) == payload
    harness.state.cluster.indexes.of(TeamPods).counts.clear()
    assert snapshot.take(harness.state) == payload
    harness.change_policy(policy())
    assert not has_index(snapshot.restore(snapshot.take(harness.state), FEATURES))


def test_the_index_comes_and_goes_with_the_plugin() -> None:
    harness = begun()
    assert not has_index(harness.state)
    harness.change_policy(policy("few-of-team"))
    assert in_all(harness.state) == {"red": 3, "blue": 5}
    harness.change_policy(policy())
    assert not has_index(harness.state)
    with pytest.raises(KeyError):
        harness.state.cluster.indexes.of(TeamPods)
    harness.see(DeletionSeen(of_team("r0", "red", on="n1")))
    harness.change_policy(policy("few-of-team"))
    assert in_all(harness.state) == {"red": 2, "blue": 5}


def test_a_policy_of_the_same_plugin_repairs_a_wrong_index() -> None:
    harness = begun("few-of-team")
    harness.state.cluster.indexes.of(TeamPods).counts.clear()
    harness.change_policy(policy("few-of-team", actions="allocate"))
    assert kept(harness.state)


def test_the_example_of_the_manual_is_this_plugin() -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    section = page.partition("\n## Indexes\n")[2].partition("\n## ")[0]
    blocks = [part.partition("```")[0] for part in section.split("```python\n")[1:]]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert len(blocks) == 2
    assert not [line for block in blocks for line in block.splitlines() if line not in lines]


def test_no_module_of_the_core_names_the_index() -> None:
    folders = ("projections", "scheduling", "features", "engine", "replay", "daemon", "simulator")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert not [path for path in files if "TeamPods" in path.read_text(encoding="utf-8")]
