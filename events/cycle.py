"""The only way in for time."""

from msgspec import field

from events.record import Fact


class CycleOpened(Fact, frozen=True, kw_only=True):
    """A cycle of decisions begins; every decision of it sees this moment as now."""

    kind = "cycle_opened.v2"

    at_ns: int
    """Whole nanoseconds since the Unix epoch, never less than in the cycle before."""
    policy: int
    """Position of the `policy_changed` record in force; 0 for none."""
    decider: int
    """Version of the deciding code; raised by every change that can alter a decision. 0: not recorded."""
    plugins: dict[str, str] = field(default_factory=dict)
    """Name to version of the plugins of the policy that are not part of muster."""
