"""Which cards a pod may be charged."""

from msgspec import Struct


class CardChoice(Struct, frozen=True):
    """The cards that a pod may be charged, in order of preference; None if it uses none."""

    cards: tuple[str, ...] | None
    over_quota: tuple[str, ...] = ()
    """Further cards that would do but are over the queue's quota."""
