"""Each product against a brute force over all sets of chips: a node passes if and only if a set of chips serves the
request, if and only if it has a score; and the set that is picked is the first one in the stated order."""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.ascend.base_product import BaseProduct
from features.ascend.box16_910b import Box16
from features.ascend.card_310 import Card310
from features.ascend.card_910 import Card910
from features.ascend.card_910b import Card910B
from features.ascend.chip_310 import Chip310
from features.ascend.chips import ChipRequest, Chips, Product, ids, mask_of
from features.ascend.duo_card_310p import DuoCard310P
from features.ascend.duo_chip_310p import DuoChip310P
from features.ascend.half_910 import Half910
from features.ascend.inference_card_910b import InferenceCard910B
from features.ascend.mesh import Mesh
from features.ascend.module_910 import Module910
from features.ascend.module_910b import Module910B
from features.ascend.module_a3 import ModuleA3
from features.ascend.super_pod_a3 import SuperPodA3
from tests.example_count import examples

Picked = tuple[int, ...]
Rank = tuple[object, ...] | None
"""How good a set of chips is, smaller is better; None if it does not serve the request."""
Rule = Callable[[Picked, frozenset[int], bool], Rank]
"""Rank of a set, given all usable chips and whether the job is distributed."""

SETS_MAX = 8008


def group(chip: int, size: int) -> range:
    """The group of neighbours that a chip is in."""
    first = chip // size * size
    return range(first, first + size)


def free_in(chip: int, size: int, usable: frozenset[int]) -> int:
    """Number of usable chips in the group of a chip."""
    return sum(one in usable for one in group(chip, size))


