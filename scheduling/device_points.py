"""What the devices of nodes add to their scores, from the answers of all device families, as columns over the nodes."""

import numpy as np
import numpy.typing as npt

from projections.device_family import FAMILIES, Cards, DeviceFit
from projections.nodes import Node, NodeTable
from projections.pod_class import PodClass


class CardLayouts:
    """One node of each card layout, so that a question about the cards of nodes is asked once for each layout."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._read = (-1, -1)
        self._nodes: list[Node] = []
        self._number_of: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def column(self, fit: DeviceFit) -> npt.NDArray[np.int64]:
        """Return the points of each node, slot by slot."""
        self._refresh()
        points = [] if not self._nodes else [_points(fit, one) for one in self._nodes]
        return np.array(points, dtype=np.int64)[self._number_of]

    def _refresh(self) -> None:
        """Read the cards of each node, once for each change of the nodes."""
        table = self._table
        if self._read == (table.layout, len(table.updated_slots)):
            return
        self._read = (table.layout, len(table.updated_slots))
        numbers: dict[str, int] = {}
        for node in table.order:
            numbers.setdefault(node.card_layout, len(numbers))
        found = {node.card_layout: node for node in table.order}
        self._nodes = [found[layout] for layout in numbers]
        self._number_of = np.fromiter(
            (numbers[node.card_layout] for node in table.order), dtype=np.int64
        )


class DevicePoints:
    """What the devices of nodes add to the scores for pods of one class that may be charged certain cards."""

    def __init__(
        self, layouts: CardLayouts, pod_class: PodClass, cards: Cards, order_weight: int
    ) -> None:
        self._layouts = layouts
        found = [one.fit(pod_class, cards, order_weight) for one in FAMILIES.values()]
        self.fits = [one for one in found if one is not None]
        """Answers of the families to which the devices of nodes matter."""
        self._known: list[dict[str, int]] = [{} for _ in self.fits]
        """For each of them, card layout to points."""

    def of_node(self, node: Node) -> int:
        """Return the sum of the points of a node; -1 if it does not have the devices that the pod needs."""
        total = 0
        for fit, known in zip(self.fits, self._known, strict=True):
            points = known.get(node.card_layout)
            if points is None:
                points = known[node.card_layout] = _points(fit, node)
            if points < 0:
                return -1
            total += points
        return total

    def of_all(self) -> npt.NDArray[np.int64] | None:
        """Return the same for all nodes, slot by slot; None if no family limits or scores them."""
        total: npt.NDArray[np.int64] | None = None
        for fit in self.fits:
            points = self._layouts.column(fit)
            if total is not None:
                points = np.where((total >= 0) & (points >= 0), total + points, -1)
            total = points
        return total

    def missing(self) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """Return the reason of each family and the nodes that it excludes."""
        return [(fit.reason, self._layouts.column(fit) < 0) for fit in self.fits]

    def obstacle(self, node: Node) -> str:
        """Return why the node does not serve the pod; "" if it does."""
        assert node.facts is not None, f"{node.name} is absent"
        for fit in self.fits:
            if _points(fit, node) < 0:
                return fit.obstacle(node.facts)
        return ""


def _points(fit: DeviceFit, node: Node) -> int:
    return -1 if node.facts is None else fit.points(node.facts)
