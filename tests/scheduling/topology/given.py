"""Clusters with HyperNodes."""

from collections.abc import Mapping

from events.messages import ObjectSeen
from events.normalize import JsonObject
from scheduling.decide import Decider
from scheduling.session import Session
from tests.scheduling.given import Told, node, pod, raw

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


def two_racks(cpu: int = 4) -> Told:
    """Nodes a1, a2 in rack a and b1, b2 in rack b, both in spine s, and node c in none."""
    told = Told()
    names = ("a1", "a2", "b1", "b2", "c")
    told.show_all("Node", *(node(name, cpu=cpu) for name in names))
    told.show_all(
        "HyperNode",
        hyper_node("a", 1, "a1", "a2"),
        hyper_node("b", 1, "b1", "b2"),
        hyper_node("s", 2, children=("a", "b")),
    )
    told.show_the_rest()
    return told


def session_of(told: Told) -> Session:
    """What a cycle would look at."""
    told.state.cluster.nodes.lay_out()
    return Decider(told.state).session


def see(told: Told, *raws: bytes) -> None:
    """Show objects."""
    told.see(*(ObjectSeen(one) for one in raws))


def nodes_of(told: Told, of: str) -> dict[str, str]:
    """Pod to its node, of those of a group that have one."""
    pods = told.state.cluster.groups[f"default/{of}"].pods.values()
    return {one.facts.name: one.node for one in pods if one.node}
