"""What the view of cards says of nodes with several of them, and what a sight of a node costs."""

import pytest

from features.table import FEATURES
from projections.cluster import Cluster
from projections.node_updates import drop_node, put_node
from projections.nodes import NodeFacts, node_facts
from projections.objects import Metadata, NodeObject, NodeStatus
from projections.views.now import card_rows
from tests.scheduling.builders import ALL_FAMILIES

GPU = "nvidia.com/gpu"
LABELS = {f"{GPU}.product": "V100", f"{GPU}.memory": "32768", f"{GPU}.replicas": "4"}


def node(allocatable: dict[str, str | int], capacity: dict[str, str | int]) -> NodeFacts:
    """A node with cards that can be whole or shared."""
    status = NodeStatus(allocatable=dict(allocatable), capacity=dict(capacity))
    return node_facts(
        NodeObject(metadata=Metadata(name="n1", labels=LABELS), status=status), ALL_FAMILIES
    )


def test_a_node_has_a_row_for_each_of_its_cards() -> None:
    cluster = Cluster(FEATURES)
    facts = node({GPU: "1", f"{GPU}.shared": "8"}, {GPU: "2", f"{GPU}.shared": "8"})
    put_node(cluster, facts, "")
    assert card_rows(cluster, "n1") == [
        ("n1", "V100", GPU, 2, 1, 0, 1),
        ("n1", "V100/mps-32g*1/4", f"{GPU}.shared", 8, 8, 0, 8),
    ]


def test_cards_that_are_all_broken_keep_their_row() -> None:
    cluster = Cluster(FEATURES)
    put_node(cluster, node({GPU: "0"}, {GPU: "2"}), "")
    assert card_rows(cluster, "n1") == [("n1", "V100", GPU, 2, 0, 0, 0)]
    drop_node(cluster, "n1")
    assert card_rows(cluster, "n1") == []


def test_quota_is_not_recharged_when_a_node_keeps_its_cards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(FEATURES)
    charged: list[str] = []
    monkeypatch.setattr(cluster.ledgers, "recharge", lambda _cluster: charged.append("all"))
    put_node(cluster, node({GPU: "2"}, {GPU: "2"}), "")
    assert charged == ["all"]
    put_node(cluster, node({GPU: "1"}, {GPU: "2"}), "")
    assert charged == ["all"]
    put_node(cluster, node({GPU: "1", f"{GPU}.shared": "8"}, {GPU: "2"}), "")
    assert charged == ["all", "all"]
