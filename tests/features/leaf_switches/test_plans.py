"""The rules of leaf switches, on the examples of their documents and on all small networks."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.leaf_switches import generation_1, generation_2
from features.leaf_switches.index import EXCLUSIVE, IDLE, SHARED, SwitchState
from features.leaf_switches.plan import (
    NO_ROOM,
    NO_ROOM_FOR_PADDING,
    NO_ROOM_FOR_REST,
    NO_ROOM_LARGE,
    NO_ROOM_NORMAL,
    FreeSwitch,
    Plan,
    SwitchJob,
    beside_its_pods,
    single_layer,
)
from tests.features.leaf_switches.builders import switches

UNUSED = SwitchState()
TWO_CROSS = SwitchState(SHARED, is_unhealthy=False, crossing=("x", "y"), large=())
FIVE = {"s1": 4, "s2": 4, "s3": 3, "s4": 3, "s5": 1}
A_TO_E = {"A": 4, "B": 4, "C": 3, "D": 3, "E": 1}
B_AND_D = {"B": TWO_CROSS, "D": TWO_CROSS}


def job(
    count: int, *, large: bool = True, tasks: int = 0, limit: int = 2, size: int = 4
) -> SwitchJob:
    return SwitchJob(count, tasks or count, large, size, limit)


def taken(plan: Plan) -> dict[str, int]:
    """How many servers of each switch a plan takes."""
    found: dict[str, int] = {}
    for switch, _ in plan.servers:
        found[switch.name] = found.get(switch.name, 0) + 1
    return found


@pytest.mark.parametrize(
    ("count", "large", "expected"),
    [
        (2, True, {"s4": 2}),
        (3, False, {"s4": 3}),
        (4, True, {"s1": 4}),
        (8, True, {"s1": 4, "s2": 4}),
        (9, True, {"s1": 4, "s2": 4, "s3": 1}),
        (13, True, NO_ROOM),
        (13, False, {"s1": 4, "s2": 4, "s3": 3, "s4": 2}),
        (16, False, NO_ROOM),
    ],
)
def test_generation_1_takes_one_switch_then_whole_ones_then_logical_ones(
    count: int, large: bool, expected: dict[str, int] | str
) -> None:
    plan = generation_1.place(job(count, large=large), switches(FIVE))
    assert (plan.problem or taken(plan)) == expected


def test_nine_servers_are_two_whole_logical_switches_and_one_server() -> None:
    """Whole switches do not suffice: the last server needs a third one of which all servers are free."""
    plan = generation_1.place(job(9), switches(FIVE))
    assert plan.taken == []
    assert plan.walk[0] == "method 1, 3 whole switches: 2 are free"
    assert plan.walk[1] == "method 2, 3 logical switches: [5, 4, 4, 2] free by position"


def test_a_logical_switch_has_servers_at_different_positions_of_different_switches() -> None:
    free = switches({"a": (0, 2), "b": (1, 2), "c": (3,)})
    plan = generation_1.place(job(4, size=4), free)
    assert [node for _, node in plan.servers] == ["a.0", "b.1", "a.2", "c.3"]


def test_the_smallest_logical_switch_that_is_enough_serves_a_job_below_the_size_of_a_switch() -> (
    None
):
    # No switch has three free; the second column has them.
    free = switches({"a": (0, 1), "b": (0, 1), "c": (0, 2), "d": (2, 3)})
    plan = generation_1.place(job(3, tasks=4), free)
    assert plan.walk[-1].startswith("takes logical switch 1:")
    assert [node for _, node in plan.servers] == ["b.0", "b.1", "d.2"]


@pytest.mark.parametrize(
    ("crossing", "large", "count", "job_is_large", "expected"),
    [
        (("other",), ("other",), 6, True, NO_ROOM),
        (("other",), ("other",), 3, True, {"a": 3}),
        (("other",), ("other",), 6, False, NO_ROOM),
        (("other",), (), 6, True, NO_ROOM),
        (("other",), (), 6, False, {"a": 2, "b": 4}),
    ],
    ids=["large", "small job", "common beside large", "large beside common", "common"],
)
def test_a_switch_that_a_job_crosses_serves_one_that_fits_or_common_ones(
    crossing: tuple[str, ...],
    large: tuple[str, ...],
    count: int,
    job_is_large: bool,
    expected: dict[str, int] | str,
) -> None:
    state = SwitchState(EXCLUSIVE, crossing=crossing, large=large)
    free = switches({"a": 3, "b": 4}, {"a": state})
    plan = generation_1.place(job(count, large=job_is_large), free)
    assert (plan.problem or taken(plan)) == expected


@pytest.mark.parametrize(
    ("count", "large", "limit", "expected"),
    [
        (2, True, 2, {"D": (2, IDLE, False)}),
        (4, True, 2, {"A": (4, EXCLUSIVE, False)}),
        (6, True, 2, {"A": (4, EXCLUSIVE, False), "D": (2, SHARED, False)}),
        (
            12,
            False,
            2,
            {
                "A": (4, EXCLUSIVE, False),
                "C": (3, EXCLUSIVE, False),
                "E": (1, EXCLUSIVE, False),
                "B": (4, SHARED, False),
            },
        ),
        (
            14,
            False,
            2,
            {
                "A": (4, EXCLUSIVE, False),
                "C": (3, EXCLUSIVE, False),
                "E": (1, EXCLUSIVE, False),
                "D": (3, SHARED, False),
                "B": (3, SHARED, False),
            },
        ),
        (16, True, 2, NO_ROOM_LARGE),
        (16, False, 2, NO_ROOM_NORMAL),
        (13, True, 1, NO_ROOM_LARGE),
        (
            13,
            False,
            1,
            {
                "A": (4, EXCLUSIVE, False),
                "C": (3, EXCLUSIVE, False),
                "E": (1, EXCLUSIVE, False),
                "D": (3, SHARED, True),
                "B": (2, SHARED, True),
            },
        ),
    ],
)
def test_generation_2_takes_idle_switches_and_shared_ones_within_the_limit(
    count: int, large: bool, limit: int, expected: dict[str, tuple[int, int, bool]] | str
) -> None:
    plan = generation_2.place(job(count, large=large, limit=limit), switches(A_TO_E, B_AND_D))
    found = {
        one.switch.name: (len(one.servers), one.is_shared, one.is_unhealthy) for one in plan.taken
    }
    assert (plan.problem or found) == expected


@pytest.mark.parametrize(
    ("free", "count", "limit", "expected"),
    [
        ((2, 2, 4), 4, 2, {"s0": 2, "s1": 2}),
        ((2, 3, 4), 4, 2, {"s2": 4}),
        ((1, 3, 7), 4, 2, {"s0": 1, "s1": 3}),
        ((1, 3, 7), 4, 1, {"s2": 4}),
        ((5,), 4, 2, {"s0": 4}),
        ((1, 1, 6, 9), 8, 2, {"s3": 8}),
        ((1, 1, 6, 8), 9, 2, {"s0": 1, "s3": 8}),
    ],
    ids=[
        "pair before one",
        "exact one",
        "closest pair",
        "limit",
        "only one",
        "one is closest",
        "far pair",
    ],
)
def test_the_shared_switches_closest_to_what_is_left_are_taken(
    free: tuple[int, ...], count: int, limit: int, expected: dict[str, int]
) -> None:
    names = {f"s{index}": one for index, one in enumerate(free)}
    given_ = switches(names, dict.fromkeys(names, TWO_CROSS))
    plan = generation_2.place(job(count, limit=limit, size=2), given_)
    assert taken(plan) == expected


@pytest.mark.parametrize(
    ("states", "large", "expected"),
    [
        ({"a": (EXCLUSIVE, False), "b": (SHARED, True)}, True, "a"),
        ({"a": (SHARED, False), "b": (SHARED, True)}, True, "b"),
        ({"a": (IDLE, False), "b": (SHARED, False)}, True, "b"),
        ({"a": (IDLE, False), "b": (SHARED, True)}, False, "b"),
    ],
)
def test_a_padding_job_goes_under_exclusive_unhealthy_healthy_and_idle_switches_in_this_order(
    states: dict[str, tuple[int, bool]], large: bool, expected: str
) -> None:
    known = {name: SwitchState(one, is_unhealthy=bad) for name, (one, bad) in states.items()}
    plan = generation_2.place(job(2, large=large), switches({"a": 3, "b": 3}, known))
    assert taken(plan) == {expected: 2}


def test_a_small_foundation_job_is_not_put_under_an_unhealthy_switch() -> None:
    """It has fewer pods than a switch has servers, but more than a padding job."""
    known = {"a": SwitchState(SHARED, is_unhealthy=True)}
    plan = generation_2.place(job(5, size=8), switches({"a": 8, "b": 8}, known))
    assert taken(plan) == {"b": 5}


def test_the_rest_of_a_job_goes_under_its_own_switches() -> None:
    known = {"a": SwitchState(SHARED), "b": SwitchState(EXCLUSIVE)}
    free = switches({"a": 2, "b": 1}, known)
    assert taken(beside_its_pods(job(2, tasks=8), free)) == {"b": 1, "a": 1}
    assert beside_its_pods(job(4, tasks=8), free).problem == NO_ROOM_FOR_REST
    assert beside_its_pods(job(4, tasks=3), free).problem == NO_ROOM_FOR_PADDING


CROSSED = SwitchState(SHARED, crossing=("mine", "x"))
OWN = SwitchState(EXCLUSIVE, crossing=("mine",))


@pytest.mark.parametrize(
    ("count", "used", "others", "limit", "expected"),
    [
        # The worked example: the pod goes under the shared switch of its job, and the idle one is not touched.
        (1, {"A": (0, OWN), "B": (1, CROSSED)}, {"C": (4, UNUSED)}, 2, [("B", 1, SHARED)]),
        # Idle switches are filled whole, the smallest first, and are exclusive then.
        (
            6,
            {"A": (1, OWN), "B": (0, CROSSED)},
            {"C": (4, UNUSED), "D": (1, UNUSED)},
            2,
            [("A", 1, EXCLUSIVE), ("D", 1, EXCLUSIVE), ("C", 4, EXCLUSIVE)],
        ),
        # A shared one before a part of an idle one, which is shared, too, or exclusive at the limit.
        (2, {"A": (0, OWN), "B": (0, CROSSED)}, {"C": (4, UNUSED), "D": (2, TWO_CROSS)}, 2, [("D", 2, SHARED)]),
        (2, {"A": (0, OWN), "B": (0, CROSSED)}, {"C": (4, UNUSED), "D": (1, TWO_CROSS)}, 2, [("C", 2, SHARED)]),
        (2, {"A": (0, OWN), "B": (0, CROSSED)}, {"C": (4, UNUSED), "D": (2, TWO_CROSS)}, 1, [("C", 2, EXCLUSIVE)]),
        # Exclusive switches of others and shared ones beyond the limit are not used.
        (1, {"A": (0, OWN), "B": (0, CROSSED)}, {"C": (4, TWO_CROSS)}, 1, NO_ROOM_FOR_REST),
        (1, {"A": (0, OWN), "B": (0, OWN)}, {"C": (4, SwitchState(EXCLUSIVE))}, 2, NO_ROOM_FOR_REST),
        (1, {"A": (0, OWN), "B": (0, OWN)}, {"C": (4, SwitchState(SHARED, is_unhealthy=True))}, 2, NO_ROOM_FOR_REST),
    ],
)  # fmt: skip
def test_the_rest_of_a_crossing_job_goes_under_other_switches_where_its_own_are_full(
    count: int,
    used: dict[str, tuple[int, SwitchState]],
    others: dict[str, tuple[int, SwitchState]],
    limit: int,
    expected: list[tuple[str, int, int]] | str,
) -> None:
    mine, rest = (
        switches(
            {name: one[0] for name, one in given_.items()},
            {name: one[1] for name, one in given_.items()},
        )
        for given_ in (used, others)
    )
    plan = generation_2.place_rest(job(count, tasks=8, limit=limit), mine, rest)
    found = [(one.switch.name, len(one.servers), one.is_shared) for one in plan.taken]
    assert (plan.problem or found) == expected


def test_one_layer_keeps_a_job_under_one_switch_whatever_its_class() -> None:
    assert taken(single_layer(job(3, large=False), switches(FIVE))) == {"s4": 3}
    assert single_layer(job(5), switches(FIVE)).problem == NO_ROOM


NETWORKS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 3), max_size=4),
        st.sampled_from((IDLE, SHARED, EXCLUSIVE)),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
JOBS = st.tuples(st.integers(1, 16), st.integers(0, 3), st.booleans(), st.sampled_from((1, 2)))


def network(given_: list[tuple[set[int], int, bool, bool]]) -> list[FreeSwitch]:
    found: dict[str, tuple[int, ...]] = {}
    states: dict[str, SwitchState] = {}
    for index, (positions, is_shared, is_unhealthy, is_large) in enumerate(given_):
        name = f"s{index}"
        found[name] = tuple(sorted(positions))
        crossing = {IDLE: (), EXCLUSIVE: ("x",), SHARED: ("x", "y")}[is_shared]
        bad = is_unhealthy and is_shared == SHARED
        large = crossing[:1] if is_large and not bad else ()
        states[name] = SwitchState(is_shared, is_unhealthy=bad, crossing=crossing, large=large)
    return switches(found, states)


@given(NETWORKS, JOBS)
def test_any_plan_has_a_candidate_for_each_pod_and_none_twice(
    given_: list[tuple[set[int], int, bool, bool]], asked: tuple[int, int, bool, int]
) -> None:
    free = network(given_)
    count, more, large, limit = asked
    known = {node for one in free for _, node in one.servers}
    for place in (generation_1.place, generation_2.place, single_layer):
        plan = place(job(count, large=large, tasks=count + more, limit=limit), free)
        nodes = [node for _, node in plan.servers]
        assert len({*nodes}) == len(nodes) == (0 if plan.problem else count)
        assert known >= {*nodes}
        if plan.taken and not plan.problem:
            assert [node for one in plan.taken for _, node in one.servers] == nodes


@given(NETWORKS, JOBS)
def test_generation_1_places_a_job_if_and_only_if_its_shape_fits(
    given_: list[tuple[set[int], int, bool, bool]], asked: tuple[int, int, bool, int]
) -> None:
    """Counted again by trying all sets of switches and of positions."""
    free = network(given_)
    count, more, large, _ = asked
    this = job(count, large=large, tasks=count + more)
    plan = generation_1.place(this, free)
    usable = [
        one
        for one in free
        if not one.state.crossing or count <= one.free or (not large and not one.state.large)
    ]
    whole, rest = divmod(count, 4)
    under_one = any(one.free >= count for one in usable)
    full = sum(one.free == 4 for one in usable)
    by_position = [sum(at in dict(one.servers) for one in usable) for at in range(4)]
    # A logical switch takes one server of each position; the last one of as many positions as are left.
    is_logical = any(
        all(length >= whole for length in by_position)
        and all(by_position[at] > whole for at in last)
        for last in combinations(range(4), rest)
    )
    fits = full >= whole + bool(rest) or is_logical
    if this.is_padding or count < 4:
        fits = under_one or (fits and not this.is_padding)
    if not large:
        fits = fits or sum(one.free for one in usable) >= count
    assert (plan.problem == "") == fits, plan.walk
    if not plan.problem and this.is_padding:
        assert not plan.crosses


@given(NETWORKS, JOBS)
def test_generation_2_keeps_its_limits_and_places_a_job_if_and_only_if_they_allow_it(
    given_: list[tuple[set[int], int, bool, bool]], asked: tuple[int, int, bool, int]
) -> None:
    free = network(given_)
    count, more, large, limit = asked
    this = job(count, large=large, tasks=count + more, limit=limit)
    plan = generation_2.place(this, free)
    healthy = [one for one in free if one.state.is_shared == SHARED and not one.state.is_unhealthy]
    idle = [one for one in free if one.state.is_shared == IDLE]
    # Within the limit: any idle switches, and as many shared ones as a job may use.
    most = max(
        sum(one.free for one in (*idle, *shared))
        for size in range(limit + 1)
        for shared in combinations(healthy, min(size, len(healthy)))
    )
    single = [one for one in free if large <= (not one.state.is_unhealthy) or this.is_padding]
    under_one = (this.is_padding or count < 4) and any(one.free >= count for one in single)
    fits = under_one or (not this.is_padding and count <= most)
    if not large:
        others = [one for one in free if one.state.is_unhealthy or not one.state.large]
        fits = fits or sum(one.free for one in others) >= count
    assert (plan.problem == "") == fits, plan.walk
    if plan.problem or not plan.crosses:
        return
    assert not this.is_padding
    unhealthy = [one for one in plan.taken if one.is_unhealthy]
    assert all(not one.switch.state.large for one in unhealthy)
    assert not (large and unhealthy)
    if not unhealthy:
        assert sum(one.is_shared == SHARED for one in plan.taken) <= limit
        assert all(one.switch.state.is_shared != EXCLUSIVE for one in plan.taken)
        assert not any(one.switch.state.is_unhealthy for one in plan.taken)
    for one in plan.taken:
        if one.is_shared == EXCLUSIVE:
            assert one.switch.state.is_shared == IDLE
            assert len(one.servers) == one.switch.free, "all of its free servers"


@given(NETWORKS, NETWORKS, st.integers(1, 20), st.sampled_from((1, 2)))
def test_the_rest_of_a_job_is_placed_if_and_only_if_its_switches_and_the_limit_allow_it(
    mine: list[tuple[set[int], int, bool, bool]],
    given_: list[tuple[set[int], int, bool, bool]],
    count: int,
    limit: int,
) -> None:
    used, others = network(mine), network(given_)
    plan = generation_2.place_rest(job(count, tasks=count + 8, limit=limit), used, others)
    more = max(0, limit - sum(one.state.is_shared == SHARED for one in used))
    idle = [one for one in others if one.state.is_shared == IDLE]
    healthy = [
        one for one in others if one.state.is_shared == SHARED and not one.state.is_unhealthy
    ]
    most = max(
        sum(one.free for one in (*used, *idle, *shared))
        for size in range(more + 1)
        for shared in combinations(healthy, min(size, len(healthy)))
    )
    assert (plan.problem == "") == (count <= most), plan.walk
    assert len(plan.servers) == (0 if plan.problem else count)
    fresh = [one for one in plan.taken if not any(one.switch is known for known in used)]
    assert all(one.switch in (*idle, *healthy) for one in fresh)
    assert sum(one.switch in healthy for one in fresh) <= more
    if fresh:
        assert sum(one.free for one in used) < count, "its own switches come first"
    for one in fresh:
        if one.is_shared == EXCLUSIVE and more:
            assert len(one.servers) == one.switch.free
