"""Scores: the worked examples, and one node scored as all of them are."""

from math import isqrt

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.normalize import Json, JsonObject
from features.table import FEATURES
from projections.nodes import NodeFacts, NodeTable
from projections.plugin import build_plugins
from projections.pod_class import PodClass
from projections.policy.policy import parse_policy
from scheduling.node_columns import FULL, NodeColumns, share, shares
from scheduling.score_formulas import (
    NodeScorers,
    balanced,
    least_requested,
    most_requested,
    root,
)

GI = 1 << 30


def scorer(plugin: str, arguments: JsonObject, **request: int) -> NodeScorers:
    """The scores that one plugin gives to a pod."""
    named: Json = [{"plugins": [{"name": plugin, "arguments": arguments}]}]
    policy, warned = parse_policy(
        msgspec.json.encode({"actions": "allocate", "tiers": named}), FEATURES.policy_table
    )
    assert not warned
    return NodeScorers(
        build_plugins(policy.tiers, FEATURES.policy_table),
        PodClass(index=0, request=tuple(sorted(request.items()))),
    )


BINPACK: JsonObject = {"binpack.weight": 10, "binpack.cpu": 2, "binpack.memory": 3}


def test_binpack_scores_the_examples() -> None:
    packed = scorer("binpack", BINPACK, cpu=1000, memory=GI)
    in_use = packed.of_node({"cpu": 2000, "memory": 4 * GI}, {"cpu": 1000, "memory": 3 * GI})
    empty = packed.of_node({"cpu": 4000, "memory": 16 * GI}, {"cpu": 4000, "memory": 16 * GI})
    assert in_use == 700 * FULL // 100
    assert empty == 137_500


def test_binpack_counts_only_what_is_asked_for() -> None:
    packed = scorer("binpack", BINPACK, cpu=1000)
    assert packed.of_node({"cpu": 2000, "memory": GI}, {"cpu": 2000, "memory": 0}) == 5 * FULL
    nothing = scorer("binpack", BINPACK)
    assert nothing.of_node({"cpu": 2000, "memory": GI}, {"cpu": 2000, "memory": GI}) == 0


def test_binpack_gives_nothing_to_a_node_that_lacks_anything_it_counts() -> None:
    packed = scorer("binpack", BINPACK, cpu=1000, memory=GI)
    room = {"cpu": 2000, "memory": 4 * GI}
    assert packed.of_node(room, {"cpu": 1000, "memory": GI}) > 0
    assert packed.of_node(room, {"cpu": 1000, "memory": GI - 1}) == 0
    assert packed.of_node(room, {"cpu": 999, "memory": GI}) == 0
    without = packed.of_node({"memory": 4 * GI}, {"memory": GI})
    assert without == 10 * FULL * 3 // 5, "what a node has none of adds nothing and weighs on"


@pytest.mark.parametrize(
    ("arguments", "better"),
    [
        ({}, "n2"),
        (
            {
                "leastrequested.weight": 0,
                "mostrequested.weight": 1,
                "balancedresource.weight": 0,
            },
            "n1",
        ),
    ],
)
def test_least_requested_prefers_the_larger_node_and_most_the_smaller(
    arguments: JsonObject, better: str
) -> None:
    ordered = scorer("nodeorder", arguments, cpu=1000, memory=10**9)
    n1 = {"cpu": 2000, "memory": 4 * GI}
    n2 = {"cpu": 4000, "memory": 8 * GI}
    scores = {"n1": ordered.of_node(n1, n1), "n2": ordered.of_node(n2, n2)}
    assert max(scores, key=lambda name: scores[name]) == better


