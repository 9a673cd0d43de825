"""Observations since State last settled: the newest of each object.

An observation takes the place of an older one of the same object, so an object that changed several times in a batch is
one change. What is decided reads none of them: State settles before.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from events.record import Record
from projections.pod_reading import PodRead


class ObservedObject(Struct, frozen=True, gc=False):
    """An object as it was last observed, or (`content` is None) its deletion."""

    record: Record
    """The record that says so: what follows from the observation has its position."""
    uid: str
    content: bytes | None
    pod: PodRead = None
    """What was read of a pod."""

    @property
    def known(self) -> tuple[str, str] | None:
        """Return UID and digest of the object; None if it is deleted."""
        return None if self.content is None else (self.uid, self.record.object or "")


POD: Final = "Pod"


class Unsettled:
    """The newest observations: of pods by UID, of other objects by kind and subject. Both in the order in which the
    objects were first observed."""

    def __init__(self) -> None:
        self.pods: dict[str, ObservedObject] = {}
        self.objects: dict[str, dict[str, ObservedObject]] = {}
        self.batch = 0
        """Batch of the observations; 0 without any."""

    def copy(self) -> "Unsettled":
        """Return a copy. The observations are shared."""
        twin = Unsettled()
        twin.batch, twin.pods = self.batch, self.pods.copy()
        twin.objects = {kind: found.copy() for kind, found in self.objects.items()}
        return twin

    def of(self, kind: str, subject: str, uid: str) -> ObservedObject | None:
        """Return the newest observation of an object; None without one."""
        if kind == POD:
            return self.pods.get(uid)
        found = self.objects.get(kind)
        return None if found is None else found.get(subject)

    def of_kind(self, kind: str) -> Iterator[tuple[str, ObservedObject]]:
        """Yield subject and newest observation of the objects of a kind."""
        if kind == POD:
            for one in self.pods.values():
                yield one.record.subject, one
        else:
            yield from self.objects.get(kind, {}).items()

    def record_at(self, position: int) -> Record:
        """Return the record of the observation at a position; the last one if none is there."""
        records = [one.record for one in self.pods.values()]
        records += [one.record for found in self.objects.values() for one in found.values()]
        at = {one.position: one for one in records}
        return at.get(position) or at[max(at)]
