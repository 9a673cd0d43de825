"""The binding of pods while a more important task waits: backfill of the decider `priority`."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from events.decision import DecisionItem
from events.decisions.gang_bind import GangBindDecided

BACKFILLED: Final = "BACKFILLED"
"""Code of its items."""


class BackfillBindDecided(GangBindDecided, frozen=True, kw_only=True):
    """Preemptible pods of one group are bound although a more important task waits, which cannot use the room yet."""

    kind = "backfill_bind_decided.v1"

    def items(self) -> Sequence[DecisionItem]:
        """Return an item a pod."""
        return [structs.replace(one, code=BACKFILLED) for one in super().items()]

    def lines(self) -> list[str]:
        """Return the lines of `tell`: a single pod is in the first line, the pods of a gang are under it."""
        first, *rest = super().lines()
        return [f"{first} (backfilled)", *rest]
