"""Why: a node whose kubelet turned pods away says of what it gives nothing, and until when (rule K5.12)."""

from events.messages import ObjectSeen
from replay.quarantine_text import closed_nodes_text
from replay.why_state import Standing, node_standing
from replay.why_text import waiting_lines
from scheduling.decide import Decider
from tests.scheduling.builders import EngineHarness, node, pod


def turned_away() -> EngineHarness:
    """A pod was bound to the only node, whose kubelet turned it away; another waits since."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    harness.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason="OutOfcpu")))
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    return harness


def standing_of_n1(harness: EngineHarness) -> Standing:
    found = harness.state.cluster.nodes.nodes["n1"]
    return node_standing(harness.state, found, Decider(harness.state).explain(found).excluded)


def test_why_reports_until_when_a_node_withholds_resources() -> None:
    harness = turned_away()
    group = harness.state.cluster.groups[harness.state.cluster.pods["uid-b"].group_key]
    answer = Decider(harness.state).explain(group).waiting
    assert answer is not None
    (line,) = [one for one in waiting_lines(answer) if one.startswith("  n1: ")]
    (quarantine,) = harness.state.cluster.quarantines.on("n1")
    until = harness.state.cluster.quarantines.end_ns(quarantine) // 1_000_000_000
    assert "its kubelet rejected pods of namespace default (OutOfcpu)" in line
    assert line.endswith(
        f"its kubelet rejected pods, so no pod is placed there that requests cpu until {until}.000s"
    )
    assert answer.nodes is not None
    assert answer.nodes.nearest[0].withheld_until_ns == {"cpu": until * 1_000_000_000}


def test_why_of_a_node_reports_its_quarantine_and_the_pods_it_excludes() -> None:
    harness = turned_away()
    standing = standing_of_n1(harness)
    assert standing.facts["quarantine"] == (
        "its kubelet rejected pods: closed to pods of namespace default that request cpu until 32.000s (OutOfcpu)"
    )
    assert ["requests cpu until " in one for one in standing.lists["excluded_pods"]] == [True]
    assert closed_nodes_text(harness.state.cluster.quarantines) == (
        "1 node is closed: n1 to pods of namespace default that request cpu (OutOfcpu)"
    )
    harness.cycle(60)
    assert not closed_nodes_text(harness.state.cluster.quarantines)
    standing = standing_of_n1(harness)
    assert "quarantine" not in standing.facts
