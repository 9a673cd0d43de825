"""Products of Ascend: every worked example and every row of a table, with the ids that a task gets."""

from collections.abc import Iterable

import pytest

from features.ascend.base_product import BaseProduct
from features.ascend.box16_910b import Box16
from features.ascend.card_310 import Card310
from features.ascend.card_910 import Card910
from features.ascend.card_910b import Card910B
from features.ascend.chip_310 import Chip310
from features.ascend.chips import ChipRequest, Chips, Product, mask_of
from features.ascend.duo_card_310p import DuoCard310P
from features.ascend.duo_chip_310p import DuoChip310P
from features.ascend.half_910 import Half910
from features.ascend.inference_card_910b import InferenceCard910B
from features.ascend.mesh import Mesh
from features.ascend.module_910 import Module910
from features.ascend.module_910b import Module910B
from features.ascend.module_a3 import ModuleA3
from features.ascend.super_pod_a3 import SuperPodA3

X = -1


def on(
    product: Product,
    count: int,
    free: Iterable[int],
    *,
    alloc: int | None = None,
    distributed: bool = False,
    network: Iterable[int] = (),
    unhealthy: int = 0,
    knows_network: bool = True,
    total: int = 0,
) -> tuple[int, tuple[int, ...], str]:
    """Score, picked ids and obstacle of a node."""
    chips = Chips(
        free=mask_of(free),
        allocatable=product.chips_max if alloc is None else alloc,
        network_unhealthy=mask_of(network),
        unhealthy=unhealthy,
        knows_network=knows_network,
    )
    request = ChipRequest(count, distributed, total=total)
    return (
        product.score(request, chips),
        product.pick(request, chips),
        product.obstacle(request, chips),
    )


def score(product: Product, count: int, free: Iterable[int], *, alloc: int | None = None) -> int:
    """Score of a node for the only task of a job."""
    return on(product, count, free, alloc=alloc)[0]


def pick(product: Product, count: int, free: Iterable[int]) -> tuple[int, ...]:
    """Ids that the only task of a job gets."""
    return on(product, count, free)[1]


BASE = BaseProduct(8)


def test_base_product_prefers_fewer_free_chips_and_gives_the_lowest() -> None:
    assert on(BASE, 3, {2, 3, 6}) == (797, (2, 3, 6), "")
    assert on(BASE, 3, range(8)) == (792, (0, 1, 2), "")
    assert score(BASE, 3, {2, 3, 6}) > score(BASE, 3, range(8))
    assert on(BASE, 1, {0}, unhealthy=2) == (599, (0,), "")


@pytest.mark.parametrize(
    ("product", "count", "free", "message"),
    [
        (BASE, 2, {3}, "NPUResourceShortage: node don't have enough resource, req<2>, idle<1>"),
        (BASE, 1, (), "getUsableTopFromNode don't have huawei.com/Ascend910"),
        (BASE, 9, range(8), "judgeNodeAndTaskNPU task req num<9> is invalid"),
        (BASE, 0, range(8), "judgeNodeAndTaskNPU task req num<0> is invalid"),
        (BASE, 1, range(9), "node npu top<[0 1 2 3 4 5 6 7 8]> is invalid"),
        (Module910(), 1, {0, 8}, "node npu top<[0 8]> is invalid"),
    ],
)
def test_base_checks_name_what_is_missing(
    product: Product, count: int, free: Iterable[int], message: str
) -> None:
    assert on(product, count, free) == (X, (), message)


def test_distributed_jobs_need_to_know_which_chips_reach_other_nodes() -> None:
    unknown = "node don't have resource<huawei.com/Ascend910-NetworkUnhealthy>"
    rejected = on(Module910B(), 1, {0}, distributed=True, knows_network=False)
    assert rejected == (X, (), unknown)
    assert on(Module910B(), 1, {0}, knows_network=False)[2] == ""
    assert on(Card910(), 1, {0}, distributed=True, knows_network=False)[2] == ""


RING_ROWS = {1: (0, 2, 1, 3), 2: (X, 0, 2, 1), 4: (X, X, X, 0)}


@pytest.mark.parametrize("count", RING_ROWS)
@pytest.mark.parametrize("free", [1, 2, 3, 4])
def test_every_row_of_the_table_of_rings(count: int, free: int) -> None:
    best = RING_ROWS[count][free - 1]
    module = 8 * (8 * 4 - best) + (8 - free)
    assert score(Module910(), count, range(free)) == (X if best == X else module)
    assert score(Module910(), count, range(4, 4 + free)) == (X if best == X else module)
    assert score(Half910(), count, range(free)) == (X if best == X else 8 * (4 * 4 - best))


