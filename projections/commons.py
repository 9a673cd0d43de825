"""What concerns all queues together: sums over the whole cluster."""

from projections.pod_class import Amounts


class Commons:
    """Sums over the whole cluster. Only State changes them."""

    def __init__(self) -> None:
        self.totals: Amounts = {}
        """What all nodes could give when the last cycle opened: shares are parts of this."""
