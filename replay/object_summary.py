"""The fields of a Kubernetes object that matter to scheduling, in half a line."""

from collections.abc import Callable
from typing import Final

from projections.group_facts import group_facts
from projections.hyper_nodes import hyper_node_facts
from projections.nodes import node_facts
from projections.objects import (
    HyperNodeObject,
    NodeObject,
    PodGroupObject,
    PodObject,
    QueueObject,
    read,
)
from projections.pod_class import parse_class
from projections.pods import pod_facts
from projections.queues import queue_facts
from replay.amount import amounts_text

NAMED_MAX: Final = 4
"""The most members of a HyperNode that are named."""


def summarize_object(kind: str, content: bytes) -> str:
    """Summarize an object of this kind; empty for kinds of which only the existence matters."""
    look = _LOOKS.get(kind)
    return "" if look is None else ", ".join(part for part in look(content) if part)


def _pod(content: bytes) -> list[str]:
    obj = read(PodObject, content)
    if isinstance(obj, str):
        return [obj]
    facts, _ = pod_facts(obj)
    pod_class = parse_class(0, obj)
    asks = amounts_text(pod_class.request)
    return [
        facts.phase + (" " + facts.reason if facts.reason else ""),
        f"on {facts.node}" if facts.node else "",
        "being deleted" if facts.is_releasing else "",
        "gated" if facts.is_gated else "",
        f"asks for {asks}" if asks and not facts.node else "",
        f"of {'|'.join(pod_class.cards)}" if pod_class.cards and not facts.node else "",
        f"queue {facts.queue}" if facts.queue and not facts.node else "",
        f"group {facts.group_name}" if facts.group_name and not facts.node else "",
        pod_class.unsupported,
    ]


def _node(content: bytes) -> list[str]:
    obj = read(NodeObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = node_facts(obj)
    has = dict(facts.allocatable)
    cards = [f"{has.pop(one, 0)} {card}" for one, card in facts.cards.items()]
    return [
        *cards,
        amounts_text(has),
        "unschedulable" if facts.unschedulable else "",
        *(f"taint {one.key}:{one.effect}" for one in facts.taints),
        *(message for _, message in facts.faults),
    ]


def _group(content: bytes) -> list[str]:
    obj = read(PodGroupObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = group_facts(obj)
    least = amounts_text(facts.min_resources or {})
    return [
        facts.phase,
        f"needs {facts.min_available} pods",
        f"and {least} at least" if least else "",
        f"queue {facts.queue}" if facts.queue else "",
        f"pods {facts.topology_constraint.text}" if facts.topology_constraint else "",
        *(f"sub-groups {rule.name} of {rule.size} pods" for rule in facts.sub_group_rules),
        facts.problem,
    ]


def _queue(content: bytes) -> list[str]:
    obj = read(QueueObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = queue_facts(obj)
    allows = amounts_text({**facts.quota, **facts.capability})
    return [
        "open" if facts.is_open else "not open",
        f"allows {allows}" if allows else "",
        *(message for _, message in facts.faults),
    ]


def _hyper_node(content: bytes) -> list[str]:
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


_LOOKS: Final[dict[str, Callable[[bytes], list[str]]]] = {
    "Pod": _pod,
    "Node": _node,
    "PodGroup": _group,
    "Queue": _queue,
    "HyperNode": _hyper_node,
}