def test_worked_examples_of_910_module() -> None:
    module = Module910()
    assert [score(module, 2, free) for free in ({0, 1}, range(4), {4, 5, 6})] == [262, 252, 245]
    assert score(module, 1, {0}) == 263
    assert score(module, 1, {0, 1, 4, 5, 6}) == 251
    assert score(module, 8, range(8)) == 8 * 32
    assert pick(module, 8, range(8)) == tuple(range(8))
    assert on(module, 8, range(7))[2].startswith("NPUResourceShortage")
    assert on(module, 2, {0, 4}) == (
        X,
        (),
        "npu topology not meet job require,network unhealthy card is [  ]",
    )
    assert pick(module, 1, {2, 3, 5, 6, 7}) == (5,)
    assert pick(module, 1, {3, 6, 7}) == (3,)
    assert pick(module, 2, {0, 1, 4, 5, 6}) == (0, 1)
    assert pick(module, 2, {0, 1, 4, 5}) == (0, 1)
    assert pick(module, 2, {2, 3, 4, 6}) == (2, 3)
    assert pick(module, 4, range(1, 8)) == (4, 5, 6, 7)


def test_a_910_server_with_all_chips_beats_every_one_that_lost_a_chip() -> None:
    module = Module910()
    assert score(module, 1, range(4), alloc=8) == 236
    assert score(module, 1, range(8), alloc=8) == 232
    assert score(module, 1, {0}, alloc=7) == 231


def test_distributed_910_jobs_get_no_chip_without_network() -> None:
    module = Module910()
    free, network = {0, 1, 2, 3, 6}, {2}
    _, picked, why = on(module, 4, free, distributed=True, network=network)
    assert (picked, why) == (
        (),
        "npu topology not meet job require,network unhealthy card is [ Ascend910-2 ]",
    )
    assert on(module, 4, free, network=network)[1] == (0, 1, 2, 3)


IN_ORDER: dict[int, list[tuple[int, tuple[int, ...]]]] = {
    1: [(1, (0, 1, 2, 3, 4)), (3, (0, 2, 3, 4)), (2, (0, 2, 4)), (4, (0, 4))],
    2: [(2, (0, 1, 2, 3, 4)), (4, (0, 1, 3, 4)), (3, (0, 1))],
    4: [(4, (0, 1, 2, 3, 4))],
    8: [(4, (4,))],
}


@pytest.mark.parametrize("count", IN_ORDER)
def test_the_scenario_table_of_910_module_is_in_the_order_of_its_scores(count: int) -> None:
    nodes = [
        [*range(this), *range(4, 4 + other)] for this, others in IN_ORDER[count] for other in others
    ]
    scores = [score(Module910(), count, free) for free in nodes]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


def test_worked_examples_of_910_half() -> None:
    assert [score(Half910(), 2, free) for free in ({0, 1}, range(4), range(3))] == [128, 120, 112]
    assert pick(Half910(), 2, {1, 2, 3}) == (1, 2)
    assert score(Half910(linear=True), 2, range(3)) == 397


def test_every_row_of_the_table_of_910_cards() -> None:
    card = Card910()
    assert score(card, 1, {0}) == 64
    assert score(card, 1, {0, 1}) == 56
    assert score(card, 2, {0}) == X
    assert score(card, 2, {0, 1}) == 64
    assert score(card, 1, {1}, alloc=1) == 32
    assert pick(card, 1, {0, 4}) == (0,)
    assert score(Card910(linear=True), 1, {0, 1}) == 198


WASTE_8 = [
    (0, 1, 2, 3, 4, 5, 6, 7),
    (X, 0, 1, 2, 3, 4, 5, 6),
    (X, X, 0, 1, 2, 3, 4, 5),
    (X, X, X, 0, 1, 2, 3, 4),
    (X, X, X, X, 0, 1, 2, 3),
    (X, X, X, X, X, 0, 1, 2),
    (X, X, X, X, X, X, 0, 1),
    (X, X, X, X, X, X, X, 0),
]


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("free", range(1, 9))
def test_every_row_of_the_table_of_910b(count: int, free: int) -> None:
    best = WASTE_8[count - 1][free - 1]
    assert score(Module910B(), count, range(free)) == (X if best == X else 8 * (8 - best))
    one_ring = 16 * (16 - best) + 16 - free
    assert score(Box16(), count, range(free)) == (X if best == X else one_ring)
    assert score(Box16(), count, range(8, 8 + free)) == (X if best == X else one_ring)


