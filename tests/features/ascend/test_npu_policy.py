"""The plugin `volcano-npu` in policies: its names, `init-params`, and its own arguments."""

import msgspec
import pytest

from events.errors import PolicyError
from features.ascend.volcano_npu import NpuArguments, npu_arguments
from features.table import FEATURES
from projections.plugin import build_plugins
from projections.policy.policy import Policy, parse_policy
from tests.features.ascend.builders import (
    npu_node,
    npu_pod,
    placed,
    placed_numbers,
    policy,
    started,
)


def parsed(document: dict[str, object]) -> tuple[Policy, list[tuple[str, str]]]:
    """A policy, and the paths and messages of its warnings."""
    found, warned = parse_policy(msgspec.json.encode(document), FEATURES.policy_table)
    return found, [(one.path, one.message) for one in warned]


def arguments(init: dict[str, object]) -> NpuArguments:
    """The arguments of the plugin by `init-params`."""
    found = npu_arguments(build_plugins(parsed(policy(init=init))[0].tiers, FEATURES.policy_table))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name",
    [
        "volcano-npu",
        "volcano-npu_v5.0.RC1_linux-aarch64",
        "volcano-npu_v6.0.0_linux-x86_64",
        "volcano-npu-v2.0.3-linux-aarch64",
    ],
)
def test_a_policy_names_the_plugin_with_or_without_its_version(name: str) -> None:
    tiers = [{"plugins": [{"name": "gang"}, {"name": name}]}]
    found, warned = parsed({"tiers": tiers})
    assert [one.name for one in found.plugins] == ["gang", "volcano-npu"]
    assert warned == []


def test_the_plugin_is_named_once_whatever_its_version() -> None:
    tiers = [{"plugins": [{"name": "volcano-npu"}, {"name": "volcano-npu_v5"}]}]
    with pytest.raises(PolicyError, match="volcano-npu_v5 is named twice"):
        parsed({"tiers": tiers})


def test_another_plugin_with_such_a_name_is_not_known() -> None:
    for name in ("volcano-npus", "volcano-npu_", "volcano-npu_ v5", "npu"):
        _, warned = parsed({"tiers": [{"plugins": [{"name": name}]}]})
        assert [text for _, text in warned] == [
            f"plugin {name} is not known to this release: skipped"
        ]


@pytest.mark.parametrize(
    ("given", "size", "reserved"),
    [
        ({"super-pod-size": "32"}, 32, 2),
        ({"super-pod-size": "6", "reserve-nodes": "6"}, 6, 2),
        ({"super-pod-size": "1", "reserve-nodes": "5"}, 1, 0),
        ({"super-pod-size": "-4", "reserve-nodes": "5"}, 48, 5),
        ({"super-pod-size": "text", "reserve-nodes": "-1"}, 48, 2),
        ({"super-pod-size": "0", "reserve-nodes": "0"}, 48, 0),
        ({"super-pod-size": "9" * 5000}, 48, 2),
        ({}, 48, 2),
    ],
)
def test_sizes_of_super_pods_fall_back(given: dict[str, object], size: int, reserved: int) -> None:
    found = arguments(given)
    assert (found.super_pod_size, found.reserve_nodes) == (size, reserved)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("2", 2), ("3600", 3600), (30, 30), ("4000", 900), ("1", 900), ("abc", 900), (True, 900)],
)
def test_the_grace_period_falls_back(value: object, seconds: int) -> None:
    assert arguments({"grace-over-time": value}).grace_seconds == seconds


def test_the_other_keys_of_init_params_have_their_defaults_and_fallbacks() -> None:
    assert arguments({}) == NpuArguments()
    given: dict[str, object] = {
        "presetVirtualDevice": "true",
        "nslb-version": "2.0",
        "shared-tor-num": "1",
        "useClusterInfoManager": "false",
        "self-maintain-available-card": "false",
        "forceEnqueue": "false",
        "prefer-previous-node": "true",
    }
    assert arguments(given) == NpuArguments(
        is_static=True,
        nslb_version="2.0",
        shared_switches=1,
        uses_cluster_info=False,
        maintains_free_list=False,
        forces_enqueue=False,
        prefers_previous_node=True,
    )
    wrong: dict[str, object] = dict.fromkeys(given, "x")
    assert arguments(wrong) == NpuArguments(forces_enqueue=False)


def test_what_is_replaced_or_has_no_effect_is_a_warning_with_its_path() -> None:
    given = {"super-pod-size": "-4", "forceEnqueue": "true", "new-key": "x"}
    _, warned = parsed(policy(init=given))
    assert warned == [
        (
            "configurations[0].arguments.super-pod-size",
            "expected a whole number from 1 to 999999999: it counts as 48",
        ),
        (
            "configurations[0].arguments.forceEnqueue",
            "changes nothing here: a vote to admit a pod group never overrules that of another plugin",
        ),
        (
            "configurations[0].arguments.new-key",
            "plugin volcano-npu does not know this argument",
        ),
    ]
    _, warned = parsed({"configurations": [{"name": "init-params", "arguments": {}}]})
    assert warned == [
        ("configurations[0]", "plugin volcano-npu, which reads it, is not in the policy")
    ]


@pytest.mark.parametrize("init", [{"name": "init-params", "arguments": 3}, 3])
def test_a_block_that_is_no_object_is_an_error_with_its_path(init: object) -> None:
    document = {**policy(), "configurations": [init]}
    with pytest.raises(PolicyError, match=r"configurations\[0\]"):
        parsed(document)


@pytest.mark.parametrize("given", [{"scoring": "best"}, {"weight": -1}, {"strict_8n": "maybe"}])
def test_an_argument_of_the_plugin_that_is_malformed_is_an_error(given: dict[str, object]) -> None:
    with pytest.raises(PolicyError, match=r"tiers\[0\].plugins\[1\].arguments"):
        parsed(policy(arguments=given))


def test_arguments_of_the_plugin_change_decisions() -> None:
    three = [npu_node("full", kind="half", chips=4), npu_node("broken", kind="half", chips=4)]
    harness = started(*three, given=policy(arguments={"scoring": "linear"}))
    harness.show_all("Pod", npu_pod("a", 1, kind="half"))
    harness.cycle()
    harness.show_all("Pod", npu_pod("a", 1, kind="half"), npu_pod("b", 2, kind="half"))
    harness.cycle()
    # By the number of free chips the node with three is preferred, though a pair of it leaves one alone.
    assert placed(harness)["b"][0] == placed(harness)["a"][0]
    assert placed_numbers(harness, "b") == (1, 2)
    harness = started(*three)
    harness.show_all("Pod", npu_pod("a", 1, kind="half"))
    harness.cycle()
    harness.show_all("Pod", npu_pod("a", 1, kind="half"), npu_pod("b", 2, kind="half"))
    harness.cycle()
    # By the table the node with four is.
    assert placed(harness)["b"][0] != placed(harness)["a"][0]
