"""What concerns all queues together: sums over the whole cluster."""

from projections.pod_class import Amounts


class Commons:
    """Sums over the whole cluster. Only State changes them."""

    def __init__(self) -> None:
        self.totals: Amounts = {}
        """What all nodes could give when the last cycle opened: shares are parts of this."""
        self.deserved: dict[str, Amounts] = {}
        """Queue to what it deserved when the last cycle opened, under `proportion`."""
        self.shared_out: object = None
        """What `deserved` was found from."""
        self.requests: dict[str, Amounts] = {}
        """Queue to what its pods have and wait for, under `proportion`."""
        self.guaranteed: dict[str, Amounts] = {}
        """Queue to what is guaranteed to all right below it; under the empty name, to all others."""
