"""Device families: what devices nodes have, and how they serve pods. Each family is one class; `FAMILIES` is their table.

A device is an accelerator or the allocatable part of one. A family holds nothing: it answers from the objects that it
is given, so that equal objects have equal answers. `discover` is called while records are applied, all else while a
cycle decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from projections.nodes import NodeFacts
    from projections.pod_class import PodClass
    from projections.selector import NodeSelector

Cards: TypeAlias = tuple[str, ...] | None
"""The cards that a pod may be charged, in order of preference; None if it uses none or any."""


class Discovered(Struct, frozen=True):
    """The devices of a node, and the errors of its object."""

    cards: dict[str, str] = {}
    """Resource name to the name of the card that it counts, as quotas name it; sorted by resource."""
    devices: dict[str, tuple[str, ...]] = {}
    """Resource name to the names of its devices, if the family knows them; a name is unique on the node. Sorted by
    resource."""
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message."""


class DeviceFit(ABC):
    """How the devices of nodes serve pods of one class."""

    reads_devices: ClassVar[bool] = False
    """Whether `points` depends on the named devices of a node and on which are taken. If not, the answer is the same
    for nodes whose resources count the same cards, and asked once for them."""

    @property
    @abstractmethod
    def reason(self) -> str:
        """Return why nodes do not serve the pod; it follows their number: "node(s) had none of ..."."""

    @abstractmethod
    def points(self, node: NodeFacts, taken: Collection[str]) -> int:
        """Return what the devices of the node that are not taken add to its score, in thousandths of a point; -1 if
        the pod cannot get the ones that it needs."""

    @abstractmethod
    def obstacle(self, node: NodeFacts, taken: Collection[str]) -> str:
        """Return why the node, of which `points` are -1, does not serve the pod, with what it has."""


class DeviceFamily(ABC):
    """A kind of devices: how they are found, and how they are given to pods."""

    name: ClassVar[str]

    @abstractmethod
    def discover(self, labels: Mapping[str, str], amounts: Mapping[str, int]) -> Discovered:
        """Return the devices of a node from its labels and the amounts of its resources, healthy or not."""

    @abstractmethod
    def fit(self, pod_class: PodClass, cards: Cards, order_weight: int) -> DeviceFit | None:
        """Return how nodes serve pods of a class that may be charged these cards; None if the devices of nodes do not
        matter to them. `order_weight` is the weight of the order of cards, in thousandths.

        Of the class it reads the request and the named cards.
        """

    def pick(self, pod_class: PodClass, node: NodeFacts, taken: Collection[str]) -> tuple[str, ...]:
        """Return the devices of the node that a pod of the class gets, by name: none that is taken; () if the family
        names none, or if `points` are -1."""
        return ()

    def is_excluded(self, cards: tuple[str, ...], selector: NodeSelector) -> bool:
        """Return whether no node that has one of these cards can match the selector."""
        return False


FAMILIES: Final[dict[str, DeviceFamily]] = {}
"""Name to family: those of `scheduling/device_families/`. The first one that knows a resource counts it."""


def register_families(*families: DeviceFamily) -> None:
    """Add families to the table."""
    for one in families:
        FAMILIES[one.name] = one


def discover_devices(labels: Mapping[str, str], amounts: Mapping[str, int]) -> Discovered:
    """Return the devices of a node, of all families."""
    assert FAMILIES, "no device family is registered: import scheduling.device_family_table"
    found = [one.discover(labels, amounts) for one in FAMILIES.values()]
    cards = {name: card for one in reversed(found) for name, card in one.cards.items()}
    devices = {name: names for one in reversed(found) for name, names in one.devices.items()}
    return Discovered(
        cards={name: cards[name] for name in sorted(cards)},
        devices={name: devices[name] for name in sorted(devices)},
        faults=tuple(fault for one in found for fault in one.faults),
    )
