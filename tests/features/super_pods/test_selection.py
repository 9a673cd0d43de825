"""Which SuperPoD gives a node to which block: the examples of the documents, and what holds for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.super_pods.selection import (
    FIGURE,
    MATRIX,
    BlockJob,
    FreeSuperPod,
    Selection,
    figure_sizes,
    select,
)


def super_pods(*sizes: int) -> list[FreeSuperPod]:
    """SuperPoDs with so many free nodes each."""
    return [
        FreeSuperPod(number, [f"p{number}.{node}" for node in range(size)])
        for number, size in enumerate(sizes)
    ]


def blocks(found: Selection, sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Logical id, size of the SuperPoD, and number of nodes of each block."""
    return [(one.number, sizes[one.super_pod], len(one.nodes)) for one in found.blocks]


@pytest.mark.parametrize(
    ("sizes", "count", "block", "reserve", "matrix", "figure"),
    [
        ((7, 10), 2, 4, 2, (10, 10), (7, 10)),
        ((6, 7, 10), 2, 4, 2, (6, 7), (6, 7)),
        ((5, 7, 15), 2, 4, 2, (7, 15), (7, 15)),
        ((5, 7), 2, 4, 2, (7, 5), (7, 5)),
        ((1, 2), 1, 1, 3, (2,), (2,)),
        ((3, 2), 1, 1, 2, (3,), (3,)),
        ((4, 3), 1, 1, 2, (3,), (3,)),
        ((21, 8, 14, 7), 1, 6, 2, (8,), (8,)),
        ((21, 8, 14, 7), 4, 6, 2, (8, 14, 14, 21), (8, 14, 21, 14)),
    ],
)
def test_blocks_come_from_the_super_pods_of_the_examples(
    sizes: tuple[int, ...],
    count: int,
    block: int,
    reserve: int,
    matrix: tuple[int, ...],
    figure: tuple[int, ...],
) -> None:
    for order, expected in ((MATRIX, matrix), (FIGURE, figure)):
        found = select(BlockJob(count, block, reserve, order=order), super_pods(*sizes))
        assert tuple(size for _, size, _ in blocks(found, sizes)) == expected, found.walk


def test_the_order_of_the_figure() -> None:
    sizes = figure_sizes(BlockJob(2, 16, 2), super_pods(*range(16, 49)))
    band = [size for pair in zip(range(18, 26), range(26, 34), strict=True) for size in pair]
    assert sizes == [*band, *range(34, 49)]


def test_the_order_of_the_matrix_for_the_same_numbers() -> None:
    """Rows of one node left over each: 18 and 34 leave none, 19 and 35 one, and so on; 33 has no larger one."""
    job = BlockJob(46, 16, 2, order=MATRIX)
    found = select(job, super_pods(*range(16, 49)))
    order = list(dict.fromkeys(16 + one.super_pod for one in found.blocks))
    pairs = [size for pair in zip(range(18, 33), range(34, 49), strict=True) for size in pair]
    assert order == [*pairs, 33]


def test_too_few_blocks_are_refused_and_soft_ones_are_placed_in_parts() -> None:
    hard = select(BlockJob(1, 4, 0), super_pods(2, 2))
    assert hard.problem == "select super pod failed, required 1, total 0, node top: 0: 2, 1: 2"
    assert hard.blocks == []
    soft = select(BlockJob(1, 4, 0, is_soft=True), super_pods(2, 2))
    assert blocks(soft, (2, 2)) == [(0, 2, 2), (1, 2, 2)]
    assert select(BlockJob(2, 4, 2), super_pods(4)).problem == (
        "select super pod failed, required 2, total 1, node top: 0: 4"
    )
    many = select(BlockJob(13, 4, 0), super_pods(*range(1, 12))).problem
    assert many.endswith("node top: 10: 11, 9: 10, 8: 9, 7: 8, 6: 7, 5: 6, 4: 5, 3: 4 and 3 more")


def test_parts_get_ids_that_are_left_and_then_new_ones() -> None:
    found = select(BlockJob(2, 4, 0, is_soft=True), super_pods(5, 2, 1))
    assert blocks(found, (5, 2, 1)) == [(0, 5, 4), (1, 2, 2), (2, 5, 1), (3, 1, 1)]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from((FIGURE, MATRIX)),
)
def test_a_job_is_placed_if_and_only_if_there_are_enough_blocks(
    sizes: list[int], count: int, block: int, reserve: int, is_soft: bool, order: str
) -> None:
    free = super_pods(*sizes)
    found = select(BlockJob(count, block, reserve, is_soft, order), free)
    whole = sum(size // block for size in sizes)
    fits = sum(sizes) >= count * block if is_soft else whole >= count
    assert (found.problem == "") == fits
    if not fits:
        assert found.blocks == []
        return
    nodes = [node for one in found.blocks for node in one.nodes]
    assert len({*nodes}) == len(nodes) == count * block
    for one in found.blocks:
        assert all(node.startswith(f"p{one.super_pod}.") for node in one.nodes), "one SuperPoD"
        assert len(one.nodes) <= block
    assert [one.number for one in found.blocks] == list(range(len(found.blocks)))
    if whole >= count:
        assert all(len(one.nodes) == block for one in found.blocks), "whole where there is room"
    taken = dict.fromkeys(range(len(sizes)), 0)
    for one in found.blocks:
        taken[one.super_pod] += len(one.nodes)
    # The reserve is touched only where the other SuperPoDs have no block left above it.
    if any(0 < size - taken[number] < min(reserve, size) for number, size in enumerate(sizes)):
        spare = sum(max(0, size - reserve) // block for size in sizes)
        assert spare < count or is_soft
