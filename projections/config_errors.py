"""Keep the configuration errors of objects; each is recorded in the log once whenever it changes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster

REQUEST_DIFFERS: Final = "CardRequestDiffers"
"""Code if the pods of a group request other cards than the annotation of the group."""

UNUSED_OPTION: Final = "UnusedJobOption"
"""Code if an option of a job has no effect in the pool of the job."""
OPTION_CUT: Final = "JobOptionCut"
"""Code if an option of a job is beyond a bound of its queue or pool: the bound counts."""
QUEUE_CHANGED: Final = "QueueChangedWhileRunning"
"""Code if a PodGroup names another queue than the one that its running pods are charged to."""


def queue_changed(named: str, charged: str) -> str:
    """Return the text of that error."""
    return (
        f"spec.queue names {named}, and pods of the group are charged to {charged}: the group stays there until none "
        "of them is"
    )


Pairs = tuple[tuple[str, str], ...]
"""Code and message of each error."""


class ConfigErrors(Index):
    """The current errors by subject (`Kind/namespace/name`), and those that are in the log."""

    name = "configuration errors"
    COMPARED: ClassVar[tuple[str, ...]] = ("unreported",)

    def __init__(self) -> None:
        self.current: dict[str, Pairs] = {}
        self.reported: dict[str, Pairs] = {}
        self.unreported: dict[str, None] = {}
        """Subjects with errors that are not in the log yet."""

    def rebuilt(self, _cluster: "Cluster", /) -> "ConfigErrors":
        """Find again which errors are not in the log yet."""
        twin = ConfigErrors()
        twin.current, twin.reported = self.current, self.reported
        twin.unreported = {one: None for one in self.current if self.unreported_of(one)}
        return twin

    def put(self, subject: str, faults: Pairs, *, keeps: Iterable[str] = ()) -> None:
        """Replace the errors of a subject, except those with a code in `keeps`."""
        kept = tuple(one for one in self.current.get(subject, ()) if one[0] in keeps)
        faults = (*faults, *kept)
        if not faults and subject not in self.current:
            return
        self.current[subject] = faults
        if not faults:
            del self.current[subject]
        self._update(subject)

    def add(self, subject: str, fault: tuple[str, str]) -> None:
        """Add an error; it replaces one with the same code."""
        others = tuple(one for one in self.current.get(subject, ()) if one[0] != fault[0])
        self.put(subject, (*others, fault))

    def replace(self, subject: str, code: str, faults: Pairs) -> None:
        """Replace the errors of a subject that have this code."""
        known = self.current.get(subject, ())
        changed = (*(one for one in known if one[0] != code), *faults)
        if changed != known:
            self.put(subject, changed)

    def mark_reported(self, subject: str, fault: tuple[str, str]) -> None:
        """Record that an error is in the log."""
        self.reported[subject] = (*self.reported.get(subject, ()), fault)
        self._update(subject)

    def unreported_of(self, subject: str) -> Pairs:
        """Return the errors of a subject that are not in the log yet."""
        reported_errors = self.reported.get(subject, ())
        return tuple(one for one in self.current.get(subject, ()) if one not in reported_errors)

    def _update(self, subject: str) -> None:
        current_errors = self.current.get(subject, ())
        reported_errors = tuple(
            one for one in self.reported.get(subject, ()) if one in current_errors
        )
        # A subject keeps its place, so that equal States also have the same order.
        if reported_errors:
            self.reported[subject] = reported_errors
        else:
            self.reported.pop(subject, None)
        self.unreported.pop(subject, None)
        if self.unreported_of(subject):
            self.unreported[subject] = None
