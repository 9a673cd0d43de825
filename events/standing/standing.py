"""The base class of records that say what stands at a position.

They say what was observed and decided before, not how State keeps it: folding them gives the State at that position
(`projections/base/`). Their position is that of the base, and their subject is what they are about. The object of a record, if
any, is the one that stands, and is read by the release that folds it.

Whatever has an order has it as a list: pairs of a name and a value instead of a map.
"""

from typing import TypeAlias

from events.record import Fact

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Names, each with an amount, a position or a time in ns since the epoch."""

Texts: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of texts: keys with values, or codes with messages."""

Names: TypeAlias = tuple[str, ...]


class Standing(Fact, frozen=True, kw_only=True):
    """Something that stands at a position."""
