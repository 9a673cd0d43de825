"""Delta debugging: the smallest part of a list, found in few trials."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.delta_debugging import SearchEndedError, minimize


@given(
    st.integers(0, 60).flatmap(
        lambda size: st.tuples(st.just(size), st.sets(st.integers(0, max(size - 1, 0))))
    )
)
def test_exactly_the_elements_that_matter_are_found(given_: tuple[int, set[int]]) -> None:
    size, needed = given_
    needed &= set(range(size))
    assert minimize(range(size), lambda part: needed <= set(part)) == sorted(needed)


@given(st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_element_of_the_result_can_be_left_out(ways: list[set[int]]) -> None:
    def holds(part: Sequence[int]) -> bool:
        # Not monotonic: the number of elements plays a part as well.
        return any(way <= set(part) for way in ways) and len(part) % 5 != 4

    if not holds(range(13)):
        return
    found = minimize(range(13), holds)
    assert holds(found)
    assert not any(holds([one for one in found if one != left_out]) for left_out in found)


def test_no_part_is_tried_twice() -> None:
    tried: list[tuple[int, ...]] = []

    def holds(part: Sequence[int]) -> bool:
        tried.append(tuple(part))
        return {3, 40, 41, 90} <= set(part)

    assert minimize(range(100), holds) == [3, 40, 41, 90]
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_few_elements_of_many_take_few_trials_on_long_lists(size: int) -> None:
    lengths: list[int] = []

    def holds(part: Sequence[int]) -> bool:
        lengths.append(len(part))
        return {5, size // 3, size - 2} <= set(part)

    assert minimize(range(size), holds) == [5, size // 3, size - 2]
    assert sum(lengths) < 20 * size
    assert len(lengths) < 200


def test_the_smallest_part_so_far_is_the_result_at_the_time_limit() -> None:
    trials = 0

    def holds(part: Sequence[int]) -> bool:
        nonlocal trials
        trials += 1
        if trials > 12:
            raise SearchEndedError
        return 7 in part

    found = minimize(range(10_000), holds)
    assert 7 in found
    assert 1 < len(found) < 10_000
