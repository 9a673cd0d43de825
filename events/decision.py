"""What the scheduler decided, and why. `Decided` in a name marks what is still to be carried out."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self

from msgspec import Struct

from events.amount_text import amounts_text
from events.record import Fact

INTERNAL_ERROR: Final = "InternalError"
"""Code of what was not decided because of a bug of muster."""


class Placement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One pod of a decision, with its node and the cards it is charged there."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str
    cards: dict[str, int] = {}
    """Card name to whole cards charged."""
    devices: tuple[str, ...] = ()
    """Names of chips, if the product has chips of its own."""
    network: tuple[tuple[str, str], ...] = ()
    """Annotations that say where in the network it is, as keys and values, sorted."""


class Eviction(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One pod that a decision evicts."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str
    is_without_budgets: bool = False
    """Whether it is deleted in spite of its disruption budgets, which have refused its eviction for too long."""


class DecisionItem(Struct, frozen=True, gc=False):
    """One entry of a decision: a row of the view `decision`, and an entry of the document of `simulate`."""

    pod_group: str = ""
    queue: str = ""
    pod: str = ""
    """The pod that it is about, `namespace/name`; if empty, it is about the subject of the record."""
    node: str = ""
    code: str = ""
    message: str = ""
    cards: dict[str, int] = {}
    devices: tuple[str, ...] = ()
    in_favour_of: str = ""


class Decision(Fact, frozen=True, kw_only=True):
    """A kind of decision: its record, and all that is said of it. What it changes is in
    `projections/apply_decision.py`."""

    word: ClassVar[str]
    """What it is called in views, metrics and the document of `simulate`."""
    is_in_document: ClassVar[bool] = False
    """Whether the document of `simulate` lists it."""

    @property
    def subject(self) -> str:
        """Return the object that it is about, as `Kind/namespace/name`."""
        raise NotImplementedError

    @property
    def pods(self) -> Sequence[Placement | Eviction]:
        """Return the pods of the decision, each with the node that it gets or leaves."""
        return ()

    @property
    def beneficiary(self) -> str:
        """Return the pod group for which others have to leave, if any."""
        return ""

    def with_pods(self, pods: Sequence[Placement | Eviction]) -> Self:
        """Return the part of the decision that is about some of its pods."""
        return self

    def items(self) -> Sequence[DecisionItem]:
        """Return its entries in views and documents."""
        return ()

    def lines(self) -> list[str]:
        """Return its lines in `tell`; the first one is the short form."""
        raise NotImplementedError


class PodGroupDecision(Decision, frozen=True, kw_only=True):
    """A decision about a pod group."""

    pod_group: str
    queue: str

    @property
    def subject(self) -> str:
        """Return the pod group; its queue if there is none."""
        return f"PodGroup/{self.pod_group}" if self.pod_group else f"Queue//{self.queue}"

    def item(
        self,
        *,
        pod: str = "",
        node: str = "",
        code: str = "",
        message: str = "",
        in_favour_of: str = "",
    ) -> DecisionItem:
        """Return an entry about the group or one of its pods."""
        return DecisionItem(
            pod_group=self.pod_group,
            queue=self.queue,
            pod=pod,
            node=node,
            code=code,
            message=message,
            in_favour_of=in_favour_of,
        )

    def placement_items(self, placements: Sequence[Placement]) -> Sequence[DecisionItem]:
        """Return an entry a placement."""
        return [
            DecisionItem(
                pod_group=self.pod_group,
                queue=self.queue,
                pod=one.pod,
                node=one.node,
                cards=one.cards,
                devices=one.devices,
            )
            for one in placements
        ]


def placement_lines(what: str, placements: Sequence[Placement]) -> list[str]:
    """Return the lines of placements: a single pod is in the first line, the pods of a gang are under it."""
    lines = [
        f"{one.pod} -> {one.node}{_named(one.devices)}{_charged(one.cards)}" for one in placements
    ]
    return [f"{what}: {lines[0]}"] if len(lines) == 1 else [f"{what}: {len(lines)} pods", *lines]


def _named(devices: Sequence[str]) -> str:
    return f" {','.join(devices)}" if devices else ""


def _charged(cards: Mapping[str, int]) -> str:
    return f", charged {amounts_text(cards)}" if cards else ""
