"""The network at a position of a log: leaf switches, SuperPoDs and HyperNodes, with what is on their nodes."""

from collections.abc import Iterable
from functools import partial

from projections.cluster import Cluster
from projections.feature_documents import TopologySection
from projections.state import State
from projections.views import now


def topology_document(state: State) -> dict[str, object]:
    """Return leaf switches, SuperPoDs and HyperNodes, each with its nodes; and how many nodes are in none of them."""
    cluster = state.cluster
    tree, sections = cluster.nodes.hyper_tree, state.features.of(TopologySection)
    names = sorted(name for name, one in cluster.nodes.nodes.items() if one.facts is not None)
    placed = dict.fromkeys(name for one in sections for name in one.places(cluster))
    elsewhere = [name for name in names if name not in placed and not tree.above(name)]
    return {
        "position": state.position,
        **{one.name: one.parts(cluster, partial(_node, cluster)) for one in sections},
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
