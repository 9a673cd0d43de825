"""Sums over the whole cluster, for all queues together."""

from projections.pod_class import Amounts


class ClusterTotals:
    """Sums over the whole cluster. Only State changes them."""

    def __init__(self) -> None:
        self.totals: Amounts = {}
        """Allocatable resources of all nodes at the start of the last cycle: the denominator of shares."""
        self.reservation_timeouts: dict[str, int] = {}
        """Pod group key to the time at which it loses its reservation because too many nodes are closed to it;
        earliest first."""
