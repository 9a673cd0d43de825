"""Pods whose cards and node affinity exclude each other: the message names both constraints.

The name of a card begins with the value of its node's label `<domain>/<type>.product`. A node affinity on such a
label can exclude every node that has one of the pod's cards.
"""

from projections.pod_class import PodClass
from projections.selector import NodeSelector, Requirement, Term


def selector_conflict(pod_class: PodClass) -> str:
    """Return a message with both constraints if no node with these cards can match the pod's node affinity; else
    empty."""
    products = {card.partition("/")[0] for card in pod_class.cards}
    if not products or not _rules_out(pod_class.selector, products):
        return ""
    return conflict_text(pod_class)


def conflict_text(pod_class: PodClass) -> str:
    """Return a message with both constraints, cards and node affinity."""
    cards, demand = "|".join(pod_class.cards), demands(pod_class.selector)
    return f"no node has one of the cards <{cards}> and matches the node affinity <{demand}>"


def demands(selector: NodeSelector) -> str:
    """Format a selector as kubectl does; alternatives are joined by `or`."""
    pairs = ", ".join(f"{key}={value}" for key, value in selector.pairs)
    terms = " or ".join(_term(term) for term in selector.terms or ())
    return " and ".join(part for part in (pairs, terms) if part)


def _rules_out(selector: NodeSelector, products: set[str]) -> bool:
    pairs = [Requirement(key, "In", (value,)) for key, value in selector.pairs]
    if any(_excludes(one, products) for one in pairs):
        return True
    terms = selector.terms
    return terms is not None and all(
        any(_excludes(one, products) for one in term.labels) for term in terms
    )


def _excludes(requirement: Requirement, products: set[str]) -> bool:
    """Return True if no node of these products can have a matching label."""
    if not requirement.key.endswith(".product"):
        return False
    return not any(requirement.matches(product) for product in sorted(products))


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
