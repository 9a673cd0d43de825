"""Policies: what is taken, what is skipped with a warning, and what is an error with its path."""

from fractions import Fraction
from typing import TypeVar

import msgspec
import pytest

from events.errors import PolicyError
from events.normalize import Json, JsonObject
from features.table import FEATURES
from projections.plugin import JobOrder, PluginSet, build_plugins
from projections.policy.action_arguments import GangEvictionArguments, PreemptArguments
from projections.policy.placement_rules import PlacementRule
from projections.policy.policy import BUILT_IN, Policy, PolicyWarning, parse_policy
from projections.policy.pools import Pool, Pools
from scheduling.plugins.binpack import BinPackArguments
from scheduling.plugins.capacity_card import CapacityCardArguments
from scheduling.plugins.network_topology_aware import TopologyArguments
from scheduling.plugins.nodeorder import NodeOrderArguments
from scheduling.plugins.overcommit import OvercommitArguments
from scheduling.plugins.sla import SlaArguments
from scheduling.quota.queue_order import QueueOrder

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)


def parse(document: Json) -> tuple[Policy, tuple[PolicyWarning, ...]]:
    """The policy of a document."""
    return parse_policy(msgspec.json.encode(document), FEATURES.policy_table)


def plugins_of(policy: Policy) -> PluginSet:
    """The plugins of a policy."""
    return build_plugins(policy.tiers, FEATURES.policy_table)


def arguments_of(policy: Policy, kind: type[ArgumentsT]) -> ArgumentsT:
    """The arguments of the plugin that has such."""
    (found,) = [one.arguments for one in policy.plugins if isinstance(one.arguments, kind)]
    return found


def takes_part(policy: Policy, name: str, flag: str) -> bool:
    """Whether a plugin is in the policy and enabled for a flag."""
    return any(one.name == name and one.takes_part(flag) for one in policy.plugins)


def job_order(policy: Policy) -> list[str]:
    """The plugins that order pod groups."""
    return [one.name for one in plugins_of(policy).of(JobOrder)]


def queue_order(policy: Policy) -> list[str]:
    """The plugins that order queues."""
    return [one.name for one in plugins_of(policy).of(QueueOrder)]


def plugin(name: str, **arguments: Json) -> JsonObject:
    """A document with one plugin."""
    given: JsonObject = {"name": name}
    if arguments:
        given["arguments"] = {key.replace("__", "."): value for key, value in arguments.items()}
    return {"tiers": [{"plugins": [given]}]}


def test_the_built_in_policy_is_read_without_a_warning() -> None:
    policy, warned = parse_policy(BUILT_IN, FEATURES.policy_table)
    assert warned == ()
    assert policy.actions == ("enqueue", "allocate", "backfill")
    assert plugins_of(policy).quota.name == "capacity-card"
    assert not arguments_of(policy, CapacityCardArguments).cardUnlimitedCpuMemory


def test_a_file_of_another_scheduler_is_taken_with_warnings() -> None:
    document: JsonObject = {
        "actions": "enqueue, allocate, preempt, shuffle, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]},
            {"plugins": [{"name": "tdm"}, {"name": "gpus", "enableFoo": 1}], "extra": 1},
            {"plugins": [{"name": "binpack", "enabledBar": True, "arguments": {"binpack.x": 1}}]},
        ],
        "configurations": [],
        "metrics": {},
        "shards": [],
    }
    policy, warned = parse(document)
    assert policy.actions == ("enqueue", "allocate", "preempt", "backfill")
    assert policy.evicting == ("preempt",)
    assert not takes_part(policy, "gang", "enablePreemptable")
    assert takes_part(policy, "gang", "enableJobOrder")
    assert {one.path for one in warned} == {
        "shards",
        "actions",
        "tiers[1].extra",
        "tiers[1].plugins[0]",
        "tiers[1].plugins[1]",
        "tiers[2].plugins[0].enabledBar",
        "tiers[2].plugins[0].arguments.binpack.x",
    }


def test_without_pools_all_nodes_are_one() -> None:
    assert parse({})[0].pools == Pools()
    policy, warned = parse({"pools": [{"name": "gpus", "decider": "session", "color": "red"}]})
    assert policy.pools == Pools((Pool("gpus", "session"),), "gpus", "gpus")
    assert [one.path for one in warned] == ["pools[0].color"]


def test_numbers_and_truth_may_be_texts() -> None:
    policy, warned = parse(plugin("nodeorder", leastrequested__weight="3"))
    assert arguments_of(policy, NodeOrderArguments).leastrequested_weight == 3
    policy, _ = parse(plugin("capacity-card", cardUnlimitedCpuMemory="true"))
    assert arguments_of(policy, CapacityCardArguments).cardUnlimitedCpuMemory
    assert warned == ()


