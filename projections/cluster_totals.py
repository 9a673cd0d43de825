"""What concerns all queues together: sums over the whole cluster."""

from projections.pod_class import Amounts
from projections.pods import Charge


class ClusterTotals:
    """Sums over the whole cluster. Only State changes them."""

    def __init__(self) -> None:
        self.totals: Amounts = {}
        """What all nodes could give when the last cycle opened: shares are parts of this."""
        self.deserved: dict[str, Amounts] = {}
        """Queue to what it deserved when the last cycle opened, under `proportion`."""
        self.used: Amounts = {}
        """What pods occupy on all nodes that are there."""
        self.backlog: Amounts = {}
        """What admitted groups still need at least, under `overcommit`; by group in `backlogs`."""
        self.backlogs: dict[str, Charge] = {}
        self.overcommit_change: Amounts = {}
        """How the record being applied changes what is used and promised of the whole cluster."""
        self.deadlines: dict[str, int] = {}
        """Pod group key to the time when it has waited as long as it may, under `sla`."""
        self.overdue: dict[str, int] = {}
        """Pod group key to such a time that is over."""
        self.reservation_timeouts: dict[str, int] = {}
        """Pod group key to the time when too many nodes will have been closed to it for long, soonest first."""
        self.proportion_input: object = None
        """What `deserved` was found from."""
        self.requests: dict[str, Amounts] = {}
        """Queue to what its pods have and wait for, under `proportion`."""
        self.guaranteed: dict[str, Amounts] = {}
        """Queue to what is guaranteed to all right below it; under the empty name, to all others."""
        self.named_children: dict[str, dict[str, None]] = {}
        """Queue to the queues that say it is right above them."""
