"""Policies: what is taken, what is skipped with a warning, and what is an error with its path."""

import msgspec
import pytest

from events.errors import PolicyError
from events.normalize import Json, JsonObject
from projections.policy import BUILT_IN, Policy, Warned, parse_policy


def parse(document: Json) -> tuple[Policy, tuple[Warned, ...]]:
    """The policy of a document."""
    return parse_policy(msgspec.json.encode(document))


def plugin(name: str, **arguments: Json) -> JsonObject:
    """A document with one plugin."""
    given: JsonObject = {"name": name}
    if arguments:
        given["arguments"] = {key.replace("__", "."): value for key, value in arguments.items()}
    return {"tiers": [{"plugins": [given]}]}


def test_the_built_in_policy_is_read_without_a_warning() -> None:
    policy, warned = parse_policy(BUILT_IN)
    assert warned == ()
    assert policy.actions == ("enqueue", "allocate", "backfill")
    assert policy.quota == "capacity-card"
    assert not policy.cards.cardUnlimitedCpuMemory


def test_a_file_of_another_scheduler_is_taken_with_warnings() -> None:
    document: JsonObject = {
        "actions": "enqueue, allocate, preempt, gangpreempt, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]},
            {"plugins": [{"name": "tdm"}, {"name": "gpus", "enableFoo": 1}], "extra": 1},
            {"plugins": [{"name": "binpack", "enabledBar": True, "arguments": {"binpack.x": 1}}]},
        ],
        "configurations": [],
        "metrics": {},
        "pools": [],
    }
    policy, warned = parse(document)
    assert policy.actions == ("enqueue", "allocate", "preempt", "backfill")
    assert policy.evicting == ("preempt",)
    assert not policy.has("gang", "enablePreemptable")
    assert policy.has("gang", "enableJobOrder")
    assert {one.path for one in warned} == {
        "pools",
        "actions",
        "tiers[1].extra",
        "tiers[1].plugins[0]",
        "tiers[1].plugins[1]",
        "tiers[2].plugins[0].enabledBar",
        "tiers[2].plugins[0].arguments.binpack.x",
    }


def test_numbers_and_truth_may_be_texts() -> None:
    policy, warned = parse(plugin("nodeorder", leastrequested__weight="3"))
    assert policy.node_order is not None
    assert policy.node_order.leastrequested_weight == 3
    policy, _ = parse(plugin("capacity-card", cardUnlimitedCpuMemory="true"))
    assert policy.cards.cardUnlimitedCpuMemory
    assert warned == ()


def test_resources_of_binpack_have_weights_of_their_own() -> None:
    document = plugin(
        "binpack",
        binpack__weight=10,
        binpack__cpu=2,
        binpack__resources="nvidia.com/gpu, example.com/foo",
    )
    policy, _ = parse(document)
    assert policy.binpack is not None
    assert policy.binpack.weight == 10
    assert dict(policy.binpack.resources) == {
        "cpu": 2,
        "memory": 1,
        "nvidia.com/gpu": 1,
        "example.com/foo": 1,
    }


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "policy: expected an object"),
        ({"actions": "allocate, dance"}, "actions: 'dance'"),
        ({"actions": ""}, "actions: no action"),
        ({"actions": 3}, "actions: expected text"),
        ({"tiers": {}}, "tiers: expected a list"),
        ({"tiers": [3]}, r"tiers\[0\]: expected an object"),
        ({"tiers": [{"plugins": 3}]}, r"tiers\[0\].plugins: expected a list"),
        ({"tiers": [{"plugins": [{}]}]}, r"tiers\[0\].plugins\[0\].name: expected text"),
        (
            {"tiers": [{"plugins": [{"name": "gang", "enableJobOrder": "perhaps"}]}]},
            r"tiers\[0\].plugins\[0\].enableJobOrder: expected true or false",
        ),
        (plugin("nodeorder", leastrequested__weight=-1), "leastrequested.weight: expected a whole"),
        (plugin("nodeorder", leastrequested__weight=1.5), "leastrequested.weight: expected a whole"),
        (plugin("nodeorder", leastrequested__weight="x"), "leastrequested.weight: expected a number"),
        (plugin("binpack", binpack__cpu=10**9), "binpack.cpu: expected a number, at most"),
        (plugin("capacity-card", nodeOrderWeight=0), "nodeOrderWeight: expected a number above 0"),
        (plugin("capacity-card", unnamedCardPolicy="maybe"), "unnamedCardPolicy: expected deny"),
        (
            {"tiers": [{"plugins": [{"name": "gang"}, {"name": "gang"}]}]},
            r"tiers\[0\].plugins\[1\]: plugin gang is named twice",
        ),
        (
            {"tiers": [{"plugins": [{"name": "capacity"}, {"name": "capacity-card"}]}]},
            "capacity and capacity-card contradict each other",
        ),
    ],
)  # fmt: skip
def test_a_malformed_value_is_an_error_with_its_path(document: Json, path: str) -> None:
    with pytest.raises(PolicyError, match=path):
        parse(document)


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(PolicyError, match="not JSON"):
        parse_policy(b"{")
