"""The objects that controllers created in a recorded past, for controllers that create them once more.

A controller of the simulated cluster that creates an object for a workload gives it name, UID and content of the
object that the workload's controller created in the record, as long as there is one: so objects of both runs can be
compared by name. The times of creation are those of the simulation.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from events.normalize import Json, JsonObject
from simulator.job_events import TASK_SPEC
from simulator.manifest import Manifest
from simulator.manifest_fields import name_of, section, text_at

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
NAMED_BY_WORKLOAD = ("StatefulSet", "Job.batch.volcano.sh")
"""Workloads whose pods have names that say which of the wanted pods they are."""


class RecordedChild(Struct):
    """An object as it was first recorded, and how others than muster changed it later."""

    resource: str
    manifest: Manifest
    at_ns: int
    """When it was first recorded."""
    changes: list[tuple[int, JsonObject]] = field(default_factory=list)
    """Merge patches, each with the time since `at_ns`."""


class RecordedChildren:
    """The recorded objects of each workload that were not created yet in the simulation."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, list[RecordedChild]]] = {}
        self._created: list[RecordedChild] = []
        self._revisions: dict[str, str] = {}

    def copy(self) -> "RecordedChildren":
        """Return a copy for one simulation."""
        twin = RecordedChildren()
        twin._of = {
            owner: {name: list(some) for name, some in names.items()}
            for owner, names in self._of.items()
        }
        twin._revisions = dict(self._revisions)
        return twin

    def add(self, owner: str, child: RecordedChild) -> None:
        """Add a recorded object of the workload with this UID."""
        names = self._of.setdefault(owner, {})
        names.setdefault(name_of(child.manifest), []).append(child)

    def add_revision(self, simulated: str, recorded: str) -> None:
        """Add the name that a controller gave to a revision of a template, which a simulated controller names otherwise."""
        self._revisions[simulated] = recorded

    def revision(self, simulated: str) -> str:
        """Return the recorded name of a revision; the simulated one if there is none."""
        return self._revisions.get(simulated, simulated)

    def pop_next(
        self, owner: str, owner_resource: str, resource: str, name: str, marks: Mapping[str, str]
    ) -> RecordedChild | None:
        """Remove and return the object to create next for a workload: the one of this name, else the first one with the
        same role and completion index. None if the record has none."""
        names = self._of.get(owner, {})
        child = next((one for one in names.get(name, ()) if one.resource == resource), None)
        if child is None and owner_resource not in NAMED_BY_WORKLOAD:
            child = next(
                (
                    one
                    for some in names.values()
                    for one in some
                    if one.resource == resource and _has_marks(one.manifest, marks)
                ),
                None,
            )
        if child is None:
            return None
        found = name_of(child.manifest)
        names[found].remove(child)
        if not names[found]:
            del names[found]
        self._created.append(child)
        return child

    def pop_created(self) -> list[RecordedChild]:
        """Return the objects that were created since the last call."""
        created, self._created = self._created, []
        return created


def _has_marks(manifest: Manifest, marks: Mapping[str, str]) -> bool:
    annotations: Mapping[str, Json] = section(manifest, "metadata", "annotations")
    return all(
        text_at(annotations, key) == marks.get(key, "") for key in (TASK_SPEC, COMPLETION_INDEX)
    )
