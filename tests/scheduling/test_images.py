"""Images that are there already: points by size, and by how many nodes have them."""

from projections.nodes import NodeFacts, NodeTable
from scheduling.node_columns import FULL
from scheduling.pod_topology.images import LEAST, MOST, ImagePoints


def _node(name: str, **images: int) -> NodeFacts:
    return NodeFacts(
        name=name,
        uid=name,
        labels={},
        taints=(),
        unschedulable=False,
        allocatable={"cpu": 1000},
        cards={},
        card_totals=(),
        created_ns=0,
        images=tuple(images.items()),
    )


def _table(*nodes: NodeFacts) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.put(node, node.name)
    table.lay_out()
    return table


def _points(of: ImagePoints) -> list[int]:
    points = of.points()
    assert points is not None
    found: list[int] = points.tolist()
    return found


def test_an_image_counts_by_its_size_and_its_spread() -> None:
    size = 600 << 20
    table = _table(_node("n1", a=size), _node("n2"), _node("n3", b=size), _node("n4", a=size))
    found = _points(ImagePoints(table, ("a",), 1))
    half = (size * 2 // 4 - LEAST) * FULL // (MOST - LEAST)
    assert found == [half, 0, 0, half]
    assert _points(ImagePoints(table, ("a",), 3)) == [3 * half, 0, 0, 3 * half]


def test_small_images_count_nothing_and_large_ones_no_more_than_full() -> None:
    assert _points(ImagePoints(_table(_node("n1", a=20 << 20)), ("a",), 1)) == [0]
    assert _points(ImagePoints(_table(_node("n1", a=1 << 40)), ("a",), 1)) == [FULL]


def test_an_image_that_is_pulled_is_seen() -> None:
    table = _table(_node("n1"), _node("n2"))
    points = ImagePoints(table, ("a",), 1)
    assert points.points() is None
    table.put(_node("n2", a=1 << 40), "anew")
    assert _points(points) == [0, FULL]
    table.put(_node("n2"), "once more")
    assert points.points() is None
