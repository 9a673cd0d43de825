"""The work that a cycle left for the next."""

from msgspec import Struct

from events.decision import Decision


class DeferredAction(Struct, frozen=True, kw_only=True):
    """An action that a cycle cut short."""

    action: str
    queue: str
    pod_group: str
    """The pod group that would have been next; `queue` is its queue."""
    lines: int
    """How many equivalence groups of pod groups were not examined."""
    looked: tuple[str, ...]
    """The first pod group of each equivalence group that was examined."""


class WorkDeferred(Decision, frozen=True, kw_only=True):
    """A cycle used up its work budget and ended early: the next one, which is due at once, begins with the rest.

    The last record of such a cycle.
    """

    kind = "work_deferred.v1"
    word = "defer"

    work: int
    """Units of work that the cycle took."""
    budget: int
    """The work budget in units."""
    actions: tuple[DeferredAction, ...]

    @property
    def subject(self) -> str:
        """Return the cycle."""
        return "Cycle//"

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the actions are under the first one."""
        cut = [
            f"{one.action} stopped before {one.pod_group} in {one.queue}, lines left: {one.lines}"
            for one in self.actions
        ]
        return [f"cycle cut short after {self.work} units of work", *cut]