def test_resources_of_binpack_have_weights_of_their_own() -> None:
    document = plugin(
        "binpack",
        binpack__weight=10,
        binpack__cpu=2,
        binpack__resources="nvidia.com/gpu, example.com/foo",
    )
    policy, _ = parse(document)
    packing = arguments_of(policy, BinPackArguments)
    assert packing.weight == 10
    assert dict(packing.resources) == {
        "cpu": 2,
        "memory": 1,
        "nvidia.com/gpu": 1,
        "example.com/foo": 1,
    }


def test_the_scorers_weigh_what_volcano_gives_them() -> None:
    policy, _ = parse({"tiers": [{"plugins": [{"name": "nodeorder"}, {"name": "binpack"}]}]})
    packing = arguments_of(policy, BinPackArguments)
    assert msgspec.to_builtins(arguments_of(policy, NodeOrderArguments)) == {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "balancedresource.weight": 1,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
        "balancedresource.resources": "",
        "balancedresource.scoring": "change",
    }
    assert (packing.weight, packing.resources) == (1, (("cpu", 1), ("memory", 1)))


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "policy: expected an object"),
        ({"actions": "allocate, dance"}, "actions: 'dance'"),
        ({"actions": ""}, "actions: no action"),
        ({"actions": 3}, "actions: expected text"),
        ({"tiers": {}}, "tiers: expected a list"),
        ({"pools": [{}]}, r"pools\[0\].name: expected text"),
        ({"pools": [{"name": "a", "decider": "dice"}]}, r"pools\[0\].decider: 'dice' is not one of"),
        ({"pools": [{"name": "a", "nodeSelector": 3}]}, r"pools\[0\].nodeSelector: expected an obj"),
        ({"pools": [{"name": "a"}, {"name": "b"}]}, r"pools\[1\].nodeSelector: pools a and b sele"),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, r"pools\[1\].name: pool a is named twice"),
        ({"pools": [{"name": "a/b"}]}, r"pools\[0\].name: 'a/b' has a slash"),
        ({"pools": [{"name": ""}]}, r"pools\[0\].name: is empty"),
        ({"pools": [{"name": "a", "priority": 0}]}, r"pools\[0\].priority: 0 is not from 1 to 99"),
        ({"pools": [{"name": "a", "priority": 100}]}, r"pools\[0\].priority: 100 is not from"),
        ({"pools": [{"name": "a", "weight": 0}]}, r"pools\[0\].weight: expected a number above 0"),
        ({"pools": [{"name": "a", "fitting": "x"}]}, r"pools\[0\].fitting: 'x' is not one of best"),
        ({"pools": [{"name": "a", "replaces": ["a"]}]}, r"pools\[0\].replaces: a is a pool"),
        ({"pools": [{"name": "a"}], "defaultAuxPool": "b"}, r"defaultAuxPool: there is no pool b: a"),
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
        (
            {"tiers": [{"plugins": [{"name": "proportion"}]}, {"plugins": [{"name": "capacity"}]}]},
            "capacity and proportion contradict each other",
        ),
        (
            {"tiers": [{"plugins": [{"name": "proportion"}, {"name": "drf", "enableHierarchy": True}]}]},
            r"tiers\[0\]: hierarchical drf and proportion contradict each other",
        ),
        (
            {"tiers": [{"plugins": [{"name": "sla", "arguments": {"sla-waiting-time": "soon"}}]}]},
            "sla-waiting-time: 'soon' is not a time",
        ),
        (
            {"tiers": [{"plugins": [{"name": "overcommit", "arguments": {"overcommit-factor": -1}}]}]},
            "overcommit-factor: expected a number of at least 0",
        ),
    ],
)  # fmt: skip
def test_a_malformed_value_is_an_error_with_its_path(document: Json, path: str) -> None:
    with pytest.raises(PolicyError, match=path):
        parse(document)


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(PolicyError, match="not JSON"):
        parse_policy(b"{", FEATURES.policy_table)


def test_a_factor_below_one_counts_as_the_default() -> None:
    policy, warned = parse({"tiers": [{"plugins": [overcommitting("0.5")]}]})
    assert arguments_of(policy, OvercommitArguments) == OvercommitArguments()
    assert [one.path for one in warned] == ["tiers[0].plugins[0].arguments.overcommit-factor"]
    policy, warned = parse({"tiers": [{"plugins": [overcommitting(1.3)]}]})
    assert arguments_of(policy, OvercommitArguments) == OvercommitArguments(factor=Fraction(13, 10))
    assert warned == ()


def overcommitting(factor: Json) -> JsonObject:
    """The plugin with this factor."""
    return {"name": "overcommit", "arguments": {"overcommit-factor": factor}}


