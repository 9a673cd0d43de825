"""Which cards a node has, and what a quota annotation says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.cards import parse_quota
from projections.device_family import DeviceSources
from projections.quota_charging import Cards
from scheduling.device_families.whole_cards import gib
from tests.scheduling.builders import ALL_FAMILIES

GPU = "nvidia.com/gpu"
SHARED = f"{GPU}.shared"
V100 = {f"{GPU}.product": "Tesla-V100", f"{GPU}.count": "2", f"{GPU}.memory": "32768"}
A100 = {
    f"{GPU}.product": "Tesla-A100",
    f"{GPU}.memory": "40960",
    "nvidia.com/mig-1g.10gb.count": "4",
}
SHARES = {**V100, f"{GPU}.replicas": "4"}


@pytest.mark.parametrize(
    ("labels", "amounts", "cards"),
    [
        (V100, {GPU: 2}, {GPU: "Tesla-V100"}),
        ({f"{GPU}.product": "Tesla-V100"}, {GPU: 2}, {GPU: "Tesla-V100"}),
        (SHARES, {GPU: 2, SHARED: 8}, {GPU: "Tesla-V100", SHARED: "Tesla-V100/mps-32g*1/4"}),
        (SHARES, {GPU: 0, SHARED: 8}, {SHARED: "Tesla-V100/mps-32g*1/4"}),
        (
            A100,
            {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-2g.20gb": 2},
            {
                "nvidia.com/mig-1g.10gb": "Tesla-A100/mig-1g.10gb-mixed",
                "nvidia.com/mig-2g.20gb": "Tesla-A100/mig-2g.20gb-mixed",
            },
        ),
        ({**V100, f"{GPU}.replicas": "a"}, {GPU: 2, SHARED: 8}, {GPU: "Tesla-V100"}),
        (V100, {GPU: 2, SHARED: 8}, {GPU: "Tesla-V100"}),
        ({**SHARES, f"{GPU}.memory": "x"}, {SHARED: 8}, {SHARED: "Tesla-V100/mps-0g*1/4"}),
        ({**SHARES, f"{GPU}.memory": ""}, {GPU: 2, SHARED: 8}, {GPU: "Tesla-V100"}),
        ({f"{GPU}.product": "A100"}, {"nvidia.com/mig-1g.10gb": 0}, {}),
        ({"nvidia-x.com/gpu.product": "Odd"}, {GPU: 2}, {}),
        ({"nvidia.com/mig-1g.10gb.product": "A100"}, {GPU: 2}, {}),
        ({f"{GPU}.product": ""}, {GPU: 2}, {}),
        ({f"{GPU}.product": "X"}, {"nvidia.com/b": 1, "nvidia.com/a": 1}, {"nvidia.com/a": "X"}),
        ({f"{GPU}.product": "X"}, {"nvidia.com/a": 1, GPU: 1}, {GPU: "X"}),
        (
            {"huawei.com/Ascend910.product": "910B"},
            {"huawei.com/Ascend910": 8, SHARED: 4},
            {"huawei.com/Ascend910": "910B"},
        ),
        (
            {"b.com/x.product": "B", "a.com/x.product": "A"},
            {"a.com/x": 1, "b.com/x": 1},
            {"a.com/x": "A"},
        ),
        ({"product": "X"}, {GPU: 2}, {}),
        ({}, {GPU: 2}, {}),
    ],
)
def test_labels_and_what_can_be_allocated_name_the_cards(
    labels: dict[str, str], amounts: dict[str, int], cards: dict[str, str]
) -> None:
    assert ALL_FAMILIES.discover(DeviceSources("n1", labels, amounts, amounts)).cards == cards


@pytest.mark.parametrize(
    ("labels", "amounts", "code"),
    [
        ({**V100, "a.com/x.product": "A"}, {GPU: 2}, "SeveralProductLabels"),
        ({f"{GPU}.product": "X"}, {"nvidia.com/b": 1, "nvidia.com/a": 1}, "SeveralCardResources"),
        (V100, {SHARED: 8}, "InvalidReplicas"),
        ({**SHARES, f"{GPU}.replicas": "0"}, {SHARED: 8}, "InvalidReplicas"),
        ({**SHARES, f"{GPU}.memory": "x"}, {SHARED: 8}, "InvalidMemory"),
        ({**SHARES, f"{GPU}.memory": ""}, {SHARED: 8}, "MissingMemory"),
    ],
)
def test_a_label_that_cannot_be_used_is_a_fault(
    labels: dict[str, str], amounts: dict[str, int], code: str
) -> None:
    assert [
        found
        for found, _ in ALL_FAMILIES.discover(DeviceSources("n1", labels, amounts, amounts)).faults
    ] == [code]


@pytest.mark.parametrize(
    ("mebibytes", "rounded"),
    [(32768, 32), (40960, 40), (81920, 80), (97871, 96), (143771, 140), (0, 0)],
)
def test_the_memory_of_a_share_is_rounded_to_the_nearest_gib(mebibytes: int, rounded: int) -> None:
    assert gib(mebibytes) == rounded


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
def test_the_resource_of_a_card_does_not_depend_on_the_order_of_nodes(
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
