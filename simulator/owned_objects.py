"""The objects that a workload owns, counted as they change: a reconcile does not depend on their number."""

from collections import Counter
from enum import Enum

from simulator.job_events import JobEvent
from simulator.object_store import Key


class ChildState(Enum):
    """The state of an owned object."""

    ACTIVE = "active"
    """It exists and has not ended."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It is being deleted."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class OwnedObjects:
    """The objects of a workload, and what its controller remembers of it."""

    def __init__(self) -> None:
        self.all: dict[Key, ChildState] = {}
        self.active = 0
        """Pods that exist, have not ended and are not being deleted."""
        self.succeeded = 0
        """Pods that ever succeeded, deleted ones included."""
        self.failed = 0
        """Pods that ever failed, or were deleted by another client before they ended."""
        self.made = 0
        """Pods that were ever created: the number of the next one."""
        self.counts: Counter[ChildState] = Counter()
        """Existing pods by state."""
        self.roles: dict[str, Counter[ChildState]] = {}
        """Existing pods by role and state."""
        self.job_events: list[JobEvent] = []
        """Events that the controller has not handled yet, if it has rules for them."""
        self.pending: list[tuple[int, JobEvent, str]] = []
        """Delayed actions: due time, event and action."""
        self.started_ns: int | None = None
        """When the workload started, if it has a deadline."""
        self.finished_ns: int | None = None
        """When the workload finished."""
        self._role_of: dict[Key, str] = {}
        self._expected_deletions: dict[Key, None] = {}

    def update(self, key: Key, now: ChildState | None, role: str = "") -> None:
        """Count an owned object that was created, changed or deleted (None)."""
        before = self.all.get(key)
        if now is not None:
            self.all[key] = now
        elif before is not None:
            del self.all[key]
        if key[0] != "Pod":
            return
        self._count(key, before, now, role)
        was_active, is_active = _is_active(before), _is_active(now)
        self.active += is_active - was_active
        if before is None or was_active:
            if now is ChildState.SUCCEEDED:
                self.succeeded += 1
            elif not is_active and (
                now is ChildState.FAILED or key not in self._expected_deletions
            ):
                self.failed += 1
        if now is None:
            self._expected_deletions.pop(key, None)

    def pods(self) -> list[Key]:
        """The active pods, oldest first."""
        return [key for key, child in self.all.items() if key[0] == "Pod" and _is_active(child)]

    def of(self, resource: str) -> list[Key]:
        """The owned objects of another resource."""
        return [key for key in self.all if key[0] == resource]

    def of_role(self, role: str) -> list[Key]:
        """The pods of a role."""
        return [key for key in self.all if self._role_of.get(key) == role]

    def expect_deletion(self, key: Key) -> None:
        """Record that the controller itself is about to delete the pod: it does not count as failed."""
        self._expected_deletions[key] = None

    def is_deletion_expected(self, key: Key) -> bool:
        """Return True if the controller deleted the pod itself."""
        return key in self._expected_deletions

    def _count(
        self, key: Key, before: ChildState | None, now: ChildState | None, role: str
    ) -> None:
        role = self._role_of.setdefault(key, role)
        of_role = self.roles.setdefault(role, Counter())
        for child, change in ((before, -1), (now, 1)):
            if child is not None:
                self.counts[child] += change
                of_role[child] += change
        if now is None:
            del self._role_of[key]


def _is_active(child: ChildState | None) -> bool:
    return child in (ChildState.ACTIVE, ChildState.RUNNING)