def test_worked_examples_of_910b() -> None:
    frees = [range(6), range(7), range(8), range(5)]
    assert [score(Module910B(), 6, free) for free in frees] == [64, 56, 48, X]
    assert pick(Module910B(), 3, {7, 1, 3, 5}) == (1, 3, 5)
    assert score(Module910B(linear=True), 6, range(7)) == 793


SPREAD = (0, 1, 2, 3, 4, 8, 9, 10, 11, 13)


def test_worked_example_of_box16() -> None:
    box = Box16()
    assert on(box, 10, SPREAD)[:2] == (X, ())
    assert on(box, 10, SPREAD, distributed=True) == (262, SPREAD, "")
    assert on(Box16(strict_pairs=True), 10, SPREAD, distributed=True)[0] == X


@pytest.mark.parametrize("count", [10, 12, 14, 16])
@pytest.mark.parametrize("pairs", [5, 6, 7, 8])
@pytest.mark.parametrize("distributed", [False, True])
def test_every_row_of_box16_across_both_rings(count: int, pairs: int, distributed: bool) -> None:
    free = [*range(pairs), *range(8, 8 + pairs)]
    value, picked, _ = on(Box16(), count, free, distributed=distributed)
    best = pairs - count // 2
    assert value == (X if best < 0 else 16 * (16 - best) + 16 - len(free))
    half = [*range(count // 2)]
    assert picked == (() if best < 0 else (*half, *(8 + one for one in half)))


def test_box16_prefers_the_ring_in_which_the_fewest_remain() -> None:
    box = Box16()
    assert pick(box, 3, {0, 1, 2, 3, 9, 11, 13}) == (9, 11, 13)
    assert pick(box, 3, {1, 2, 3, 9, 11, 13}) == (1, 2, 3)
    assert on(box, 3, {0, 1, 8, 9})[2] == (
        "the npus on this node don't satisfy the schedulable topology: req npu(3), "
        "node top<[0 1 8 9]>"
    )
    assert score(box, 16, range(16)) == 256
    assert on(box, 9, range(16))[0] == X


def test_every_row_of_the_table_of_910b_cards() -> None:
    card = Card910B()
    assert score(card, 1, {0}) == 5
    assert score(card, 1, {0, 1}) == 2
    assert score(card, 2, {0, 1}) == 4
    assert on(card, 2, {0})[2].startswith("NPUResourceShortage")
    assert pick(card, 2, {0, 5}) == (0, 5)
    assert score(Card910B(linear=True), 1, {0}) == 199


def test_inference_cards_of_910b_prefer_no_node() -> None:
    card = InferenceCard910B()
    assert on(card, 1, {0, 1}) == (0, (0,), "")
    assert score(card, 2, {0, 1}) == score(card, 1, {1}) == 0
    assert score(InferenceCard910B(linear=True), 1, {1}) == 199


@pytest.mark.parametrize("free", range(1, 17))
@pytest.mark.parametrize("count", [1, *range(2, 17, 2)])
def test_every_row_of_the_table_of_a3(count: int, free: int) -> None:
    # The free dies are complete cards, and one half-used card beside an odd number.
    complete = free // 2 * 2
    if count == 1:
        expected = 16 * (32 - (free - 1) - (0 if free % 2 else 16))
    else:
        expected = 16 * (32 - (free - count)) if complete >= count else X
    assert score(ModuleA3(), count, range(free)) == expected


def test_worked_examples_of_a3() -> None:
    module = ModuleA3()
    assert score(module, 1, range(8)) == 144
    assert score(module, 1, range(7)) == 416
    assert score(module, 4, range(4)) == 512
    assert score(module, 4, range(6)) == 480
    assert pick(module, 2, {0, 2, 3, 4}) == (2, 3)
    assert pick(module, 4, {0, 2, 3, 5, 6, 7, 8, 9}) == (2, 3, 6, 7)
    assert pick(module, 1, {2, 3, 4, 5, 9}) == (9,)
    assert pick(module, 16, range(16)) == tuple(range(16))
    assert on(module, 4, {0, 2, 3, 4})[2] == "npu top[0 2 3 4] is not meet task req(4)"


def test_a3_nodes_of_super_pods_use_the_network_only_between_blocks() -> None:
    whole = SuperPodA3(16)
    assert on(whole, 16, range(16), distributed=True, network={3}, total=64)[1] == tuple(range(16))
    blocks = SuperPodA3(16, block=16)
    assert on(blocks, 16, range(16), distributed=True, network={3}, total=64)[0] == X
    assert on(blocks, 16, range(16), network={3}, total=16)[0] == 512
    one = SuperPodA3(16, block=32)
    assert on(one, 16, range(16), distributed=True, network={3}, total=32)[0] == 512
    assert on(one, 16, range(16), distributed=True, network={3}, total=64)[0] == X
    assert score(SuperPodA3(8), 8, range(8)) == 512


CARD_310_ROWS = {1: (0, 2, 1, 3), 2: (X, 0, 1, 2), 3: (X, X, 0, 1), 4: (X, X, X, 0)}


@pytest.mark.parametrize("count", CARD_310_ROWS)
@pytest.mark.parametrize("free", [1, 2, 3, 4])
@pytest.mark.parametrize("card", [0, 1, 15])
def test_every_row_of_the_table_of_310_cards(count: int, free: int, card: int) -> None:
    best = CARD_310_ROWS[count][free - 1]
    first = 4 * card
    expected = (X, ()) if best == X else (8 * (4 - best), tuple(range(first, first + count)))
    assert on(Card310(), count, range(first, first + free))[:2] == expected


def test_worked_examples_of_310() -> None:
    assert [score(Card310(), 2, free) for free in ({0, 1}, range(3), range(4))] == [32, 24, 16]
    assert pick(Card310(), 1, {1, 2, 5, 6, 7}) == (5,)
    assert on(Card310(), 2, {0, 4, 8})[2] == (
        "checkNodeNPUByTask the npus on this node don't satisfy the schedulable topology : "
        "req npu(2) illegal not meet node top<[0 4 8]>"
    )
    assert on(Card310(), 5, range(8))[0] == X
    assert pick(Chip310(), 1, {0, 1, 2, 7}) == (7,)
    assert pick(Chip310(), 3, {0, 1, 4, 5, 6}) == (0, 1, 4)
    assert score(Chip310(), 3, {0, 1, 4, 5, 6}) == 6395


def test_310p_cards_without_groups_give_the_lowest_ids() -> None:
    plain = BaseProduct(64)
    assert pick(plain, 3, {63, 5, 2, 40}) == (2, 5, 40)
    assert score(plain, 3, {63, 5, 2, 40}) == 6396


def test_every_row_of_the_table_of_duo_cards() -> None:
    card = DuoCard310P()
    assert on(card, 1, {6})[:2] == (16, (6,))
    assert on(card, 1, {6, 7})[:2] == (8, (6,))
    assert on(card, 2, {6})[:2] == (X, ())
    assert on(card, 2, {6, 7})[:2] == (16, (6, 7))
    assert on(card, 2, {5, 6})[:2] == (X, ())
    assert pick(card, 1, {0, 1, 3}) == (3,)


def duo_free(free: int, *, has_half: bool) -> set[int]:
    """So many free chips, on complete cards but for one that is half used."""
    rest = free % 2
    assert not rest or has_half
    if not has_half:
        return set(range(free))
    # One half-used card (0) for an odd number, two of them (0 and 1) for an even one.
    halves = {1} if rest else {1, 3}
    first = 2 * len(halves)
    return halves | set(range(first, first + free - len(halves)))


DUO_HALF = {1: range(1, 8), 3: range(3, 8), 5: range(5, 8), 7: range(7, 8)}
DUO_FULL = {1: (2, 4, 6, 8), 3: (4, 6, 8), 5: (6, 8), 7: (8,)}
DUO_EVEN = {2: range(2, 9), 4: range(4, 9), 6: range(6, 9), 8: range(8, 9)}


@pytest.mark.parametrize("count", DUO_HALF)
def test_every_row_of_the_table_of_duo_chips_for_odd_requests(count: int) -> None:
    duo = DuoChip310P(is_across_cards=True)
    half = {
        free: score(duo, count, duo_free(free, has_half=True))
        for free in DUO_HALF[count]
        if free % 2 or free - 2 >= count - 1
    }
    assert half == {free: 8 * (16 - (free - count + 1)) for free in half}
    assert len(half) == len(DUO_HALF[count])
    full = [score(duo, count, duo_free(free, has_half=False)) for free in DUO_FULL[count]]
    assert full == [8 * (16 - 9 - index) for index in range(len(full))]


@pytest.mark.parametrize("count", DUO_EVEN)
def test_every_row_of_the_table_of_duo_chips_for_even_requests(count: int) -> None:
    duo = DuoChip310P(is_across_cards=True)
    found = [score(duo, count, duo_free(free, has_half=free % 2 == 1)) for free in DUO_EVEN[count]]
    assert found == [8 * (16 - 1 - index) for index in range(len(found))]


def test_worked_examples_of_duo_chips() -> None:
    duo = DuoChip310P(is_across_cards=True)
    assert on(duo, 3, {0, 2, 3, 4, 5}) == (104, (0, 2, 3), "")
    assert pick(duo, 3, range(8)) == (0, 1, 2)
    assert on(duo, 4, {0, 2, 4, 6})[0] == X
    assert on(duo, 3, {0, 2, 4, 6})[0] == X
    assert on(DuoChip310P(), 3, {0, 2, 4, 6}) == (0, (0, 2, 4), "")
    assert pick(DuoChip310P(), 2, {0, 1, 3}) == (0, 3)


def test_duo_servers_with_more_than_eight_free_chips_are_ranked_below_the_table() -> None:
    duo = DuoChip310P(is_across_cards=True)
    assert [score(duo, 2, range(free)) for free in (8, 10, 12, 16)] == [72, 30, 28, 24]
    assert [score(duo, 1, range(free)) for free in (8, 10, 12, 14, 16)] == [32, 24, 23, 22, 21]
    assert score(duo, 1, range(15)) == 25


MESH_8 = {1: (0, 1, 2, 3), 2: (X, 0, 1, 2), 3: (X, X, 0, 1), 4: (X, X, X, 0)}


@pytest.mark.parametrize("count", MESH_8)
@pytest.mark.parametrize("free", [1, 2, 3, 4])
def test_every_row_of_the_table_of_meshes(count: int, free: int) -> None:
    best = MESH_8[count][free - 1]
    one, two = range(free), [*range(free), *range(4, 8)]
    assert score(Mesh(8), count, one) == (X if best == X else 16 * (16 - best))
    both = 8 * (0 if best == X else 1) + free + 4 - count
    assert score(Mesh(8), count, two) == 16 * (16 - both)
    assert score(Mesh(16), count, one) == (X if best == X else 64 * (64 - best))
    both = 16 * (0 if best == X else 1) + free + 4 - count
    assert score(Mesh(16), count, two) == 64 * (64 - both)


@pytest.mark.parametrize("count", [8, 12, 16])
@pytest.mark.parametrize("meshes", [2, 3, 4])
def test_every_row_of_the_table_of_several_meshes(count: int, meshes: int) -> None:
    spare = 4 * meshes - count
    expected = X if spare < 0 else 64 * (64 - 16 * (spare // 4) - spare)
    assert score(Mesh(16), count, range(4 * meshes)) == expected


@pytest.mark.parametrize("count", [5, 6, 7, 9, 10, 11, 13, 14, 15])
@pytest.mark.parametrize("size", [8, 16])
def test_numbers_that_are_no_meshes_are_ranked_by_what_remains(count: int, size: int) -> None:
    for free in range(1, size + 1):
        expected = size * (size - (free - count)) if count <= free else X
        assert score(Mesh(size), count, range(free)) == expected


def test_worked_examples_of_meshes() -> None:
    assert [score(Mesh(8), 6, range(free)) for free in (6, 8)] == [64, 48]
    assert on(Mesh(16), 2, {1, 5, 9}, network={7})[2] == (
        "the npus on this node don't satisfy the schedulable topology, "
        "network unhealthy card is [ Ascend910-7 ]"
    )
    assert pick(Mesh(8), 2, {0, 1, 4, 5, 6}) == (0, 1)
    assert pick(Mesh(8), 3, {0, 1, 2, 3, 4, 5, 6}) == (4, 5, 6)
    assert pick(Mesh(16), 8, {0, *range(4, 16)}) == tuple(range(4, 12))
