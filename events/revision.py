"""Resource versions: the one place where two of them are compared (rule K1.2)."""

from functools import lru_cache
from typing import Final

REMEMBERED: Final = 1 << 14
"""Revisions that were looked at lately: each is compared several times on its way into the log."""


@lru_cache(maxsize=REMEMBERED)
def is_malformed(revision: str) -> bool:
    """Whether it is no positive decimal integer without leading zeros, as K1.2 has it.

    Servers before 1.35 promised only that two of them can be told apart; all known ones count.
    """
    return not (revision.isascii() and revision.isdecimal()) or revision[0] == "0"


def is_newer(revision: str, than: str) -> bool:
    """Whether one is later than the other, of the same type: the longer, else the greater as text.

    Where either is malformed there is no order: another one is taken for a newer one.
    """
    if is_malformed(revision) or is_malformed(than):
        return revision != than
    if len(revision) == len(than):
        return revision > than
    return len(revision) > len(than)


def is_older(revision: str, than: str) -> bool:
    """Whether a revision is before another of the same type; never so where either is malformed."""
    return not is_malformed(revision) and not is_malformed(than) and is_newer(than, revision)
