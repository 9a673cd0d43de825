"""Network topology: decisions over random networks, checked against the rules of docs/topology.md.

The judge looks domain by domain and pod by pod, and knows nothing of tallies, bounds or scores.
"""

from collections.abc import Iterator

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from events.daemon import DaemonStarted, PolicyChanged
from events.normalize import JsonObject
from tests.example_count import examples
from tests.scheduling.builders import SECOND, EngineHarness, gone, node
from tests.scheduling.topology.builders import group, hyper_node, member, nodes_of, see

MOST: int = 3
"""The highest tier of a HyperNode; the whole cluster is one above."""


class AGroup(Struct):
    """A pod group: so many pods of one cpu, of which so many make the gang."""

    name: str
    pods: int
    least: int
    tier: int
    is_hard: bool
    part_size: int
    """Pods of a sub-group; 0 for none."""
    part_tier: int
    more: int = 0
    """Pods of a sub-group beyond its size."""

    def shown(self) -> Iterator[bytes]:
        """Its objects."""
        mode = "hard" if self.is_hard else "soft"
        closeness: JsonObject = {"mode": mode, "highestTierAllowed": self.tier}
        policy = {
            "name": "p",
            "matchLabelKeys": ["part"],
            "subGroupSize": self.part_size,
            "minSubGroups": 1,
            "networkTopology": {"mode": "hard", "highestTierAllowed": self.part_tier},
        }
        more = {"subGroupPolicy": [policy]} if self.part_size else {}
        yield group(self.name, self.least, closeness, **more)
        for at in range(self.pods):
            yield member(f"{self.name}-{at}", self.name, labels={"part": self.part_of(at)})

    def part_of(self, at: int) -> str:
        """The sub-group of a pod; some have a pod more than makes them whole."""
        return str(at // (self.part_size + self.more)) if self.part_size else ""


class Network(Struct):
    """Leaves with the cpus of their nodes, in spines, in cores."""

    leaves: list[list[int]]
    spines: list[int]
    """Leaf to spine; -1 for none."""
    cores: list[int]
    """Spine to core; -1 for none."""

    def shown(self) -> tuple[list[bytes], list[bytes]]:
        """Nodes and HyperNodes."""
        nodes = [
            node(f"n{leaf}-{at}", cpu=cpu)
            for leaf, cpus in enumerate(self.leaves)
            for at, cpu in enumerate(cpus)
        ]
        found = [
            hyper_node(f"leaf{leaf}", 1, *(f"n{leaf}-{at}" for at in range(len(cpus))))
            for leaf, cpus in enumerate(self.leaves)
        ]
        for prefix, below, parents, tier in (
            ("spine", "leaf", self.spines, 2),
            ("core", "spine", self.cores, 3),
        ):
            for parent in sorted({one for one in parents if one >= 0}):
                children = tuple(f"{below}{at}" for at, one in enumerate(parents) if one == parent)
                found.append(hyper_node(f"{prefix}{parent}", tier, children=children))
        return nodes, found

    def domains(self) -> list[tuple[int, set[str]]]:
        """Tier and nodes of every domain."""
        leaves = [
            {f"n{leaf}-{at}" for at in range(len(cpus))} for leaf, cpus in enumerate(self.leaves)
        ]
        spines = _joined(leaves, self.spines)
        cores = _joined([spines.get(at, set()) for at in range(len(self.cores))], self.cores)
        everything = set[str]().union(*leaves)
        found = [(1, one) for one in leaves] + [(2, one) for one in spines.values()]
        return [*found, *((3, one) for one in cores.values()), (MOST + 1, everything)]

    def cpus(self) -> dict[str, int]:
        """Node to its cpus."""
        return {
            f"n{leaf}-{at}": cpu
            for leaf, cpus in enumerate(self.leaves)
            for at, cpu in enumerate(cpus)
        }


def _joined(parts: list[set[str]], parents: list[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for part, parent in zip(parts, parents, strict=True):
        if parent >= 0:
            found.setdefault(parent, set()).update(part)
    return found


@st.composite
def networks(draw: st.DrawFn) -> Network:
    cpus = st.lists(st.integers(0, 3), min_size=1, max_size=3)
    leaves = draw(st.lists(cpus, min_size=1, max_size=5))
    spines = draw(st.lists(st.integers(-1, 2), min_size=len(leaves), max_size=len(leaves)))
    cores = draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3))
    # A core is of spines that are there.
    cores = [one if at in spines else -1 for at, one in enumerate(cores)]
    return Network(leaves, spines, cores)


@st.composite
def groups(draw: st.DrawFn) -> list[AGroup]:
    count = draw(st.integers(1, 3))
    found = []
    for at in range(count):
        pods = draw(st.integers(1, 6))
        found.append(
            AGroup(
                name=f"g{at}",
                pods=pods,
                least=draw(st.integers(1, pods)),
                tier=draw(st.integers(1, MOST + 1)),
                is_hard=draw(st.booleans()),
                part_size=draw(st.sampled_from([0, 0, 1, 2, 3])),
                part_tier=draw(st.integers(1, 2)),
                more=draw(st.integers(0, 2)),
            )
        )
    return found


def _tier_of(network: Network, nodes: set[str]) -> int:
    """The tier of the smallest domain that holds these nodes."""
    return min(tier for tier, inside in network.domains() if nodes <= inside)


def _highest(network: Network) -> int:
    """The tier of the whole cluster: one above the highest there is."""
    tiers = [1] + [2] * any(one >= 0 for one in network.spines)
    return max([*tiers, *[3 for one in network.cores if one >= 0]]) + 1


SCORED = PolicyChanged(
    source="test",
    policy=msgspec.Raw(
        b'{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},{"name":"gang"},'
        b'{"name":"predicates"},{"name":"network-topology-aware"}]}]}'
    ),
)
"""A policy by which domains and nodes are scored by the network."""


def _begun(network: Network, *, is_scored: bool) -> EngineHarness:
    harness = EngineHarness()
    if is_scored:
        started = DaemonStarted(
            holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
        )
        harness.engine.start(started, SCORED, harness.engine.head.epoch + 1, harness.now_ns)
    nodes, found = network.shown()
    harness.show_all("Node", *nodes)
    harness.show_all("HyperNode", *found)
    harness.show_the_rest()
    return harness


def _judge(network: Network, one: AGroup, placed: dict[str, str]) -> None:
    """No pod of the group is where the rules would not have it."""
    if not placed:
        return
    assert len(placed) >= one.least, "half a gang"
    nodes = set(placed.values())
    top = _highest(network)
    if one.is_hard and one.tier < top:
        assert _tier_of(network, nodes) <= one.tier
    if not one.part_size:
        return
    parts: dict[str, list[str]] = {}
    for name, on in placed.items():
        parts.setdefault(one.part_of(int(name.rpartition("-")[2])), []).append(on)
    for there in parts.values():
        assert len(there) >= one.part_size, "half a sub-group"
        if one.part_tier < top:
            assert _tier_of(network, set(there)) <= one.part_tier


@settings(deadline=None, max_examples=examples(100))
@given(networks(), groups(), st.booleans())
def test_no_pod_is_placed_beyond_its_tier(
    network: Network, asked: list[AGroup], is_scored: bool
) -> None:
    harness = _begun(network, is_scored=is_scored)
    for one in asked:
        see(harness, *one.shown())
    for _ in range(3):
        harness.cycle()
    for one in asked:
        _judge(network, one, nodes_of(harness, one.name))


@settings(deadline=None, max_examples=examples(120))
@given(networks(), groups(), st.booleans())
def test_a_gang_is_placed_in_the_lowest_tier_that_holds_it_if_any_does(
    network: Network, asked: list[AGroup], is_scored: bool
) -> None:
    [one, *_] = asked
    assume(not one.part_size)
    # The rest of a gang could go farther away than its least pods.
    one.least = one.pods
    harness = _begun(network, is_scored=is_scored)
    see(harness, *one.shown())
    harness.cycle()
    cpus = network.cpus()
    top = _highest(network)
    room = [
        min(tier, top)
        for tier, inside in network.domains()
        if sum(cpus[name] for name in inside) >= one.pods
    ]
    allowed = [tier for tier in room if not one.is_hard or tier <= one.tier]
    placed = nodes_of(harness, one.name)
    if not allowed:
        assert not placed
        assert harness.state.cluster.groups[f"default/{one.name}"].decided.refusals
        return
    assert len(placed) == one.pods
    assert min(_tier_of(network, set(placed.values())), top) <= min(allowed)


@settings(deadline=None, max_examples=examples(70))
@given(networks(), groups(), st.data())
def test_a_replaced_pod_returns_to_the_domain_of_its_gang(
    network: Network, asked: list[AGroup], data: st.DataObject
) -> None:
    [one, *_] = asked
    harness = _begun(network, is_scored=data.draw(st.booleans()))
    see(harness, *one.shown())
    harness.cycle()
    before = nodes_of(harness, one.name)
    for name, on in before.items():
        labels = {"part": one.part_of(int(name.rpartition("-")[2]))}
        see(harness, member(name, one.name, on=on, phase="Running", labels=labels))
    lost = data.draw(st.lists(st.sampled_from(sorted(before)), unique=True)) if before else []
    for name in lost:
        harness.see(gone(member(name, one.name)))
    harness.cycle()
    for name in lost:
        labels = {"part": one.part_of(int(name.rpartition("-")[2]))}
        see(harness, member(name, one.name, labels=labels))
    for _ in range(len(lost) + 2):
        harness.cycle()
    placed = nodes_of(harness, one.name)
    nodes, top = set(placed.values()), _highest(network)
    if placed and one.is_hard and one.tier < top:
        assert _tier_of(network, nodes) <= one.tier
    # There is room for all that were there before: they left it.
    if not one.part_size:
        assert len(placed) >= len(before)


@settings(deadline=None, max_examples=40)
@given(networks(), groups())
def test_the_order_of_watch_events_does_not_change_placements(
    network: Network, asked: list[AGroup]
) -> None:
    nodes, found = network.shown()
    placed = []
    for is_turned in (False, True):
        harness = EngineHarness()
        turn = -1 if is_turned else 1
        harness.show_all("Node", *nodes[::turn])
        harness.show_all("HyperNode", *found[::turn])
        shown = [list(one.shown()) for one in asked]
        harness.show_the_rest()
        see(harness, *(one[0] for one in shown[::turn]))
        see(harness, *(pod for one in shown[::turn] for pod in one[1:][::turn]))
        harness.cycle()
        placed.append({one.name: nodes_of(harness, one.name) for one in asked})
    assert placed[0] == placed[1]
