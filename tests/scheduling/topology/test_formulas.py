"""The formulas of `network-topology-aware`, number by number. Points are thousandths."""

from fractions import Fraction

import numpy as np
import pytest

from projections.nodes import NodeTable
from projections.policy.plugin_config import PluginConfig
from scheduling.plugins.network_topology_aware import NetworkTopologyAware, TopologyArguments
from scheduling.topology.domain_utilization import DomainUtilization
from scheduling.topology.domains import Domains
from scheduling.topology.node_scope import ProximityScore, TierDecay, _sum_of_factors
from tests.scheduling.builders import pod
from tests.scheduling.topology.builders import see, session_of, two_racks

CPU = (("cpu", 1),)


def _cluster(*busy: str) -> tuple[NodeTable, Domains, DomainUtilization]:
    """Two racks whose nodes have 4 cpus, with a pod of one cpu on each of the busy nodes."""
    told = two_racks()
    see(told, *(pod(f"p{at}", on=name, phase="Running") for at, name in enumerate(busy)))
    network = session_of(told).network
    return told.state.cluster.nodes, network.domains, network.utilization


def aware(weight: int = 1) -> NetworkTopologyAware:
    """The plugin, for cpu alone."""
    arguments = TopologyArguments(weight=weight, resources=CPU)
    return NetworkTopologyAware(PluginConfig("network-topology-aware", arguments=arguments))


def _named(domains: Domains, scores: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, int]:
    return {one.name: int(scores[one.index]) for one in domains.all}


def _points(proximity: ProximityScore, domains: Domains) -> list[int]:
    slots = domains.top.slots
    return [int(one) for one in proximity.points(slots, np.ones(len(slots), dtype=np.bool_))]


def test_the_whole_cluster_is_the_parent_of_those_without_one() -> None:
    _, domains, _ = _cluster()
    assert [(one.name, one.tier, len(one.slots)) for one in domains.all] == [
        ("a", 1, 2), ("b", 1, 2), ("s", 2, 4), ("", 3, 5),
    ]  # fmt: skip
    assert [one.name for one in domains.all[0].lineage] == ["a", "s", ""]


def test_a_domain_is_scored_by_how_full_the_gang_would_make_it() -> None:
    _, domains, utilization = _cluster("a1", "a1", "b1")
    # a: (2 + 2) / 8; b: (1 + 2) / 8; s: (3 + 2) / 16; all: (3 + 2) / 20
    assert _named(domains, utilization.binpack({"cpu": 2000}, CPU)) == {
        "a": 50_000, "b": 37_500, "s": 31_250, "": 25_000,
    }  # fmt: skip


def test_resources_count_by_their_weights_and_only_if_they_are_asked_for() -> None:
    _, domains, utilization = _cluster("a1")
    weights = (("cpu", 2), ("memory", 1), ("example.com/card", 3), ("example.com/other", 5))
    # a: cpu (1 + 1) / 8, cards (0 + 4) / 8: (2 x 0.25 + 3 x 0.5) / 5 = 0.4
    asked = {"cpu": 1000, "example.com/card": 4}
    assert _named(domains, utilization.binpack(asked, weights))["a"] == 40_000
    # Of a resource that the domain does not have only the weight counts: (2 x 0.25) / (2 + 1).
    assert (
        _named(domains, utilization.binpack({"cpu": 1000, "memory": 1 << 30}, weights))["a"]
        == 16_666
    )


def test_a_domain_that_cannot_take_it_all_scores_nothing() -> None:
    _, domains, utilization = _cluster("a1")
    assert _named(domains, utilization.binpack({"cpu": 8000}, CPU)) == {
        "a": 0, "b": 100_000, "s": 56_250, "": 45_000,
    }  # fmt: skip


def test_sums_follow_what_moves() -> None:
    told = two_racks()
    network = session_of(told).network
    assert _named(network.domains, network.utilization.binpack({"cpu": 1000}, CPU))["a"] == 12_500
    utilization = network.utilization
    see(told, pod("p", on="a2", phase="Running"))
    assert network.utilization is utilization
    assert _named(network.domains, network.utilization.binpack({"cpu": 1000}, CPU))["a"] == 25_000