def test_the_parts_of_a_score_are_between_nothing_and_full() -> None:
    assert share(1, 0) == 0
    assert share(3, 2) == FULL
    assert share(-1, 2) == 0
    columns = np.array([1, 3, -1, 1]), np.array([0, 2, 2, 3])
    assert shares(*columns).tolist() == [0, FULL, 0, FULL // 3]
    assert least_requested(FULL, FULL) == 0
    assert most_requested(FULL, FULL) == FULL
    assert balanced(FULL, 0) == FULL // 2
    assert balanced(FULL, FULL) == FULL
    assert balanced(FULL, FULL, FULL) == FULL
    assert balanced(FULL, FULL, 0) == FULL - 47_140


@given(st.lists(st.integers(0, 1 << 51), min_size=1, max_size=8))
def test_square_roots_of_columns_equal_those_of_numbers(numbers: list[int]) -> None:
    squares = [one * one for one in numbers if one < 1 << 25] + numbers
    assert root(np.array(squares, dtype=np.int64)).tolist() == [isqrt(one) for one in squares]


def test_balanced_resource_counts_configured_cards_for_pods_that_request_them() -> None:
    told: JsonObject = {
        "leastrequested.weight": 0,
        "balancedresource.resources": "nvidia.com/gpu, example.com/none",
        "balancedresource.scoring": "level",
    }
    room = {"cpu": 10_000, "memory": 10 * GI, "nvidia.com/gpu": 8}
    cards = scorer("nodeorder", told, **{"cpu": 5000, "memory": 5 * GI, "nvidia.com/gpu": 4})
    plain = scorer("nodeorder", told, cpu=5000, memory=5 * GI)
    apart = scorer("nodeorder", told, **{"cpu": 5000, "memory": 5 * GI, "nvidia.com/gpu": 8})
    assert cards.of_node(room, room) == plain.of_node(room, room) == FULL
    assert apart.of_node(room, room) == FULL - 23_570


def test_a_pod_scores_how_it_changes_the_balance() -> None:
    """C.9 as of Kubernetes 1.36: 75 where it changes nothing, from 50 (even to one-sided) to 100."""
    told: JsonObject = {"leastrequested.weight": 0}
    room = {"cpu": 10_000, "memory": 10 * GI}
    even = scorer("nodeorder", told, cpu=5000, memory=5 * GI)
    assert even.of_node(room, room) == FULL * 3 // 4
    one_sided = scorer("nodeorder", told, cpu=10_000)
    assert one_sided.of_node(room, room) == FULL // 2
    assert one_sided.of_node(room, {"cpu": 10_000, "memory": 0}) == FULL
    told["balancedresource.scoring"] = "level"
    assert scorer("nodeorder", told, cpu=10_000).of_node(room, room) == FULL // 2
    assert scorer("nodeorder", told, cpu=5000, memory=5 * GI).of_node(room, room) == FULL


@given(
    nodes=st.lists(
        st.tuples(st.integers(0, 10**5), st.integers(0, 10**13), st.integers(0, 8)),
        min_size=1,
        max_size=6,
    ),
    cpu=st.integers(0, 10**5),
    cards=st.integers(0, 8),
    plugin=st.sampled_from(["nodeorder", "binpack"]),
)
def test_one_node_is_scored_as_all_of_them_are(
    nodes: list[tuple[int, int, int]], cpu: int, cards: int, plugin: str
) -> None:
    resource = "nvidia.com/gpu"
    arguments: JsonObject = {"binpack.resources": resource} if plugin == "binpack" else {}
    scores = scorer(plugin, arguments, **{"cpu": cpu, "memory": GI, resource: cards})
    table = NodeTable()
    for index, (milli, memory, gpus) in enumerate(nodes):
        table.put(facts(f"n{index}", {"cpu": milli, "memory": memory, resource: gpus}), "")
    table.lay_out()
    columns = scores.of_columns(NodeColumns(table, np.arange(len(table.order))))
    for node, score in zip(table.order, columns, strict=True):
        assert scores.of_node(node.facts.allocatable if node.facts else {}, node.free) == score


def facts(name: str, allocatable: dict[str, int]) -> NodeFacts:
    """A node with so much to give."""
    return NodeFacts(
        name=name,
        uid=name,
        labels={},
        taints=(),
        unschedulable=False,
        allocatable=allocatable,
        cards={},
        card_totals=(),
        created_ns=0,
    )
