"""The map of leaf switches: what is read of it, and what is said of one that is wrong."""

import pytest

from events.messages import ObjectSeen
from features.leaf_switches.index import LeafSwitches
from features.leaf_switches.switch_map import (
    ERRORS_MAX,
    LeafSwitch,
    Server,
    SwitchMap,
    read_switch_map,
)
from projections.views import now
from tests.features.ascend.builders import policy
from tests.features.leaf_switches.builders import map_of, switch_map
from tests.scheduling.builders import EngineHarness, gone, raw

SUBJECT = "ConfigMap.switch-map/kube-system/basic-tor-node-cm"


def one_switch(*servers: object, **info: object) -> bytes:
    switch = {"tor_id": 0, "tor_ip": "1.0.0.0", "server": list(servers)}
    return map_of({"tor_count": 2, "server_list": [switch], **info})


def errors(content: bytes) -> list[str]:
    found = read_switch_map(content)
    assert isinstance(found, SwitchMap), found
    return [text for _, text in found.errors]


def test_a_map_as_the_documents_have_it() -> None:
    found = read_switch_map(
        one_switch(
            {"server_ip": "1.1.0.1", "npu_count": 8, "slice_id": 1},
            {"server_ip": "1.1.0.0", "npu_count": 8, "slice_id": 0},
            version="1.0",
        )
    )
    servers = (Server("1.1.0.0", 0), Server("1.1.0.1", 1))
    assert found == SwitchMap((LeafSwitch("1.0.0.0", servers),), 2)


def test_a_map_states_one_layer_and_what_switches_are_at_first() -> None:
    switch = {"tor_ip": "s", "server": [], "IsSharedTor": 1, "IsHealthy": 1}
    found = read_switch_map(map_of({"tor_count": 4, "server_list": [switch]}, "single_layer"))
    assert isinstance(found, SwitchMap)
    assert found.is_single_layer
    assert (found.switches[0].is_shared, found.switches[0].is_unhealthy) == (1, True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (map_of("{"), "tor_info: Input data was truncated"),
        (map_of("[]"), "tor_info: Expected `object`, got `array`"),
        (map_of({"server_list": {}}), "tor_info: Expected `array | null`, got `object`"),
        (raw("ConfigMap", "basic-tor-node-cm", data={}), "data has no tor_info"),
        (raw("ConfigMap", "basic-tor-node-cm"), "data has no tor_info"),
        (map_of("[" * 100_000), "tor_info: "),
    ],
)
def test_a_text_that_cannot_be_read_is_no_map(content: bytes, problem: str) -> None:
    found = read_switch_map(content)
    assert isinstance(found, str)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            one_switch({"server_ip": "a", "slice_id": 0}, {"server_ip": "b", "slice_id": 0}),
            "switch 1.0.0.0: slice_id is missing, repeats or is no position: the positions are those in the list",
        ),
        (
            one_switch({"server_ip": "a"}, {"server_ip": "b", "slice_id": 1}),
            "switch 1.0.0.0: slice_id is missing, repeats or is no position: the positions are those in the list",
        ),
        (
            one_switch({"server_ip": "a", "slice_id": 0}, {"server_ip": "a", "slice_id": 1}),
            "server 'a' is listed 2 times: it has no place",
        ),
        (
            one_switch(*({"server_ip": f"{at}", "slice_id": at} for at in range(3))),
            "tor_count is '2', and a switch has 3 servers: it counts as 3",
        ),
        (
            one_switch(tor_count="many"),
            "tor_count is 'many', and a switch has 0 servers: it counts as 0",
        ),
        (
            one_switch(tor_count=1 << 40),
            "tor_count is '1099511627776', and a switch has 0 servers: it counts as 0",
        ),
        (
            one_switch({"server_ip": "a", "slice_id": 1 << 40}),
            "switch 1.0.0.0: slice_id is missing, repeats or is no position: the positions are those in the list",
        ),
        (
            map_of({"tor_count": 1, "server_list": [{"tor_ip": "s"}, {"tor_ip": "s"}]}),
            "switch s is listed twice: the second one is left out",
        ),
    ],
    ids=[
        "repeats",
        "missing",
        "two places",
        "too small",
        "no number",
        "huge",
        "far",
        "same switch",
    ],
)
def test_what_contradicts_itself_is_an_error_and_the_rest_counts(
    content: bytes, expected: str
) -> None:
    assert errors(content) == [expected]


def test_positions_that_repeat_are_those_in_the_list() -> None:
    found = read_switch_map(
        one_switch({"server_ip": "a", "slice_id": 5}, {"server_ip": "b", "slice_id": 5})
    )
    assert isinstance(found, SwitchMap)
    assert found.switches[0].servers == (Server("a", 0), Server("b", 1))


def test_many_errors_are_counted() -> None:
    listed = [{"tor_ip": "s"}] * 40
    found = errors(map_of({"tor_count": 1, "server_list": listed}))
    assert len(found) == ERRORS_MAX + 1
    assert found[-1] == f"and {39 - ERRORS_MAX} more errors"


def node(name: str, address: str) -> bytes:
    amounts = {"cpu": "4", "pods": "10"}
    status = {"allocatable": amounts, "addresses": [{"type": "InternalIP", "address": address}]}
    return raw("Node", name, spec={}, status=status)


def test_nodes_are_placed_by_their_address_and_two_with_one_address_have_no_place() -> None:
    harness = EngineHarness(policy=policy())
    harness.show_all("Node", node("a", "1.1.0.0"), node("b", "1.1.0.1"), node("c", "9.9.9.9"))
    harness.see(ObjectSeen(switch_map([["1.1.0.0"], ["1.1.0.1"]], 1)))
    cluster = harness.state.cluster

    def places() -> dict[str, tuple[str, str]]:
        rows = [now.topology_rows(cluster, name)[0] for name in ("a", "b", "c")]
        return {str(row[0]): (str(row[1]), str(row[2])) for row in rows if row[1]}

    assert places() == {"a": ("switch-0", "0"), "b": ("switch-1", "0")}
    harness.see(ObjectSeen(node("c", "1.1.0.1")))
    assert places() == {"a": ("switch-0", "0")}
    harness.see(ObjectSeen(node("b", "9.9.9.9")))
    assert places() == {"a": ("switch-0", "0"), "c": ("switch-1", "0")}
    # A map that cannot be read leaves the one before; without a map nothing has a place.
    harness.see(ObjectSeen(map_of("{")))
    assert places() == {"a": ("switch-0", "0"), "c": ("switch-1", "0")}
    assert cluster.config_errors.current[SUBJECT] == (
        ("InvalidSwitchMap", "tor_info: Input data was truncated"),
    )
    harness.see(gone(switch_map([], 1)))
    assert places() == {}
    assert cluster.indexes.of(LeafSwitches).numbers == {}
