"""Clusters with HyperNodes."""

from collections.abc import Mapping

from events.messages import ObjectSeen
from events.normalize import JsonObject
from scheduling.decide import Decider
from scheduling.session import Session
from tests.scheduling.builders import EngineHarness, node, pod, raw

POD_GROUP = "scheduling.k8s.io/group-name"


def hyper_node(name: str, tier: int, *members: str, children: tuple[str, ...] = ()) -> bytes:
    """A HyperNode of nodes, and of others."""
    named = [("Node", one) for one in members] + [("HyperNode", one) for one in children]
    listed = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for kind, one in named]
    return raw("HyperNode", name, spec={"tier": tier, "members": listed})


def group(name: str, least: int, closeness: "JsonObject | None" = None, **spec: object) -> bytes:
    """A pod group that is admitted."""
    wish = {} if closeness is None else {"networkTopology": closeness}
    return raw(
        "PodGroup", name, spec={"minMember": least, **wish, **spec}, status={"phase": "Inqueue"}
    )


def member(
    name: str,
    of: str,
    *,
    on: str = "",
    phase: str = "Pending",
    labels: Mapping[str, str] | None = None,
) -> bytes:
    """A pod of a group; it asks for one cpu."""
    metadata = {"annotations": {POD_GROUP: of}, "labels": dict(labels or {})}
    return pod(name, on=on, phase=phase, metadata=metadata)


def two_racks(cpu: int = 4) -> EngineHarness:
    """Nodes a1, a2 in rack a and b1, b2 in rack b, both in spine s, and node c in none."""
    harness = EngineHarness()
    names = ("a1", "a2", "b1", "b2", "c")
    harness.show_all("Node", *(node(name, cpu=cpu) for name in names))
    harness.show_all(
        "HyperNode",
        hyper_node("a", 1, "a1", "a2"),
        hyper_node("b", 1, "b1", "b2"),
        hyper_node("s", 2, children=("a", "b")),
    )
    harness.show_the_rest()
    return harness


def session_of(harness: EngineHarness) -> Session:
    """What a cycle would look at."""
    harness.state.cluster.nodes.lay_out()
    return Decider(harness.state).session


def see(harness: EngineHarness, *raws: bytes) -> None:
    """Show objects."""
    harness.see(*(ObjectSeen(one) for one in raws))


def nodes_of(harness: EngineHarness, of: str) -> dict[str, str]:
    """Pod to its node, of those of a group that have one."""
    pods = harness.state.cluster.groups[f"default/{of}"].pods.values()
    return {one.facts.name: one.node for one in pods if one.node}
