"""How much of a reservation fits beside others, against the least cut over all sets of cards."""

from collections.abc import Mapping
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.quota.reservation_flow import extra_flow

CARDS = ("A", "B", "C")
NAMES = ("A", "B", "C", "A|B", "A|C", "B|C", "A|B|C")
REACH = {name: tuple(name.split("|")) for name in NAMES}

amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), max_size=5)


def most(wanted: Mapping[str, int], room: Mapping[str, int]) -> int:
    """The largest flow: for each set of cards, what fits into it and what needs no card outside it."""
    sets = chain.from_iterable(combinations(CARDS, size) for size in range(len(CARDS) + 1))
    return min(
        sum(room[card] for card in cut)
        + sum(amount for name, amount in wanted.items() if not set(REACH[name]) <= set(cut))
        for cut in sets
    )


@given(
    held=amounts,
    name=st.sampled_from(NAMES),
    amount=st.integers(0, 8),
    room=st.fixed_dictionaries({card: st.integers(0, 6) for card in CARDS}),
)
def test_the_flow_is_the_largest_there_is(
    held: dict[str, int], name: str, amount: int, room: dict[str, int]
) -> None:
    both = {**held, name: held.get(name, 0) + amount}
    assert extra_flow(held, (name, amount), room, REACH) == most(both, room) - most(held, room)


def test_what_is_reserved_moves_over_to_make_room() -> None:
    room = {"A": 3, "B": 3, "C": 0}
    assert extra_flow({"A|B": 3}, ("A", 3), room, REACH) == 3
    assert extra_flow({"A|B": 4}, ("A", 3), room, REACH) == 2
    assert extra_flow({"A|B": 6}, ("A", 1), room, REACH) == 0
