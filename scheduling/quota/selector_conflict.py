"""Pods whose cards and node affinity exclude each other: the message names both constraints.

Device families say by which labels a node affinity can exclude every node that has one of the pod's cards.
"""

from projections.device_families import DeviceFamilies
from projections.pod_class import PodClass
from projections.policy.requirement import Requirement
from projections.selector import NodeSelector, Term


def selector_conflict(families: DeviceFamilies, pod_class: PodClass) -> str:
    """Return a message with both constraints if no node with these cards can match the pod's node affinity; else
    empty."""
    cards, selector = pod_class.cards, pod_class.selector
    if any(one.is_excluded(cards, selector) for one in families):
        return conflict_text(pod_class)
    return ""


def conflict_text(pod_class: PodClass) -> str:
    """Return a message with both constraints, cards and node affinity."""
    cards, demand = "|".join(pod_class.cards), demands(pod_class.selector)
    return f"no node has one of the cards <{cards}> and matches the node affinity <{demand}>"


def demands(selector: NodeSelector) -> str:
    """Format a selector as kubectl does; alternatives are joined by `or`."""
    pairs = ", ".join(f"{key}={value}" for key, value in selector.pairs)
    terms = " or ".join(_term(term) for term in selector.terms or ())
    return " and ".join(part for part in (pairs, terms) if part)


def _term(term: Term) -> str:
    return ", ".join(_requirement(one) for one in (*term.labels, *term.fields))


def _requirement(one: Requirement) -> str:
    values = ", ".join(one.values)
    match one.operator:
        case "In" | "NotIn":
            return f"{one.key} {one.operator.lower()} ({values})"
        case "Exists":
            return one.key
        case "DoesNotExist":
            return f"!{one.key}"
        case _:
            return f"{one.key} {one.operator} {values}"
