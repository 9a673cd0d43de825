"""HyperNode (topology.volcano.sh): a domain of the network, with its tier and members."""

from typing import Final

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.hyper_nodes import HyperNodeObject, hyper_node_facts
from projections.node_updates import drop_hyper_node, put_hyper_node
from projections.objects import read
from projections.observed_kind import ObservedKind, Reading

HYPER_NODES: Final = Resource(
    "HyperNode",
    "hypernodes",
    "topology.volcano.sh",
    "v1alpha1",
    is_namespaced=False,
    short_names=("hn",),
    is_custom=True,
)

NAMED_MAX: Final = 4
"""The most members of a HyperNode that are named."""


def _apply(cluster: Cluster, reading: Reading) -> None:
    put_hyper_node(cluster, reading.facts_of(HyperNodeObject, hyper_node_facts))


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    drop_hyper_node(cluster, subject.rpartition("/")[2])


def _summarize(content: bytes) -> list[str]:
    obj = read(HyperNodeObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = hyper_node_facts(obj)
    named = [*facts.children, *facts.nodes]
    shown = named[:NAMED_MAX] + (
        [f"and {len(named) - NAMED_MAX} more"] if len(named) > NAMED_MAX else []
    )
    return [
        f"tier {facts.tier}" + (f" ({facts.tier_name})" if facts.tier_name else ""),
        f"of {', '.join(shown)}" if shown else "",
        *(f"of nodes like {one}" for one in facts.patterns),
        "of nodes with labels" if facts.selectors else "",
        *(message for _, message in facts.faults),
    ]


HYPER_NODE: Final = ObservedKind(
    resource=HYPER_NODES,
    why="the network's topology",
    apply=_apply,
    drop=_drop,
    summarize=_summarize,
)