def test_a_waiting_time_is_a_span() -> None:
    given: JsonObject = {"name": "sla", "arguments": {"sla-waiting-time": "1h2m"}}
    policy, _ = parse({"tiers": [{"plugins": [given]}]})
    assert arguments_of(policy, SlaArguments) == SlaArguments(waiting_ns=3_720_000_000_000)
    assert job_order(policy) == ["sla"]


def test_a_flag_that_is_off_by_default_must_be_switched_on() -> None:
    policy, warned = parse({"tiers": [{"plugins": [{"name": "capacity"}]}]})
    assert not plugins_of(policy).quota.keeps_tree
    given: JsonObject = {"name": "capacity", "enableHierarchy": "true"}
    policy, warned = parse({"tiers": [{"plugins": [given]}]})
    assert plugins_of(policy).quota.keeps_tree
    assert warned == ()


def test_network_topology_takes_weights_of_its_resources() -> None:
    given: JsonObject = {
        "name": "network-topology-aware",
        "arguments": {
            "weight": 3,
            "hypernode.binpack.cpu": 2,
            "hypernode.binpack.resources": "example.com/card",
            "hypernode.binpack.resources.example.com/card": 10,
            "hypernode.binpack.normal-pod.enable": False,
            "hypernode.binpack.normal-pod.fading": "0.5",
            "hypernode.binpack.other": 1,
        },
    }
    policy, warned = parse({"tiers": [{"plugins": [given]}]})
    assert arguments_of(policy, TopologyArguments) == TopologyArguments(
        weight=3,
        resources=(("cpu", 2), ("memory", 1), ("example.com/card", 10)),
        is_for_normal_pods=False,
        tier_decay=Fraction(1, 2),
    )
    assert [one.message for one in warned] == [
        "plugin network-topology-aware does not know this argument"
    ]


