"""What stands of tables that plugins of the policy bring."""

from events.standing.standing import Amounts, Standing


class DeservedStands(Standing, frozen=True, kw_only=True):
    """What a queue deserves since the last cycle, where that is computed for all queues together."""

    kind = "deserved_stands.v1"

    queue: str
    deserved: Amounts


class WaitingOverStands(Standing, frozen=True, kw_only=True):
    """A pod group whose waiting time is over, and when that ended."""

    kind = "waiting_over_stands.v1"

    pod_group: str
    until_ns: int
