"""Fair share: the slots that a pool offers to each group."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from features.pools.fair_share_offers import Offer, ShareBasis, ShareGroup, offers
from tests.example_count import examples


def group(
    key: str,
    demand: int,
    *,
    weight: int = 1,
    fixed: int = 0,
    age: int | None = None,
    smallest_queued: int = 1,
) -> ShareGroup:
    """A group of single-slot tasks; groups are as old as their keys are early in the alphabet."""
    return ShareGroup(
        key=key,
        weight_numerator=weight,
        weight_denominator=1,
        demand=demand,
        fixed=fixed,
        age=(ord(key[0]) if age is None else age,),
        smallest_queued=smallest_queued,
    )


def slots(capacity: int, groups: Sequence[ShareGroup], basis: ShareBasis) -> dict[str, int]:
    """The offered slots by key."""
    return {key: offer.slots for key, offer in offers(capacity, groups, basis).items()}


def reference_offers(
    capacity: int, groups: Sequence[ShareGroup], basis: ShareBasis
) -> dict[str, Offer]:
    """The same offers, computed slowly: line by line the definition, in fractions."""
    e = {
        g.key: Fraction(g.weight_numerator, g.weight_denominator)
        * (g.demand if basis == "demand" else 1)
        for g in groups
    }
    order = sorted(groups, key=lambda g: (g.demand, g.age, g.key))
    offer = {g.key: g.fixed for g in groups}
    credit = {g.key: g.fixed for g in groups}
    disabled: list[str] = []
    left = capacity - sum(g.fixed for g in groups)
    while True:
        live = [g for g in order if g.key not in disabled and offer[g.key] < g.demand]
        if not live:
            break
        weights = sum((e[g.key] for g in live), Fraction(0))
        snapshot = left
        for g in live:
            share = max(1, snapshot * e[g.key] // weights)
            give = max(0, min(share, left, g.demand - offer[g.key]))
            used = min(credit[g.key], give)
            credit[g.key] -= used
            offer[g.key] += give - used
            left -= give - used
        if left <= 0:
            blocked = [
                g
                for g in groups
                if g.key not in disabled
                and offer[g.key] < g.demand
                and g.smallest_queued > 0
                and g.smallest_queued > offer[g.key]
            ]
            if not blocked:
                break
            victim = max(blocked, key=lambda g: (g.age, g.key))
            left += offer[victim.key] - victim.fixed
            offer[victim.key] = victim.fixed
            disabled.append(victim.key)
    return {g.key: Offer(offer[g.key], g.key in disabled) for g in groups}


bases = st.sampled_from(("demand", "equal"))
weights = st.one_of(
    st.just((1, 1)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 10**30), st.integers(1, 10**30)),
)


@st.composite
def share_groups(draw: st.DrawFn, largest_task: int = 12) -> list[ShareGroup]:
    """Up to 10 groups with equal and different ages, weights, demands and fixed slots."""
    groups = []
    for index in draw(st.permutations(range(draw(st.integers(0, 10))))):
        demand = draw(st.integers(0, 30))
        numerator, denominator = draw(weights)
        groups.append(
            ShareGroup(
                key=f"g{index}",
                weight_numerator=numerator,
                weight_denominator=denominator,
                demand=demand,
                fixed=draw(st.one_of(st.just(0), st.integers(0, demand))),
                age=(draw(st.integers(0, 4)), draw(st.integers(0, 1))),
                smallest_queued=draw(st.integers(0, largest_task)),
            )
        )
    return groups


capacities = st.integers(0, 80)


def test_e1_slots_are_shared_by_demand() -> None:
    groups = [group("a", 10), group("b", 30)]
    assert slots(8, groups, "demand") == {"a": 2, "b": 6}
    assert slots(8, groups, "equal") == {"a": 4, "b": 4}


def test_e2_a_weight_multiplies_the_demand() -> None:
    groups = [group("a", 10, weight=3), group("b", 30)]
    assert slots(8, groups, "demand") == {"a": 4, "b": 4}


def test_e3_with_equal_basis_only_the_weights_count() -> None:
    groups = [group("a", 10, weight=3), group("b", 30)]
    assert slots(8, groups, "equal") == {"a": 6, "b": 2}
    groups = [group("a", 10), group("b", 30, weight=3)]
    assert slots(8, groups, "equal") == {"a": 2, "b": 6}


def test_e4_a_remainder_goes_to_the_group_with_the_smallest_demand() -> None:
    groups = [group("a", 5), group("b", 5), group("d", 20)]
    assert slots(9, groups, "demand") == {"a": 2, "b": 1, "d": 6}
    assert slots(9, groups, "equal") == {"a": 3, "b": 3, "d": 3}


@pytest.mark.parametrize("basis", ["demand", "equal"])
def test_e5_the_youngest_group_that_cannot_start_a_task_is_disabled(basis: ShareBasis) -> None:
    groups = [group("a", 4, smallest_queued=4), group("b", 4, smallest_queued=4)]
    assert offers(6, groups, basis) == {"a": Offer(4, False), "b": Offer(0, True)}
    assert offers(8, groups, basis) == {"a": Offer(4, False), "b": Offer(4, False)}


@pytest.mark.parametrize("basis", ["demand", "equal"])
def test_e6_fixed_slots_are_granted_first(basis: ShareBasis) -> None:
    notebook = group("n", 3, fixed=3, smallest_queued=0)
    assert slots(10, [notebook, group("a", 9)], basis) == {"n": 3, "a": 7}


def test_e7_a_new_group_on_a_full_pool_gets_its_share() -> None:
    groups = [group("a", 12, smallest_queued=0), group("b", 4)]
    assert slots(12, groups, "demand") == {"a": 9, "b": 3}


def test_e8_a_cap_lowers_the_effective_weight() -> None:
    groups = [group("a", 4), group("b", 12, weight=2)]
    assert slots(10, groups, "demand") == {"a": 2, "b": 8}


def test_the_sum_of_weights_does_not_change_inside_a_round() -> None:
    groups = [group("a", 3), group("b", 12), group("c", 12)]
    assert slots(16, groups, "equal") == {"a": 3, "b": 7, "c": 6}


def test_later_shares_are_charged_to_fixed_slots_first() -> None:
    groups = [group("a", 10, fixed=4), group("b", 10)]
    # First round: 4 of 8 slots each, those of `a` are charged to its credit. Second: 2 of 4 each.
    assert slots(12, groups, "equal") == {"a": 6, "b": 6}


def test_a_disabled_group_keeps_its_fixed_slots() -> None:
    groups = [group("a", 4, smallest_queued=4), group("b", 6, fixed=1, smallest_queued=5)]
    assert offers(5, groups, "demand") == {"a": Offer(4, False), "b": Offer(1, True)}


def test_groups_of_equal_age_are_disabled_by_the_last_key() -> None:
    groups = [group(key, 4, age=0, smallest_queued=4) for key in "bca"]
    result = offers(8, groups, "demand")
    assert {key for key, offer in result.items() if offer.is_disabled} == {"c"}


def test_with_more_groups_than_slots_the_first_get_one_each() -> None:
    groups = [group("a", 2), group("b", 1), group("c", 1), group("d", 2)]
    result = offers(3, groups, "equal")
    assert {key: offer.slots for key, offer in result.items()} == {"b": 1, "c": 1, "a": 1, "d": 0}
    assert result["d"].is_disabled


def test_without_capacity_nothing_is_offered_beyond_fixed_slots() -> None:
    groups = [group("a", 5, fixed=2, smallest_queued=3), group("b", 5, smallest_queued=0)]
    assert offers(0, groups, "demand") == {"a": Offer(2, True), "b": Offer(0, False)}
    assert offers(0, [], "demand") == {}


def test_rounds_that_only_charge_credits_are_made_at_once() -> None:
    groups = [
        group("a", 10**15, fixed=10**12, smallest_queued=0),
        group("b", 10**15, fixed=10**12 + 1, smallest_queued=0, weight=10**40),
    ]
    # Three slots are left. In each round one slot of `a` and two of `b` are charged to their credits.
    assert slots(2 * 10**12 + 4, groups, "equal") == {"a": 10**12, "b": 10**12 + 4}


def test_two_groups_with_one_key_are_an_error() -> None:
    with pytest.raises(ValueError, match="the same key"):
        offers(8, [group("a", 1), group("a", 2)], "demand")


@pytest.mark.parametrize(("weight", "demand", "fixed"), [(0, 1, 0), (-1, 1, 0), (1, 1, 2)])
def test_a_group_with_impossible_numbers_is_an_error(weight: int, demand: int, fixed: int) -> None:
    with pytest.raises(ValueError, match="group a"):
        group("a", demand, weight=weight, fixed=fixed)


@settings(max_examples=examples(500))
@given(capacities, share_groups(), bases)
def test_the_offers_equal_those_of_the_definition(
    capacity: int, groups: list[ShareGroup], basis: ShareBasis
) -> None:
    assert offers(capacity, groups, basis) == reference_offers(capacity, groups, basis)


@given(capacities, share_groups(), bases)
def test_the_sum_of_offers_exceeds_the_capacity_only_by_fixed_slots(
    capacity: int, groups: list[ShareGroup], basis: ShareBasis
) -> None:
    total = sum(slots(capacity, groups, basis).values())
    fixed = sum(one.fixed for one in groups)
    assert total <= max(capacity, fixed)


@given(capacities, share_groups(), bases)
def test_each_offer_is_between_fixed_slots_and_demand(
    capacity: int, groups: list[ShareGroup], basis: ShareBasis
) -> None:
    result = offers(capacity, groups, basis)
    for one in groups:
        offer = result[one.key]
        assert one.fixed <= offer.slots <= one.demand
        if offer.is_disabled:
            assert offer.slots == one.fixed


@given(share_groups(), st.integers(0, 5), bases)
def test_ample_capacity_offers_each_group_its_demand(
    groups: list[ShareGroup], spare: int, basis: ShareBasis
) -> None:
    capacity = sum(one.demand for one in groups) + spare
    expected = {one.key: Offer(one.demand, False) for one in groups}
    assert offers(capacity, groups, basis) == expected


@given(capacities, share_groups(), bases, st.data())
def test_the_order_of_the_groups_does_not_matter(
    capacity: int, groups: list[ShareGroup], basis: ShareBasis, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(groups))
    assert list(offers(capacity, groups, basis).items()) == list(
        offers(capacity, other, basis).items()
    )


def lowered_by(
    capacity: int, groups: Sequence[ShareGroup], basis: ShareBasis, key: str, weight: Fraction
) -> int:
    """By how many slots the offer of a group falls when it gets another weight."""
    numerator, denominator = weight.numerator, weight.denominator
    changed = [
        replace(one, weight_numerator=numerator, weight_denominator=denominator)
        if one.key == key
        else one
        for one in groups
    ]
    return slots(capacity, groups, basis)[key] - slots(capacity, changed, basis)[key]


@given(
    capacities,
    st.lists(st.tuples(st.integers(1, 30), weights), min_size=1, max_size=3),
    bases,
    st.integers(0, 2),
    weights,
)
def test_a_greater_weight_lowers_no_offer_among_three_groups_of_small_tasks(
    capacity: int,
    rows: list[tuple[int, tuple[int, int]]],
    basis: ShareBasis,
    index: int,
    more: tuple[int, int],
) -> None:
    """None has fixed slots. One slot is allowed for rounding."""
    groups = [
        replace(group(key, demand), weight_numerator=above, weight_denominator=below)
        for key, (demand, (above, below)) in zip("abc", rows, strict=False)
    ]
    one = groups[index % len(groups)]
    weight = Fraction(one.weight_numerator, one.weight_denominator) + Fraction(*more)
    assert lowered_by(capacity, groups, basis, one.key, weight) <= 1


def test_a_greater_weight_can_lower_an_offer_by_two_slots_among_five_groups() -> None:
    """Groups that get their demand leave the sum of weights: with other shares, the rounds are others."""
    demands = {"a": (1, 3), "b": (85, 7), "c": (1, 3), "d": (3, 4), "e": (41, 2)}
    groups = [group(key, demand, weight=weight) for key, (weight, demand) in demands.items()]
    assert lowered_by(17, groups, "demand", "d", Fraction(4)) == 2


def test_a_greater_weight_can_lower_an_offer_by_two_slots_beside_a_credit() -> None:
    groups = [group("a", 8), group("b", 36, weight=4, fixed=29), group("c", 11, weight=20)]
    assert lowered_by(49, groups, "demand", "b", Fraction(5)) == 2


def test_a_greater_weight_can_disable_a_group_of_large_tasks() -> None:
    """With weight 1, `c` and `b` are disabled first, and `a` gets what they return."""
    groups = [
        group("a", 3, smallest_queued=3),
        group("b", 6, weight=6, smallest_queued=3),
        group("c", 2, weight=5, smallest_queued=2),
    ]
    assert slots(4, groups, "equal")["a"] == 3
    heavier = [replace(groups[0], weight_numerator=6), *groups[1:]]
    assert offers(4, heavier, "equal")["a"] == Offer(0, True)