def test_the_first_pod_finds_all_nodes_equally_near() -> None:
    _, domains, _ = _cluster()
    assert _points(ProximityScore(domains, 1, {}, 4), domains) == [0] * 5


def test_a_node_is_the_nearer_the_lower_the_tier_that_holds_it_and_the_others() -> None:
    _, domains, _ = _cluster()
    # Tiers 1 to 3. With a pod on a1: tier 1 is (3 - 1) / 2, tier 2 is (3 - 2) / 2, the cluster nothing. The two
    # nodes of rack a are best alike, so each has the share of rack a as well: 1 of 4.
    assert _points(ProximityScore(domains, 1, {0: 1}, 4), domains) == [
        125_000,
        125_000,
        50_000,
        50_000,
        0,
    ]
    assert _points(ProximityScore(domains, 3, {0: 1}, 4), domains)[2] == 150_000


def test_of_nodes_that_are_best_alike_those_with_more_of_the_group_are_better() -> None:
    _, domains, _ = _cluster()
    proximity = ProximityScore(domains, 1, {0: 1}, 4)
    for slot in (1, 2):
        proximity.record(slot)
    # The pods are on a1, a2 and b1: spine s holds them. Rack a has 2 of the 4, rack b has 1.
    assert _points(proximity, domains) == [100_000, 100_000, 75_000, 75_000, 0]


def test_a_node_that_is_best_alone_has_no_share() -> None:
    _, domains, _ = _cluster()
    can = np.array([False, True, False, True, True])
    points = ProximityScore(domains, 1, {0: 1}, 4).points(domains.top.slots, can)
    assert [int(one) for one in points][1::2] == [100_000, 50_000]


def test_a_record_can_be_dropped_again() -> None:
    _, domains, _ = _cluster()
    proximity = ProximityScore(domains, 1, {0: 1}, 4)
    drop = proximity.record(4)
    assert _points(proximity, domains) == [25_000, 25_000, 0, 0, 0]
    drop()
    assert _points(proximity, domains) == [125_000, 125_000, 50_000, 50_000, 0]


@pytest.mark.parametrize("weight", [1, 5])
def test_a_plain_pod_prefers_nodes_outside_of_hypernodes_then_fuller_ones(weight: int) -> None:
    told = two_racks()
    see(told, *(pod(f"p{at}", on="b1", phase="Running") for at in range(3)), pod("new"))
    session = session_of(told)
    [new] = [one for one in told.state.cluster.pods.values() if one.facts.name == "new"]
    network = session.network
    plugin = aware(weight=weight)
    faded = TierDecay(told.state.cluster.nodes, network.domains, network.utilization, plugin)
    points = faded.points(new.pod_class)
    # a: 1/8, b: 4/8, both in s: 4/16; c is in no HyperNode; the whole cluster: 4/20, tier 3.
    rest = 0.8 * 0.25 + 0.64 * 0.2
    exact = [(one + rest) / 2.44 for one in (0.125, 0.125, 0.5, 0.5)]
    exact.append((1 + 0.8 + 0.64 * 0.2) / 2.44)
    assert [int(one) for one in points] == [int(100_000 * one) * weight for one in exact]


def test_tiers_without_hypernodes_count_full() -> None:
    assert _sum_of_factors(Fraction(1), 1, 4) == 400_000
    assert _sum_of_factors(Fraction(4, 5), 2, 3) == 80_000 + 64_000
    assert _sum_of_factors(Fraction(0), 1, 2**31) == 100_000
    assert _sum_of_factors(Fraction(0), 2, 3) == 0
    assert _sum_of_factors(Fraction(1), 1, 100) == 100 * 100_000
    assert _sum_of_factors(Fraction(1), 5, 2**31) == 1_000_001 * 100_000
    assert _sum_of_factors(Fraction(1), 100, 120) == 21 * 100_000