def in_one(picked: Picked, size: int) -> bool:
    """Whether all chips are in one group."""
    return len({one // size for one in picked}) == 1


def any_chips(picked: Picked, _usable: frozenset[int], _distributed: bool) -> Rank:
    return (picked,)


def rings_of_four(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    # A pair is better left whole: of rings with 1, 3, 2, 4 free chips the first serves one chip best.
    order = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}
    if len(picked) == 8:
        return (picked,)
    if len(picked) not in order or not in_one(picked, 4):
        return None
    return (order[len(picked)].index(free_in(picked[0], 4, usable)), picked)


def one_ring_of_four(picked: Picked, _usable: frozenset[int], _distributed: bool) -> Rank:
    return (picked,) if len(picked) in (1, 2, 4) else None


def rings_of_eight(strict: bool) -> Rule:
    def rank(picked: Picked, usable: frozenset[int], distributed: bool) -> Rank:
        if len(picked) <= 8:
            return (free_in(picked[0], 8, usable), picked) if in_one(picked, 8) else None
        left = [one for one in picked if one < 8]
        right = [one - 8 for one in picked if one >= 8]
        if len(left) != len(right) or ((strict or not distributed) and left != right):
            return None
        return (picked,)

    return rank


def dies(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    if len(picked) == 1:
        return (free_in(picked[0], 2, usable), picked)
    return (picked,) if all(one ^ 1 in picked for one in picked) else None


def card_of_four(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    order = {1: (1, 3, 2, 4), 2: (2, 3, 4), 3: (3, 4), 4: (4,)}
    if len(picked) not in order or not in_one(picked, 4):
        return None
    return (order[len(picked)].index(free_in(picked[0], 4, usable)), picked)


def used_first(size: int) -> Rule:
    def rank(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
        return (sorted((free_in(one, size, usable), one) for one in picked),)

    return rank


def card_of_two(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    if len(picked) > 2 or not in_one(picked, 2):
        return None
    return (free_in(picked[0], 2, usable), picked)


def across_cards(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    alone = [one for one in picked if one ^ 1 not in picked]
    if len(alone) != len(picked) % 2:
        return None
    # A full card is broken only if no card is half used.
    breaks = [one for one in alone if free_in(one, 2, usable) == 2]
    return (len(breaks), [] if breaks else alone, picked)


def meshes(picked: Picked, usable: frozenset[int], _distributed: bool) -> Rank:
    if len(picked) > 4 and len(picked) % 4:
        return (picked,)
    if len(picked) <= 4:
        return (free_in(picked[0], 4, usable), picked) if in_one(picked, 4) else None
    whole = all(chip in picked for one in picked for chip in group(one, 4))
    return (picked,) if whole else None


RULES: dict[Product, Rule] = {
    BaseProduct(8): any_chips,
    Module910(): rings_of_four,
    Half910(): one_ring_of_four,
    Half910(linear=True): one_ring_of_four,
    Card910(): any_chips,
    Module910B(): any_chips,
    Module910B(linear=True): any_chips,
    Box16(): rings_of_eight(strict=False),
    Box16(strict_pairs=True): rings_of_eight(strict=True),
    Card910B(): any_chips,
    InferenceCard910B(): any_chips,
    ModuleA3(): dies,
    SuperPodA3(8): dies,
    Card310(chips_max=16): card_of_four,
    Chip310(chips_max=16): used_first(4),
    DuoCard310P(chips_max=16): card_of_two,
    DuoChip310P(): used_first(2),
    DuoChip310P(is_across_cards=True): across_cards,
    Mesh(8): meshes,
    Mesh(16): meshes,
}


def sets(usable: frozenset[int], count: int) -> Iterator[Picked]:
    """All sets of so many usable chips."""
    return combinations(sorted(usable), count)


def check(product: Product, chips: Chips, request: ChipRequest) -> None:
    """Compare the answers of a product with the best of all sets."""
    usable = frozenset(ids(product.usable(request, chips)))
    score, picked = product.score(request, chips), product.pick(request, chips)
    obstacle = product.obstacle(request, chips)
    assert (score >= 0) == bool(picked) == (not obstacle), (score, picked, obstacle)
    if not 1 <= request.count <= product.chips_max or chips.free.bit_count() > product.chips_max:
        assert not picked
        return
    rule = RULES[product]
    ranked = [
        (rank, one)
        for one in sets(usable, request.count)
        if (rank := rule(one, usable, request.is_distributed)) is not None
    ]
    best = min(ranked, default=(None, ()))[1]
    assert picked == best


SMALL = [one for one in RULES if one.chips_max <= 8]


@pytest.mark.parametrize("product", SMALL, ids=repr)
def test_all_states_of_a_small_node_agree_with_all_sets_of_its_chips(product: Product) -> None:
    for free in range(1 << product.chips_max):
        for count in range(product.chips_max + 2):
            for is_distributed in (False, True):
                request = ChipRequest(count, is_distributed)
                check(product, Chips(free, product.chips_max), request)


@pytest.mark.parametrize("product", RULES, ids=repr)
@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_states_of_a_node_agree_with_all_sets_of_its_chips(
    product: Product, data: st.DataObject
) -> None:
    most = product.chips_max
    chips = Chips(
        free=data.draw(st.integers(0, (1 << most) - 1)),
        allocatable=data.draw(st.integers(0, most)),
        network_unhealthy=data.draw(st.integers(0, (1 << most) - 1)),
        unhealthy=data.draw(st.integers(0, most)),
        knows_network=True,
    )
    free = chips.free.bit_count()
    counts = [one for one in range(most + 2) if comb(free, one) <= SETS_MAX]
    request = ChipRequest(data.draw(st.sampled_from(counts)), data.draw(st.booleans()))
    check(product, chips, request)


@pytest.mark.parametrize("product", RULES, ids=repr)
@given(free=st.integers(0, (1 << 16) - 1), network=st.integers(0, (1 << 16) - 1))
@settings(max_examples=examples(50), deadline=None)
def test_chips_without_network_are_given_to_jobs_of_one_task_only(
    product: Product, free: int, network: int
) -> None:
    chips = Chips(free & (1 << product.chips_max) - 1, product.chips_max, network)
    picked = product.pick(ChipRequest(1, is_distributed=True), chips)
    if product.heeds_network and not isinstance(product, SuperPodA3):
        assert not mask_of(picked) & network
    alone = ChipRequest(1, is_distributed=False)
    assert product.pick(alone, chips) == product.pick(alone, chips._replace(network_unhealthy=0))


@pytest.mark.parametrize("product", RULES, ids=repr)
@given(mask=st.integers(0, (1 << 16) - 1), count=st.integers(1, 16), distributed=st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_a_node_that_fits_still_fits_with_more_free_chips(
    product: Product, mask: int, count: int, distributed: bool
) -> None:
    all_chips = (1 << product.chips_max) - 1
    request = ChipRequest(count, distributed)
    chips = Chips(mask & all_chips, product.chips_max)
    if product.score(request, chips) >= 0:
        for one in range(product.chips_max):
            more = chips._replace(free=chips.free | 1 << one)
            assert product.score(request, more) >= 0
