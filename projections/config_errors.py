"""What of nodes and pod groups cannot be used: told in the log once each time that it changes."""

from collections.abc import Iterable
from typing import Final

REQUEST_DIFFERS: Final = "CardRequestDiffers"
"""Code where the pods of a group ask for other cards than the group said they would."""

Pairs = tuple[tuple[str, str], ...]
"""Code and message of each fault."""


class ConfigErrors:
    """The faults that stand, by subject (`Kind/namespace/name`), and those the log names already."""

    def __init__(self) -> None:
        self.current: dict[str, Pairs] = {}
        self.reported: dict[str, Pairs] = {}
        self.unreported: dict[str, None] = {}
        """Subjects with faults that the log does not name yet."""

    def put(self, subject: str, faults: Pairs, *, keeps: Iterable[str] = ()) -> None:
        """These are the faults of a subject now, beside those with a code that it `keeps`."""
        kept = tuple(one for one in self.current.get(subject, ()) if one[0] in keeps)
        faults = (*faults, *kept)
        if not faults and subject not in self.current:
            return
        self.current[subject] = faults
        if not faults:
            del self.current[subject]
        self._update(subject)

    def add(self, subject: str, fault: tuple[str, str]) -> None:
        """One more, in place of one with the same code."""
        others = tuple(one for one in self.current.get(subject, ()) if one[0] != fault[0])
        self.put(subject, (*others, fault))

    def mark_reported(self, subject: str, fault: tuple[str, str]) -> None:
        """The log names a fault."""
        self.reported[subject] = (*self.reported.get(subject, ()), fault)
        self._update(subject)

    def unreported_of(self, subject: str) -> Pairs:
        """The faults of a subject that the log does not name yet."""
        told = self.reported.get(subject, ())
        return tuple(one for one in self.current.get(subject, ()) if one not in told)

    def _update(self, subject: str) -> None:
        standing = self.current.get(subject, ())
        told = tuple(one for one in self.reported.get(subject, ()) if one in standing)
        # Who stays keeps its place: the same State is to be the same in its order, too.
        if told:
            self.reported[subject] = told
        else:
            self.reported.pop(subject, None)
        self.unreported.pop(subject, None)
        if self.unreported_of(subject):
            self.unreported[subject] = None
