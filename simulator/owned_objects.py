"""The objects that a workload owns, counted, so that looking at one costs the same however many there are."""

from collections import Counter
from enum import Enum

from simulator.job_events import JobEvent
from simulator.object_store import Key


class ChildState(Enum):
    """How an owned object fares."""

    ACTIVE = "active"
    """There, and not over."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Deleted, and still there."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class OwnedObjects:
    """What a workload owns, and what its controller remembers of it."""

    def __init__(self) -> None:
        self.all: dict[Key, ChildState] = {}
        self.active = 0
        """Pods that are there, not over and not being deleted."""
        self.succeeded = 0
        """Pods that ever succeeded, deleted ones too."""
        self.failed = 0
        """Pods that ever failed, or were deleted by others before they were over."""
        self.made = 0
        """Pods that were ever made: the number of the next one."""
        self.counts: Counter[ChildState] = Counter()
        """Pods that are there, by how they fare."""
        self.roles: dict[str, Counter[ChildState]] = {}
        """The same by role."""
        self.job_events: list[JobEvent] = []
        """What happened and was not answered yet, where the controller has rules for that."""
        self.pending: list[tuple[int, JobEvent, str]] = []
        """Actions that are due later: when, upon what, and which."""
        self.started_ns: int | None = None
        """Since when the workload runs, where that has an end."""
        self.finished_ns: int | None = None
        """Since when the workload is over."""
        self._role_of: dict[Key, str] = {}
        self._expected_deletions: dict[Key, None] = {}

    def update(self, key: Key, now: ChildState | None, role: str = "") -> None:
        """An owned object came, changed, or is gone (None)."""
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
        """The owner itself is about to delete the pod: it does not count as lost."""
        self._expected_deletions[key] = None

    def is_deletion_expected(self, key: Key) -> bool:
        """Whether the owner deleted the pod itself."""
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
