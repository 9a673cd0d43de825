"""Node: what it has, and which pods it is open to."""

from functools import partial
from typing import Final

from events.amount_text import amounts_text
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.device_families import DeviceFamilies
from projections.node_updates import drop_node, node_report, put_node
from projections.nodes import NodeFacts, node_facts
from projections.objects import NodeObject, read
from projections.observed_kind import ObservedKind, Reading

NODES: Final = Resource(
    "Node",
    "nodes",
    is_namespaced=False,
    short_names=("no",),
    field_selectors=("spec.unschedulable",),
    has_generation=False,
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    node = cluster.nodes.nodes.get(reading.subject.rpartition("/")[2])
    if node is not None and node.digest == reading.digest:
        return
    put_node(cluster, read_node(cluster, reading), reading.digest)


def read_node(cluster: Cluster, reading: Reading) -> NodeFacts:
    """Return the facts of a node, with what reports say of its devices."""
    report = node_report(cluster, reading.subject.rpartition("/")[2])

    def facts_of(obj: NodeObject, problem: str) -> NodeFacts:
        return node_facts(obj, cluster.device_families, problem, report)

    return reading.facts_of(NodeObject, facts_of)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    node = cluster.nodes.nodes.get(name)
    if node is not None and node.facts is not None and node.facts.uid == uid:
        drop_node(cluster, name)


def _summary(families: DeviceFamilies, content: bytes) -> list[str]:
    obj = read(NodeObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = node_facts(obj, families)
    has = dict(facts.allocatable)
    cards = [(card, has.pop(one, 0)) for one, card in facts.cards.items()]
    return [
        *(amounts_text((one,)) for one in cards),
        amounts_text(has),
        "unschedulable" if facts.unschedulable else "",
        *(f"taint {one.key}:{one.effect}" for one in facts.taints),
        *(message for _, message in facts.faults),
    ]


def node_kind(families: DeviceFamilies) -> ObservedKind:
    """Return the kind, with the devices that these families find on nodes."""
    return ObservedKind(
        resource=NODES,
        why="what there is to give",
        is_required=True,
        has_own_table=True,
        apply=_apply,
        drop=_drop,
        summarize=partial(_summary, families),
    )
