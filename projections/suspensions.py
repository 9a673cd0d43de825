"""Internal errors: how long an action leaves a pod group alone after deciding about it raised an exception.

Such a group gets the refusal `InternalError` from that action and stands in none of its lines until the group
changes, the policy changes, or a delay has passed that doubles with each error in a row.
"""

from typing import Final, Protocol

from msgspec import Struct

INTERNAL_ERROR: Final = "InternalError"
"""The code of such a refusal."""

RETRY_NS: Final = 300_000_000_000
"""Delay after the first error (5 minutes): long enough that an error costs next to nothing, short enough that a
transient cause does not hold a group up for long."""

RETRY_MAX_NS: Final = 16 * RETRY_NS
"""The longest delay (80 minutes)."""

ACTION_RETRY_NS: Final = 30_000_000_000
"""Delay before what an action did not get to is looked at again, when the action itself raised (30 s), and before
the same error of an action is recorded again."""


class Suspension(Struct, frozen=True, array_like=True):
    """Errors of one action about one pod group."""

    until_ns: int
    """The time before which the action does not look at the group; 0 where it may look again."""
    count: int
    """Errors in a row."""


class FailedAction(Struct, frozen=True, array_like=True):
    """An action that raised outside of the evaluation of a pod group."""

    until_ns: int
    message: str
    is_abandoned: bool
    """Whether pod groups may have been left out."""


class InternalErrors:
    """All of them, of one cluster."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Suspension]] = {}
        """Pod group key to action to its errors."""
        self.actions: dict[str, FailedAction] = {}

    def is_suspended(self, key: str, action: str) -> bool:
        """Whether the action leaves the group alone for now."""
        if not self.groups:
            return False
        found = self.groups.get(key, {}).get(action)
        return found is not None and found.until_ns > 0

    def suspended(self, key: str) -> tuple[str, ...]:
        """The actions that leave a group alone for now."""
        if not self.groups:
            return ()
        of_group = self.groups.get(key, {})
        return tuple([action for action, one in of_group.items() if one.until_ns])

    def suspend(self, key: str, action: str, now_ns: int) -> None:
        """Deciding about the group raised: leave it alone, for twice as long as the last time."""
        of_group = self.groups.setdefault(key, {})
        before = of_group.get(action)
        count = 1 if before is None else before.count + 1
        delay_ns = min(RETRY_MAX_NS, RETRY_NS << min(count - 1, 8))
        of_group[action] = Suspension(now_ns + delay_ns, count)

    def resume(self, key: str) -> bool:
        """Let all actions look at the group again, as it changed. Whether any did not."""
        of_group = self.groups.get(key)
        if of_group is None or not any(one.until_ns for one in of_group.values()):
            return False
        self.groups[key] = {action: Suspension(0, one.count) for action, one in of_group.items()}
        return True

    def clear(self, key: str, action: str | None = None) -> None:
        """Forget the errors of a group: of one action, as that one got to an answer, or of all."""
        of_group = self.groups.get(key)
        if of_group is None:
            return
        if action is not None:
            of_group.pop(action, None)
        if action is None or not of_group:
            del self.groups[key]

    def ends(self) -> list[int]:
        """When the delays that are running end."""
        ends = [one.until_ns for kept in self.groups.values() for one in kept.values()]
        ends += [one.until_ns for one in self.actions.values() if one.is_abandoned]
        return [until_ns for until_ns in ends if until_ns]


class SuspensionState(Protocol):
    """The part of the cluster that is changed when a delay has passed."""

    internal_errors: InternalErrors

    def resume_group(self, key: str) -> None:
        """Let all actions look at a group again."""

    def wake_everything(self) -> None:
        """Let the next cycle look at everything again."""


def expire_timeouts(cluster: SuspensionState, at_ns: int) -> None:
    """Take in the delays that are over by now."""
    errors = cluster.internal_errors
    over = [
        key
        for key, kept in errors.groups.items()
        if any(0 < one.until_ns <= at_ns for one in kept.values())
    ]
    for key in sorted(over):
        cluster.resume_group(key)
    for action in [one for one, failed in errors.actions.items() if failed.until_ns <= at_ns]:
        if errors.actions.pop(action).is_abandoned:
            cluster.wake_everything()
