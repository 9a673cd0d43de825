"""Whole cards, and the shares (MPS) and slices (MIG) that the device plugin of NVIDIA makes of them: devices that a node
counts and does not name.

The rules are those of the card-quota design: a label `<domain>/<type>.product` names the model P, and

    <domain>/<type>, or the first resource of the domain   -> the whole card   P
    nvidia.com/gpu.shared                                  -> a share (MPS)    P/mps-<G>g*1/<r>
    nvidia.com/mig-<profile>                               -> a slice (MIG)    P/mig-<profile>-mixed

where G is the memory of the card in GiB and r the number of its shares. Whole cards and each kind of share are
different cards, each with its own quota. On one node a resource counts one card.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from events.limits import name_problem, whole_number
from projections.device_family import (
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
)
from projections.nodes import NodeFacts
from projections.policy.requirement import Requirement
from projections.selector import NodeSelector

SHARED: Final = "nvidia.com/gpu.shared"
SLICE: Final = "nvidia.com/mig-"
REPLICAS: Final = "nvidia.com/gpu.replicas"
_PRODUCT: Final = ".product"
_FULL: Final = 100_000
"""Points for the card that a pod names first, in thousandths."""


class WholeCards(DeviceFamily):
    """Cards of one model, counted by a resource of the node."""

    name = "whole-cards"
    names_devices = False

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the cards of a node. Of several product labels the smallest key counts; the others are errors."""
        labels, amounts = sources.labels, sources.amounts
        products = [key for key in sorted(labels) if labels[key] and _is_product(key)]
        wrong = [text for key in products if (text := name_problem(labels[key]))]
        products = [key for key in products if not name_problem(labels[key])]
        if not products:
            return Discovered(faults=tuple(("InvalidProductLabel", text) for text in wrong))
        key, faults = products[0], [("InvalidProductLabel", text) for text in wrong]
        if len(products) > 1:
            text = f"labels {', '.join(products)} each name a card model: {key} counts"
            faults.append(("SeveralProductLabels", text))
        domain, _, kind = key.removesuffix(_PRODUCT).partition("/")
        cards: dict[str, str] = {}
        for resource in sorted(amounts):
            if amounts[resource] <= 0 or not resource.startswith(f"{domain}/"):
                continue
            if resource.startswith(SLICE):
                cards[resource] = f"{labels[key]}/mig-{resource.removeprefix(SLICE)}-mixed"
            elif resource == SHARED:
                shared, fault = _shared_name(labels, key)
                if shared:
                    cards[resource] = shared
                faults += fault
        whole = [one for one in sorted(amounts) if _is_whole(domain, one) and amounts[one] > 0]
        exact = f"{domain}/{kind}"
        if whole:
            chosen = exact if exact in whole else whole[0]
            cards[chosen] = labels[key]
            if chosen != exact and len(whole) > 1:
                text = f"resources {', '.join(whole)} could each count {labels[key]}: {chosen} does"
                faults.append(("SeveralCardResources", text))
        return Discovered(cards=dict(sorted(cards.items())), faults=tuple(faults))

    def available(self, node: NodeFacts, _uses: Sequence[DeviceUse]) -> Hashable:
        """Return the cards of the node."""
        return tuple(node.cards.values())

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Return how nodes serve pods that may be charged certain cards; None if it does not matter which."""
        if request.cards is None:
            return None
        order = request.pod_class.cards if len(request.pod_class.cards) > 1 else ()
        return _CardFit(request.cards, order, request.order_weight if order else 0)

    def is_excluded(self, cards: tuple[str, ...], selector: NodeSelector) -> bool:
        """Return whether the selector requires another product label than that of a node with one of the cards.

        The name of a card begins with the value of this label.
        """
        products = {card.partition("/")[0] for card in cards}
        return bool(products) and _rules_out(selector, sorted(products))


@dataclass(frozen=True)
class _CardFit(DeviceFit):
    """A node serves the pod if it has one of the cards."""

    cards: tuple[str, ...]
    order: tuple[str, ...]
    """The cards that the pod names, if it names several: it prefers the first ones."""
    order_weight: int
    """In thousandths."""

    @property
    def reason(self) -> str:
        """Name the cards."""
        return f"node(s) had none of the cards {'|'.join(self.cards)} that the queue may use"

    def points(self, available: Hashable) -> int:
        """Return 100 points for the card named first, half for the next, and so on, times the weight of the order."""
        assert isinstance(available, tuple)
        card = next((one for one in self.cards if one in available), None)
        if card is None:
            return -1
        if card not in self.order:
            return 0
        return _FULL * self.order_weight // 1000 >> min(self.order.index(card), 60)

    def obstacle(self, available: Hashable) -> str:
        """Name the cards of the node and those that it lacks."""
        assert isinstance(available, tuple)
        there = " and ".join(available)
        has = f"node has cards {there}" if there else "node has no cards"
        return f"{has}, not {' or '.join(self.cards)}"


def gib(mebibytes: int) -> int:
    """Return the memory in the name of a share: GiB, rounded to the nearest (97871 MiB are 96)."""
    return (mebibytes + 512) // 1024


def _is_product(key: str) -> bool:
    domain, slash, kind = key.removesuffix(_PRODUCT).partition("/")
    return bool(key.endswith(_PRODUCT) and slash and domain and kind and SLICE not in key)


def _is_whole(domain: str, resource: str) -> bool:
    return (
        resource.startswith(f"{domain}/") and not resource.startswith(SLICE) and resource != SHARED
    )


def _shared_name(labels: Mapping[str, str], key: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of a share of the node's card, or "" and the errors."""
    stated = labels.get(REPLICAS, "")
    replicas = _number(stated)
    if not replicas:
        text = f"label {REPLICAS}: {stated!r} is not a number of shares: {SHARED} is no card"
        return "", [("InvalidReplicas", text)]
    size = f"{key.removesuffix(_PRODUCT)}.memory"
    memory = labels.get(size, "")
    if not memory:
        text = f"label {size} is missing, which names the shares: {SHARED} is no card"
        return "", [("MissingMemory", text)]
    fault = []
    if _number(memory) is None:
        fault = [("InvalidMemory", f"label {size}: {memory!r} is not a number: it counts as 0")]
    return f"{labels[key]}/mps-{gib(_number(memory) or 0)}g*1/{replicas}", fault


def _number(text: str) -> int | None:
    """Return a non-negative whole number, or None."""
    return whole_number(text) if text.isdigit() else None


def _rules_out(selector: NodeSelector, products: list[str]) -> bool:
    pairs = [Requirement(key, "In", (value,)) for key, value in selector.pairs]
    if any(_excludes(one, products) for one in pairs):
        return True
    terms = selector.terms
    return terms is not None and all(
        any(_excludes(one, products) for one in term.labels) for term in terms
    )


def _excludes(requirement: Requirement, products: list[str]) -> bool:
    """Return True if no node of these products can have a matching label."""
    if not requirement.key.endswith(_PRODUCT):
        return False
    return not any(requirement.matches(product) for product in products)
