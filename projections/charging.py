"""By which names queues are charged: every resource by its own name, or cpu, memory and cards by the names of their models.

A quota plugin brings one of the two (`Quota.charging`). A waiting pod that accepts any of several cards is counted under their
compound name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

Amounts: TypeAlias = dict[str, int]
Charge: TypeAlias = tuple[tuple[str, int], ...]

PLAIN: Final = ("cpu", "memory")
"""Resources that are charged by their own names under every plugin."""


class CardModels:
    """The known card models: name to the resource that counts them, and the number of nodes."""

    def __init__(self) -> None:
        self.resource: dict[str, str] = {}
        self.by_resource: dict[str, dict[str, int]] = {}
        """Resource name to card name to number of nodes."""
        self.units: dict[str, dict[str, dict[int, int]]] = {}
        """Converted resource to card name, to how much of the resource makes 1,000 of the card, to number of nodes."""

    def counting(self, resource: str) -> str:
        """Return the resource that counts the cards that are charged for a resource: another one if it is converted."""
        for card in self.units.get(resource, ()):
            return self.resource.get(card, resource)
        return resource

    def charged(self, resource: str, card: str, amount: int) -> int:
        """Return what of a card is charged for an amount of a resource: of a converted resource thousandths, rounded up;
        the most if the card is not known or has several sizes."""
        if resource not in self.units:
            return amount
        found = self.units[resource]
        known = [found[one] for one in card.split("|") if one in found] or list(found.values())
        return -(-amount * 1000 // min((units for one in known for units in one), default=1000))

    def is_card(self, name: str) -> bool:
        """Return whether a name is that of a card, or of a resource that counts cards."""
        return name in self.resource or name in self.by_resource


class Charging(ABC):
    """How a queue is charged for pods, and what a name under which it is charged stands for."""

    @abstractmethod
    def charge(
        self, models: CardModels, request: Charge, named: tuple[str, ...], there: Mapping[str, str]
    ) -> Charge:
        """Return what is charged for a pod with a request that names cards. `there` is the card that each resource of its node
        is charged as; empty while it waits."""

    @abstractmethod
    def resized(self, before: Charge, now: Charge) -> Charge:
        """Return what is charged for a pod that was charged `before` and whose request changed on its node."""

    @abstractmethod
    def cards_of(self, models: CardModels, name: str) -> tuple[str, ...]:
        """Return the cards that a charge name stands for: those of a compound name, or of a resource. A name that is no choice
        stands for itself."""

    @abstractmethod
    def is_choice(self, models: CardModels, name: str) -> bool:
        """Return whether a charge name is a choice of cards."""

    @abstractmethod
    def is_denied(self, models: CardModels, named: tuple[str, ...], name: str) -> bool:
        """Return whether no pod that names these cards can ever be charged a name, because it does not name its cards as
        required."""

    @abstractmethod
    def is_never_charged(self, models: CardModels, name: str) -> bool:
        """Return whether a resource that nodes have is charged to no queue."""

    @abstractmethod
    def accepted(
        self, models: CardModels, request: Charge, named: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the cards that a pod accepts, by the names under which they are charged."""

    @abstractmethod
    def minimum(self, stated: Amounts, cards: Callable[[], Amounts]) -> Amounts:
        """Return the minimum of a pod group by charge name, of which the PodGroup states resources. `cards` returns the cards that
        its first pods ask for."""

    @abstractmethod
    def without_gated(self, missing: Charge, gated: Callable[[], Amounts]) -> Charge:
        """Return what is reserved of what a pod group lacks. `gated` returns what its pods with scheduling gates ask for."""

    @abstractmethod
    def strays(
        self, used: Amounts, live: Callable[[], set[str]], all_pods: Callable[[], set[str]]
    ) -> list[str]:
        """Return the cards of `used` that no pod of a group asks for: the label of a node changed since, or another scheduler
        placed the pod there. `live` and `all_pods` return the names that its pods ask for, without those that have ended and with
        them."""

    @abstractmethod
    def request_differs(
        self, models: CardModels, stated: Mapping[str, int], asked: Iterable[Charge]
    ) -> str:
        """Return how the cards that pods ask for differ from what the annotation of their group states; "" if they do not."""

    @abstractmethod
    def card_quota(self, stated: Mapping[str, int]) -> Mapping[str, int]:
        """Return what counts of the quotas of cards that a queue states."""


