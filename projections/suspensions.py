"""Suspend actions for a pod group after an internal error.

If deciding about a group raises an exception, the group gets the refusal `InternalError` from that action and is
not evaluated by it again until the group changes, the policy changes, or a delay has passed. The delay doubles with
each consecutive error.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from events.duration import doubled

if TYPE_CHECKING:
    from projections.cluster import Cluster

RETRY_NS: Final = 300_000_000_000
"""Delay after the first error (5 minutes): rare enough to cost little, short enough for a transient cause."""

RETRY_MAX_NS: Final = 16 * RETRY_NS
"""Longest delay (80 minutes)."""

ACTION_RETRY_NS: Final = 30_000_000_000
"""Delay (30 s) until groups that an action did not reach because the action itself raised are evaluated again, and
before the same error is recorded again."""


class Suspension(Struct, frozen=True, array_like=True):
    """Consecutive errors of one action for one pod group."""

    until_ns: int
    """Time before which the action does not evaluate the group; 0 if it may."""
    count: int
    """Number of consecutive errors."""


class FailedAction(Struct, frozen=True, array_like=True):
    """An action that raised outside of the evaluation of a pod group."""

    until_ns: int
    message: str
    is_abandoned: bool
    """Whether pod groups may not have been evaluated."""


class InternalErrors:
    """All internal errors of a cluster."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Suspension]] = {}
        """Pod group key to action to its errors."""
        self.actions: dict[str, FailedAction] = {}

    def is_suspended(self, key: str, action: str) -> bool:
        """Return whether the action is suspended for the group."""
        if not self.groups:
            return False
        found = self.groups.get(key, {}).get(action)
        return found is not None and found.until_ns > 0

    def suspended(self, key: str) -> tuple[str, ...]:
        """Return the actions that are suspended for a group."""
        if not self.groups:
            return ()
        of_group = self.groups.get(key, {})
        return tuple([action for action, one in of_group.items() if one.until_ns])

    def suspend(self, key: str, action: str, now_ns: int) -> None:
        """Suspend an action for a group; the delay doubles with each consecutive error."""
        of_group = self.groups.setdefault(key, {})
        before = of_group.get(action)
        count = 1 if before is None else before.count + 1
        delay_ns = doubled(RETRY_NS, count, RETRY_MAX_NS)
        of_group[action] = Suspension(now_ns + delay_ns, count)

    def resume(self, key: str) -> bool:
        """Let all actions evaluate the group again. Return whether any was suspended."""
        of_group = self.groups.get(key)
        if of_group is None or not any(one.until_ns for one in of_group.values()):
            return False
        self.groups[key] = {action: Suspension(0, one.count) for action, one in of_group.items()}
        return True

    def clear(self, key: str, action: str | None = None) -> None:
        """Forget the errors of a group: of one action that reached an answer, or of all."""
        of_group = self.groups.get(key)
        if of_group is None:
            return
        if action is not None:
            of_group.pop(action, None)
        if action is None or not of_group:
            del self.groups[key]

    def ends(self) -> list[int]:
        """Return the times at which running delays end."""
        ends = [one.until_ns for kept in self.groups.values() for one in kept.values()]
        ends += [one.until_ns for one in self.actions.values() if one.is_abandoned]
        return [until_ns for until_ns in ends if until_ns]


def expire_timeouts(cluster: "Cluster", at_ns: int) -> None:
    """Apply the delays that are over."""
    errors = cluster.internal_errors
    over = [
        key
        for key, kept in errors.groups.items()
        if any(0 < one.until_ns <= at_ns for one in kept.values())
    ]
    for key in sorted(over):
        cluster.pod_groups.resume(cluster, key)
    for action in [one for one, failed in errors.actions.items() if failed.until_ns <= at_ns]:
        if errors.actions.pop(action).is_abandoned:
            cluster.wake_everything()
