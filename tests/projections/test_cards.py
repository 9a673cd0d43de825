"""Which cards a node has, and what a quota annotation says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.accounts import Cards
from projections.cards import Card, discover, parse_quota

GPU = "nvidia.com/gpu"
V100 = Card("Tesla-V100", GPU)


@pytest.mark.parametrize(
    ("labels", "allocatable", "card"),
    [
        ({f"{GPU}.product": "Tesla-V100"}, {GPU: 2}, V100),
        ({f"{GPU}.product": "Tesla-V100"}, {GPU: 2, f"{GPU}.shared": 8}, V100),
        ({f"{GPU}.product": "Tesla-V100"}, {f"{GPU}.shared": 8}, None),
        ({f"{GPU}.product": "A100"}, {"nvidia.com/mig-1g.10gb": 4}, None),
        ({"nvidia-x.com/gpu.product": "Odd"}, {GPU: 2}, None),
        ({"nvidia.com/mig-1g.10gb.product": "A100"}, {GPU: 2}, None),
        ({f"{GPU}.product": ""}, {GPU: 2}, None),
        ({f"{GPU}.product": "X"}, {"nvidia.com/b": 1, "nvidia.com/a": 1}, Card("X", "nvidia.com/a")),
        (
            {"huawei.com/Ascend910.product": "910B"},
            {"huawei.com/Ascend910": 8},
            Card("910B", "huawei.com/Ascend910"),
        ),
        ({"b.com/x.product": "B", "a.com/x.product": "A"}, {"a.com/x": 1, "b.com/x": 1}, Card("A", "a.com/x")),
        ({"product": "X"}, {GPU: 2}, None),
        ({}, {GPU: 2}, None),
    ],
)  # fmt: skip
def test_a_product_label_names_the_card(
    labels: dict[str, str], allocatable: dict[str, int], card: Card | None
) -> None:
    assert discover(labels, allocatable) == card


def test_a_quota_is_an_object_of_whole_numbers() -> None:
    assert parse_quota('{"A": 3, "B": 0}') == {"A": 3, "B": 0}
    assert parse_quota("{}") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"A": 3', "not JSON"),
        ("", "not JSON"),
        ('["A"]', "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"A": -1}', "A: -1 is negative"),
        ('{"A": 1.5}', "A: 1.5 is not a whole number"),
        ('{"A": "3"}', 'A: "3" is not a whole number'),
        ('{"A": true}', "A: true is not a whole number"),
        ('{"A": null}', "A: null is not a whole number"),
        ('{"A": 1, "B": -2}', "B: -2 is negative"),
    ],
)
def test_any_other_quota_is_refused_as_a_whole(text: str, reason: str) -> None:
    found = parse_quota(text)
    assert isinstance(found, str)
    assert found.startswith(reason)


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz")), max_size=8), st.data())
def test_what_counts_a_card_does_not_hang_on_the_order_of_nodes(
    nodes: list[tuple[str, str]], data: st.DataObject
) -> None:
    cards, again = Cards(), Cards()
    gone = data.draw(st.lists(st.sampled_from(nodes), unique=True) if nodes else st.just([]))
    for name, resource in nodes:
        cards.shift(name, resource, 1)
    for name, resource in gone:
        before = {**cards.resource}, {one: set(of) for one, of in cards.by_resource.items()}
        changed = cards.shift(name, resource, -1)
        after = {**cards.resource}, {one: set(of) for one, of in cards.by_resource.items()}
        assert changed == (before != after)
    left = list(nodes)
    for one in gone:
        left.remove(one)
    for name, resource in data.draw(st.permutations(left)):
        again.shift(name, resource, 1)
    assert again.resource == cards.resource
    assert again.by_resource == cards.by_resource