class ResourceCharging(Charging):
    """Every resource is charged by its own name."""

    def charge(
        self, models: CardModels, request: Charge, named: tuple[str, ...], there: Mapping[str, str]
    ) -> Charge:
        """Return the request, without the number of pods."""
        return tuple(one for one in request if one[0] != "pods")

    def resized(self, before: Charge, now: Charge) -> Charge:
        """Return what is requested now."""
        return now

    def cards_of(self, models: CardModels, name: str) -> tuple[str, ...]:
        """Return the name."""
        return (name,)

    def is_choice(self, models: CardModels, name: str) -> bool:
        """Return False."""
        return False

    def is_denied(self, models: CardModels, named: tuple[str, ...], name: str) -> bool:
        """Return False."""
        return False

    def is_never_charged(self, models: CardModels, name: str) -> bool:
        """Return False."""
        return False

    def accepted(
        self, models: CardModels, request: Charge, named: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the resources that count cards."""
        return tuple(name for name, _ in request if name in models.by_resource)

    def minimum(self, stated: Amounts, cards: Callable[[], Amounts]) -> Amounts:
        """Return what is stated, without the number of pods."""
        return {name: amount for name, amount in stated.items() if name != "pods"}

    def without_gated(self, missing: Charge, gated: Callable[[], Amounts]) -> Charge:
        """Subtract what pods with scheduling gates ask for (Volcano's `capacity`)."""
        held = gated()
        left = [(name, amount - held.get(name, 0)) for name, amount in missing]
        return tuple([one for one in left if one[1] > 0])

    def strays(
        self, used: Amounts, live: Callable[[], set[str]], all_pods: Callable[[], set[str]]
    ) -> list[str]:
        """Return none."""
        return []

    def request_differs(
        self, models: CardModels, stated: Mapping[str, int], asked: Iterable[Charge]
    ) -> str:
        """Return "": the annotation counts for nothing."""
        return ""

    def card_quota(self, stated: Mapping[str, int]) -> Mapping[str, int]:
        """Return none: a quota of cards limits nothing."""
        return {}


class CardCharging(Charging):
    """Cpu and memory are charged, and cards by the names of their models."""

    def __init__(self, *, exempts_card_pods: bool = False, infers_cards: bool = False) -> None:
        self._exempts_card_pods = exempts_card_pods
        """Whether pods that use cards are not charged cpu and memory."""
        self._infers_cards = infers_cards
        """Whether a pod that requests cards without naming any may be charged any card."""

    def charge(
        self, models: CardModels, request: Charge, named: tuple[str, ...], there: Mapping[str, str]
    ) -> Charge:
        """Return the cards of the node, or those that the pod accepts, with cpu and memory."""
        cards: Amounts = {}
        for name, amount in request:
            if name in models.by_resource:
                card = self._card(models, named, name, there)
                cards[card] = cards.get(card, 0) + models.charged(name, card, amount)
        if self._exempts_card_pods and (cards or named):
            return tuple(cards.items())
        return (*cards.items(), *[one for one in request if one[0] in PLAIN])

    def _card(
        self, models: CardModels, named: tuple[str, ...], resource: str, there: Mapping[str, str]
    ) -> str:
        """Return the charged card of a resource: that of the node, else the choice, else the resource itself."""
        if resource in there:
            return there[resource]
        known = models.by_resource.get(resource, {})
        listed = tuple(name for name in named if name in known)
        if not listed and not any(name in models.resource for name in named):
            listed = named
        return compound(listed) if listed else resource

    def resized(self, before: Charge, now: Charge) -> Charge:
        """Return the cards that were charged when the pod got its node, and what it requests now of cpu and memory."""
        cards = tuple([one for one in before if one[0] not in PLAIN])
        return (*cards, *[one for one in now if one[0] in PLAIN])

    def cards_of(self, models: CardModels, name: str) -> tuple[str, ...]:
        """Return the cards of a compound name or of a resource; else the name."""
        if "|" in name:
            return tuple(name.split("|"))
        if name in models.by_resource:
            return tuple(sorted(models.by_resource[name]))
        return (name,)

    def is_choice(self, models: CardModels, name: str) -> bool:
        """Return whether it is a compound name, or a resource that counts cards."""
        return "|" in name or name in models.by_resource

    def is_denied(self, models: CardModels, named: tuple[str, ...], name: str) -> bool:
        """Return whether it is a resource that counts cards, and the pod names other cards, or none where it must."""
        return name in models.by_resource and (bool(named) or not self._infers_cards)

    def is_never_charged(self, models: CardModels, name: str) -> bool:
        """Return whether it is neither cpu, memory nor a card, as on nodes without a label of the product."""
        return name not in PLAIN and not models.is_card(name)

    def accepted(
        self, models: CardModels, request: Charge, named: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the known cards that the pod names; if it names none, those that its resources count."""
        known = tuple(name for name in named if name in models.resource)
        inferred = (models.by_resource.get(name, {}) for name, _ in request)
        return known or tuple(card for found in inferred for card in sorted(found))

    def minimum(self, stated: Amounts, cards: Callable[[], Amounts]) -> Amounts:
        """Return cpu and memory as stated, and the cards of the first pods."""
        found = cards()
        if found and self._exempts_card_pods:
            return dict(found)
        return {**{name: amount for name, amount in stated.items() if name in PLAIN}, **found}

    def without_gated(self, missing: Charge, gated: Callable[[], Amounts]) -> Charge:
        """Return all that is missing."""
        return missing

    def strays(
        self, used: Amounts, live: Callable[[], set[str]], all_pods: Callable[[], set[str]]
    ) -> list[str]:
        """Return the cards of `used` that no pod asks for."""
        asked = live()
        if all(name in asked for name in used if name not in PLAIN):
            return []
        asked = all_pods()
        return [name for name in used if name not in PLAIN and name not in asked]

    def request_differs(
        self, models: CardModels, stated: Mapping[str, int], asked: Iterable[Charge]
    ) -> str:
        """Return both, if the pods ask for other cards, or for another number of them."""
        cards: Amounts = {}
        for one in asked:
            for name, amount in one:
                if name not in PLAIN:
                    cards[name] = cards.get(name, 0) + amount
        listed = {card for name in stated for card in self.cards_of(models, name)}
        is_listed = all(card in listed for name in cards for card in self.cards_of(models, name))
        if is_listed and sum(cards.values()) == sum(stated.values()):
            return ""
        theirs, ours = (_listed(one) for one in (stated, cards))
        return f"asks for {theirs}, the pods for {ours}"

    def card_quota(self, stated: Mapping[str, int]) -> Mapping[str, int]:
        """Return all of them."""
        return stated


def compound(cards: tuple[str, ...]) -> str:
    """Return the one name under which a choice of cards is reserved: `A|B`, sorted."""
    return cards[0] if len(cards) == 1 else "|".join(sorted(cards))


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amounts[name]} {name}" for name in sorted(amounts)) or "none"
