"""Anchors: heads of a log that are known from elsewhere, with which the log is compared while it is verified.

A chain that was rewritten from some position on is sound in itself. It cannot have the digests of the past again.
"""

import re
from typing import Final

from msgspec import Struct

from events.errors import DamagedLogError, UsageError
from events.record import Head

_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Anchor(Struct, frozen=True):
    """The digest that a log had at a position."""

    position: int
    digest: str
    source: str
    """Where it is known from, as in `... but its signature by key 5f... states ...`."""
    at_ns: int | None = None
    """When it was so; None if not known."""


class Anchored(Struct, frozen=True):
    """The anchors that a log agrees with."""

    count: int = 0
    last: Anchor | None = None
    """The one of the highest position: what stands behind it is not anchored."""
    before_base: int = 0
    """Anchors at positions that the log does not hold, because it begins later."""
    lost: int = 0
    """Anchors at positions of a loss that was accepted, which the log has with another digest or not at all."""


class AnchorChecker:
    """Compares anchors with the records of a log, as they are read in order."""

    def __init__(self, anchors: list[Anchor], base: Head) -> None:
        ordered = sorted(anchors, key=lambda one: one.position)
        self._rest = [one for one in ordered if one.position >= base.position]
        self._rest.reverse()
        self._before_base = len(ordered) - len(self._rest)
        self._count = self._lost = 0
        self._last: Anchor | None = None
        self._losses: list[tuple[int, int]] = []
        self.compare(base)

    def accept(self, first: int, last: int) -> None:
        """Positions whose loss the log has accepted: an anchor there need not agree."""
        self._losses.append((first, last))

    def _is_lost(self, anchor: Anchor) -> bool:
        return any(first <= anchor.position <= last for first, last in self._losses)

    def compare(self, head: Head) -> None:
        """Compare the anchors at a position. DamagedLogError names the positions between which the past was rewritten."""
        while self._rest and self._rest[-1].position == head.position:
            anchor = self._rest.pop()
            if anchor.digest != head.digest and self._is_lost(anchor):
                self._lost += 1
                continue
            if anchor.digest != head.digest:
                raise DamagedLogError(
                    f"position {anchor.position}: the past was rewritten: the digest here is {head.digest}, but "
                    f"{anchor.source} states {anchor.digest}; {self._agreed()}"
                )
            self._count += 1
            self._last = anchor

    def finish(self, head: Head) -> Anchored:
        """Return what agrees. DamagedLogError where the log ends before an anchor."""
        missing = [one for one in self._rest if not self._is_lost(one)]
        if missing:
            anchor = missing[-1]
            raise DamagedLogError(
                f"position {anchor.position}: missing: the log ends at {head.position}, but {anchor.source} states that "
                f"there was a record; {self._agreed()}"
            )
        return Anchored(self._count, self._last, self._before_base, self._lost + len(self._rest))

    def _agreed(self) -> str:
        if self._last is None:
            return "no earlier position is anchored"
        return f"up to position {self._last.position} it is as it was"


def is_same(one: Anchor, other: Anchor) -> bool:
    """Return True if two anchors state the same head."""
    return (one.position, one.digest) == (other.position, other.digest)


def parse_anchor(text: str, option: str) -> Anchor:
    """Return the anchor that an option states as POSITION:DIGEST. Raises UsageError."""
    found = _HEAD.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(
            f"{option}: {text!r} is not POSITION:DIGEST with a digest of 64 hexadecimal digits"
        )
    return Anchor(int(found[1]), found[2], f"{option}")
