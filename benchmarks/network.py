"""Large gangs in a network of three tiers: racks of 16 nodes, spines of 16 racks, cores of 10 spines.

One gang that only a core can hold, by what the domain is chosen for and how nodes are scored in it; the same
gang made of sub-groups of 8 pods, each in a rack of its own; and a gang that no spine can hold, refused.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import SECOND, begin, bindings, decide, nothing_of, take_in, timed
from benchmarks.figures import Figure
from benchmarks.manifests import MODELS, NAMESPACE, PodShape
from benchmarks.scale import Scale
from engine.engine import Engine
from events.messages import ObjectSeen, WatchMessage
from events.normalize import JsonObject
from projections.policy.policy import BUILT_IN

WIDTHS: Final = (("rack", 16), ("spine", 16), ("core", 10))
PART: Final = 8
"""Pods of a sub-group."""

NEAR: Final = msgspec.json.encode(
    {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {
                "plugins": [
                    *({"name": name} for name in ("predicates", "capacity-card", "nodeorder")),
                    *({"name": name} for name in ("binpack", "network-topology-aware")),
                ]
            },
        ],
    }
)
"""A policy that scores by the network."""


class Asked(Struct, frozen=True, kw_only=True):
    """What the gang asks for."""

    name: str
    rules: bytes = NEAR
    spec: JsonObject
    cards: int = 1


CASES: Final = (
    Asked(name="one gang, hard, in a core", rules=BUILT_IN, spec={"networkTopology": {"mode": "hard", "highestTierAllowed": 3}}),
    Asked(name="one gang, hard, in a core, nodes scored by closeness", spec={"networkTopology": {"mode": "hard", "highestTierAllowed": 3}}),
    Asked(name="one gang, soft, nodes scored by closeness", spec={"networkTopology": {"mode": "soft"}}),
    Asked(name="one gang that need not be close, nodes scored by how full domains are", spec={}),
    Asked(
        name=f"one gang of sub-groups of {PART}, each in a rack",
        spec={
            "subGroupPolicy": [
                {
                    "name": "part",
                    "matchLabelKeys": ["part"],
                    "subGroupSize": PART,
                    "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
                }
            ]
        },
    ),
    Asked(
        name="one gang that no spine holds, refused",
        spec={"networkTopology": {"mode": "hard", "highestTierAllowed": 2}},
        cards=8,
    ),
)  # fmt: skip


async def measure(scale: Scale) -> list[Figure]:
    """Every case in the largest cluster, decided only."""
    return [_figure(one, scale) for one in CASES]


def _figure(asked: Asked, scale: Scale) -> Figure:
    size = scale.nodes[-1]
    runs = [_decided(asked, scale, size) for _ in range(scale.repeats)]
    engine, seconds = min(runs, key=lambda run: run[1])
    return Figure(
        benchmark="network",
        name=f"{asked.name}, {scale.large_gang:,} pods, {size:,} nodes",
        value=seconds,
        unit="s",
        bound="at most",
        target=1,
        detail={
            "bound": bindings(engine),
            "groups_examined": engine.decider.session.groups_examined,
            "examined": engine.decider.examined,
        },
    )


def _decided(asked: Asked, scale: Scale, size: int) -> tuple[Engine, float]:
    engine, _ = begin(with_views=False, rules=asked.rules)
    for _ in take_in(engine, _shown(asked, scale, size)):
        pass
    seconds, _ = timed(lambda: decide(engine, 2 * SECOND))
    return engine, seconds


def _shown(asked: Asked, scale: Scale, size: int) -> Iterator[WatchMessage]:
    nodes = manifests.nodes(size)
    yield from nodes
    yield from nothing_of("PriorityClass", "Namespace")
    yield from manifests.queues(size, share=1)
    yield from manifests.listed("HyperNode", hyper_nodes([_name(one) for one in nodes[:-1]]))
    group: JsonObject = {
        "kind": "PodGroup",
        "metadata": {"name": "large", "namespace": NAMESPACE, "uid": "g-large"},
        "spec": {"minMember": scale.large_gang, "queue": "queue-0", **asked.spec},
    }
    yield from manifests.listed("PodGroup", [ObjectSeen(msgspec.json.encode(group))])
    yield from manifests.listed("Pod", _pods(asked, scale.large_gang))


def hyper_nodes(names: list[str]) -> Iterator[WatchMessage]:
    """Racks of these nodes, spines of the racks, cores of the spines."""
    kind, below = "Node", names
    for tier, (prefix, width) in enumerate(WIDTHS, 1):
        rest, made = iter(below), list[str]()
        while members := list(islice(rest, width)):
            made.append(f"{prefix}-{len(made):04}")
            listed = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
            yield ObjectSeen(
                msgspec.json.encode(
                    {
                        "kind": "HyperNode",
                        "metadata": {"name": made[-1], "uid": f"h-{made[-1]}"},
                        "spec": {"tier": tier, "tierName": prefix, "members": listed},
                    }
                )
            )
        kind, below = "HyperNode", made


def _pods(asked: Asked, count: int) -> Iterator[WatchMessage]:
    for index in range(count):
        shape = PodShape(
            name=f"large-{index:04}",
            cards=asked.cards,
            models=MODELS[:1],
            group="large",
            cpu=str(4 * asked.cards),
            memory=f"{16 * asked.cards}Gi",
        )
        shown = manifests.pod(shape)
        assert isinstance(shown, ObjectSeen)
        manifest = msgspec.json.decode(shown.raw)
        manifest["metadata"]["labels"]["part"] = str(index // PART)
        yield ObjectSeen(msgspec.json.encode(manifest))


def _name(shown: WatchMessage) -> str:
    assert isinstance(shown, ObjectSeen)
    name: str = msgspec.json.decode(shown.raw)["metadata"]["name"]
    return name
