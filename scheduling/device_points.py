"""What the devices of nodes add to their scores, from the answers of all device families, as columns over the nodes."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.device_family import FAMILIES, Cards, DeviceFit
from projections.nodes import Node
from projections.pod_class import PodClass


class CardLayouts:
    """One node of each card layout, so that a question about the cards of nodes is asked once for each layout."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._read = (-1, -1)
        self._nodes: list[Node] = []
        self._number_of: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def column(self, fit: DeviceFit, *, when_empty: bool) -> npt.NDArray[np.int64]:
        """Return the points of each node, slot by slot."""
        if fit.reads_devices:
            pods, nodes = self.cluster.pods, self.cluster.nodes.order
            taken = [() if when_empty else one.taken_devices(pods) for one in nodes]
            each = zip(nodes, taken, strict=True)
            return np.array([_points(fit, node, gone) for node, gone in each], dtype=np.int64)
        self._refresh()
        points = [_points(fit, one, ()) for one in self._nodes]
        return np.array(points, dtype=np.int64)[self._number_of]

    def _refresh(self) -> None:
        """Read the cards of each node, once for each change of the nodes."""
        table = self.cluster.nodes
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
    """What the devices of nodes add to the scores for pods of one class that may be charged certain cards.

    Each answer is -1 for a node on which the pod cannot get the devices that it needs.
    """

    def __init__(
        self, layouts: CardLayouts, pod_class: PodClass, cards: Cards, order_weight: int
    ) -> None:
        self._layouts = layouts
        found = [one.fit(pod_class, cards, order_weight) for one in FAMILIES.values()]
        self.fits = [one for one in found if one is not None]
        """Answers of the families to which the devices of nodes matter."""
        self._known: list[dict[str, int]] = [{} for _ in self.fits]
        """For each of them, card layout to points."""
        self.reads_devices = any(one.reads_devices for one in self.fits)
        """Whether an answer depends on which devices are taken."""

    def of_node(self, node: Node) -> int:
        """Return the points of the devices that are free now."""
        return self._sum(
            node, node.taken_devices(self._layouts.cluster.pods) if self.reads_devices else ()
        )

    def later(self, node: Node) -> int:
        """Return the points of the devices that are free once terminating pods are gone."""
        leaving = self.reads_devices
        return self._sum(
            node, node.taken_devices(self._layouts.cluster.pods, later=True) if leaving else ()
        )

    def when_empty(self, node: Node) -> int:
        """Return the points of all devices, free or not."""
        return self._sum(node, ())

    def _sum(self, node: Node, taken: Collection[str]) -> int:
        total = 0
        for fit, known in zip(self.fits, self._known, strict=True):
            points = None if fit.reads_devices else known.get(node.card_layout)
            if points is None:
                points = _points(fit, node, taken)
                if not fit.reads_devices:
                    known[node.card_layout] = points
            if points < 0:
                return -1
            total += points
        return total

    def of_all(self, *, when_empty: bool = False) -> npt.NDArray[np.int64] | None:
        """Return the points of all nodes, slot by slot; None if no family limits or scores them."""
        total: npt.NDArray[np.int64] | None = None
        for fit in self.fits:
            points = self._layouts.column(fit, when_empty=when_empty)
            if total is not None:
                points = np.where((total >= 0) & (points >= 0), total + points, -1)
            total = points
        return total

    def excluded(self, *, when_empty: bool) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """Return the reason of each family and the nodes that it excludes: because they do not have the devices, or
        because those are not free now."""
        fits = self.fits if when_empty else [one for one in self.fits if one.reads_devices]
        return [(one.reason, self._layouts.column(one, when_empty=when_empty) < 0) for one in fits]

    def obstacle(self, node: Node) -> str:
        """Return why the node does not serve the pod now; "" if it does."""
        assert node.facts is not None, f"{node.name} is absent"
        taken = node.taken_devices(self._layouts.cluster.pods) if self.reads_devices else ()
        for fit in self.fits:
            if _points(fit, node, taken) < 0:
                return fit.obstacle(node.facts, taken)
        return ""


def _points(fit: DeviceFit, node: Node, taken: Collection[str]) -> int:
    return -1 if node.facts is None else fit.points(node.facts, taken)
