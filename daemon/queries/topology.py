"""The network at a position of a log: leaf switches, SuperPoDs and HyperNodes, with what is on their nodes."""

from collections.abc import Iterable

from features.leaf_switches.index import STATES, known_switches
from features.super_pods.index import SuperPods
from projections.cluster import Cluster
from projections.state import State
from projections.views import now


def topology_document(state: State) -> dict[str, object]:
    """Return leaf switches, SuperPoDs and HyperNodes, each with its nodes; and how many nodes are in none of them."""
    cluster = state.cluster
    index, network = known_switches(cluster)
    in_super_pods = cluster.indexes.find(SuperPods)
    super_pods = {} if in_super_pods is None else in_super_pods.of
    tree = cluster.nodes.hyper_tree
    names = sorted(name for name, one in cluster.nodes.nodes.items() if one.facts is not None)
    under: dict[int, list[str]] = {}
    of_pod: dict[int, list[str]] = {}
    for name in names:
        if (place := index.places.get(name)) is not None:
            under.setdefault(place.switch, []).append(name)
        if name in super_pods:
            of_pod.setdefault(super_pods[name], []).append(name)
    elsewhere = [
        name
        for name in names
        if name not in index.places and name not in super_pods and not tree.above(name)
    ]
    switches: list[dict[str, object]] = []
    for number, switch in enumerate(network):
        is_now = index.state_of(number, switch)
        nodes = sorted(under.get(number, ()), key=lambda name: (index.places[name].position, name))
        switches.append(
            {
                "switch": switch.name,
                "state": STATES[is_now.is_shared],
                "healthy": not is_now.is_unhealthy,
                "servers": len(switch.servers),
                "crossing": [*is_now.crossing],
                "nodes": [
                    {"position": index.places[name].position, **_node(cluster, name)}
                    for name in nodes
                ],
            }
        )
    return {
        "position": state.position,
        "switches": switches,
        "super_pods": [
            {"super_pod": number, "nodes": _nodes(cluster, nodes)}
            for number, nodes in sorted(of_pod.items())
        ],
        "hyper_nodes": [
            {
                "hyper_node": name,
                "tier": facts.tier,
                "in": sorted(tree.parents.get(name, ())),
                "nodes": _nodes(cluster, sorted(dict.fromkeys(tree.below(name)))),
            }
            for name, facts in sorted(tree.facts.items(), key=lambda item: (item[1].tier, item[0]))
        ],
        "elsewhere": elsewhere,
    }


def _nodes(cluster: Cluster, names: Iterable[str]) -> list[dict[str, object]]:
    return [_node(cluster, name) for name in names]


def _node(cluster: Cluster, name: str) -> dict[str, object]:
    """Return the cards of a node and the pod groups on it."""
    node = cluster.nodes.nodes[name]
    cards = [
        {"card": row[1], "total": row[3], "free": row[6]} for row in now.card_rows(cluster, name)
    ]
    groups = {cluster.pods[uid].group_key for uid in node.pods} - {""}
    return {"node": name, "cards": cards, "jobs": sorted(groups)}