def test_the_configuration_that_volcano_has_built_in_is_taken_whole() -> None:
    policy, warned = parse(
        {
            "actions": "enqueue, allocate, backfill",
            "tiers": [
                {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
                {
                    "plugins": [
                        {"name": "overcommit"},
                        {"name": "drf", "enablePreemptable": False},
                        {"name": "predicates"},
                        {"name": "proportion"},
                        {"name": "nodeorder"},
                    ]
                },
            ],
        }
    )
    assert warned == ()
    assert plugins_of(policy).quota.name == "proportion"
    assert job_order(policy) == ["priority", "gang", "drf"]
    assert queue_order(policy) == ["proportion"]
    assert not takes_part(policy, "drf", "enablePreemptable")


def test_a_flag_that_means_something_to_volcano_and_nothing_here_is_named() -> None:
    gang: JsonObject = {"name": "gang", "enableJobReady": False, "enableJobOrder": False}
    _, warned = parse(
        {"tiers": [{"plugins": [gang, {"name": "priority", "enableTaskOrder": "true"}]}]}
    )
    assert [(one.path, one.message) for one in warned] == [
        ("tiers[0].plugins[0].enableJobReady", "changes nothing: a gang is always whole")
    ]


def test_hierarchical_drf_orders_queues_where_it_stands() -> None:
    drf: JsonObject = {"name": "drf", "enableHierarchy": True}
    policy, _ = parse({"tiers": [{"plugins": [drf, {"name": "capacity"}]}]})
    assert queue_order(policy) == ["drf", "capacity"]
    policy, _ = parse({"tiers": [{"plugins": [{"name": "capacity"}, {"name": "drf"}]}]})
    assert queue_order(policy) == ["capacity"]


def test_action_arguments_are_parsed_and_unused_ones_warned_about() -> None:
    document: JsonObject = {
        "actions": "allocate, preempt, gangreclaim",
        "configurations": [
            {"name": "allocate", "arguments": {"predicateErrorCacheEnable": "false"}},
            {
                "name": "preempt",
                "arguments": {
                    "enableTopologyAwarePreemption": True,
                    "minCandidateNodesPercentage": 20,
                    "minCandidateNodesAbsolute": 5,
                    "maxCandidateNodesAbsolute": 50,
                    "topologyAwarePreemptWorkerNum": 8,
                },
            },
            {"name": "gangreclaim", "arguments": {"maxDomains": "3", "allowWholeBundle": False}},
            {"name": "enqueue", "arguments": {"foo": 1}},
        ],
    }
    policy, warned = parse(document)
    assert not policy.action_arguments.caches_failed_roles
    assert policy.action_arguments.preempting == PreemptArguments(True, 20, 5, 50)
    assert [policy.action_arguments.preempting.candidates(count) for count in (1, 100, 1000)] == [
        5,
        20,
        50,
    ]
    assert policy.action_arguments.of_gangs("gangreclaim") == GangEvictionArguments(3, False)
    assert policy.action_arguments.of_gangs("gangpreempt") == GangEvictionArguments(8, True)
    assert [(one.path, one.message) for one in warned] == [
        ("configurations[1].arguments.topologyAwarePreemptWorkerNum", "it changes nothing here"),
        ("configurations[3].arguments.foo", "muster does not know this argument"),
    ]


def test_a_resource_may_be_overcommitted_by_a_factor_of_its_own() -> None:
    arguments: JsonObject = {"overcommit-factor.cpu": 2, "overcommit-factor.memory": "0.1"}
    given: JsonObject = {"name": "overcommit", "arguments": arguments}
    policy, warned = parse({"tiers": [{"plugins": [given]}]})
    factors = arguments_of(policy, OvercommitArguments)
    assert [factors.of(name) for name in ("cpu", "memory", "pods")] == [
        2,
        Fraction(6, 5),
        Fraction(6, 5),
    ]
    assert [one.path for one in warned] == [
        "tiers[0].plugins[0].arguments.overcommit-factor.memory"
    ]


def test_the_rules_of_placement_name_strategies_and_queues() -> None:
    rules: list[Json] = [
        {"strategy": "leaf-switches", "queues": ["train"]},
        {"strategy": "node-by-node"},
    ]
    policy, warned = parse({"placement": rules})
    assert policy.placement == (
        PlacementRule("leaf-switches", ("train",)),
        PlacementRule("node-by-node"),
    )
    assert [one.is_for("train") for one in policy.placement] == [True, True]
    assert [one.is_for("other") for one in policy.placement] == [False, True]
    assert not warned


def test_without_rules_all_strategies_serve_all_queues() -> None:
    empty: JsonObject = {"placement": []}
    for document in ({}, empty):
        policy, _ = parse(document)
        assert [one.strategy for one in policy.placement] == list(FEATURES.policy_table.strategies)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "placement[0].strategy: expected text, got null"),
        ({"strategy": "tree"}, "placement[0].strategy: 'tree' is not one of super-pods, "),
        ({"strategy": "hyper-nodes", "queues": []}, "placement[0].queues: no queue is named"),
        ({"strategy": "hyper-nodes", "queues": [1]}, "placement[0].queues[0]: expected text"),
        ("node-by-node", "placement[0]: expected an object"),
    ],
)
def test_a_rule_of_placement_that_cannot_be_used_is_an_error(rule: Json, message: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse({"placement": [rule]})
    assert message in str(raised.value)


def test_an_unknown_key_of_a_rule_of_placement_is_named() -> None:
    _, warned = parse({"placement": [{"strategy": "node-by-node", "namespaces": ["a"]}]})
    assert [one.path for one in warned] == ["placement[0].namespaces"]


def test_a_policy_with_pools_and_without_tiers_has_predicates_and_quotas_without_card_models() -> (
    None
):
    policy, _ = parse({"pools": [{"name": "a", "decider": "priority"}]})
    names = [one.name for one in policy.plugins]
    assert "predicates" in names
    assert "capacity" in names
    assert "capacity-card" not in names
    assert parse({"pools": [{"name": "a"}]})[0].tiers == ()


@pytest.mark.parametrize(
    "label", ["-x", "a/b/c", "/x", "A/x", "x" * 64, f"{'a' * 254}/x", "a b", "x\n", "ä", "x=y"]
)
def test_the_label_of_tenants_must_be_the_key_of_a_label(label: str) -> None:
    with pytest.raises(PolicyError, match=r"tenants\.label: .* is not the key of a label"):
        parse({"tenants": {"label": label}})


def test_a_policy_names_the_label_of_tenants() -> None:
    policy, warned = parse({"tenants": {"label": "example.com/Team_1", "bound": 1}})
    assert policy.tenants.label == "example.com/Team_1"
    assert [one.path for one in warned] == ["tenants.bound"]
    assert not parse({"tenants": None})[0].tenants.label
    with pytest.raises(PolicyError, match="tenants: "):
        parse({"tenants": "team"})


def test_a_node_is_in_the_first_pool_that_selects_it_else_in_the_one_without_selector() -> None:
    policy, _ = parse(
        {
            "pools": [
                {"name": "rest", "decider": "priority"},
                {"name": "a", "nodeSelector": {"x": "1"}},
                {"name": "b", "nodeSelector": {"x": "1", "y": "2"}, "replaces": ["old"]},
            ]
        }
    )
    pools = policy.pools
    assert [pools.of_node(one) for one in ({"x": "1", "y": "2"}, {"y": "2"}, {})] == [
        "a",
        "rest",
        "rest",
    ]
    old = pools.named("old")
    assert old is not None
    assert old.name == "b"
    assert pools.named("c") is None
    assert (pools.compute, pools.aux, pools.deciders) == ("rest", "rest", ("rest",))
