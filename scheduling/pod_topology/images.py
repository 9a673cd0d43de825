"""Image locality: nodes that have a pod's images already (Kubernetes' ImageLocality).

An image counts by its size and by the fraction of nodes that have it; otherwise all pods would follow the first
one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeTable
from projections.pod_class import PodClass
from scheduling.node_columns import FULL

LEAST: Final = 23 << 20
"""Bytes of images that score 0 points."""

MOST: Final = 1000 << 20
"""Bytes of images, for each container, that score 100 points."""


class ImagePoints:
    """The points of each node for pods with these images, slot by slot, times a weight."""

    def __init__(self, table: NodeTable, images: tuple[str, ...], weight: int) -> None:
        self._table = table
        self._images = images
        self._weight = weight
        self._read = len(table.updated_slots)
        self._sizes: dict[int, dict[str, int]] = {}
        """Slots of nodes with any of the images, and the size of each image there."""
        for slot, node in enumerate(table.order):
            if node.facts is not None and node.facts.images:
                self._read_node(slot)
        self._points = self._all()

    def points(self) -> npt.NDArray[np.int64] | None:
        """Return the current points; None if no node has any of the images."""
        self._refresh()
        return self._points if self._sizes else None

    def _refresh(self) -> None:
        """Read the nodes whose object changed again."""
        slots = self._table.updated_slots[self._read :]
        if not slots:
            return
        before = [self._sizes.get(slot) for slot in slots]
        self._read = len(self._table.updated_slots)
        for slot in slots:
            self._read_node(slot)
        if before != [self._sizes.get(slot) for slot in slots]:
            self._points = self._all()

    def _read_node(self, slot: int) -> None:
        facts = self._table.order[slot].facts
        there = () if facts is None else facts.images
        sizes = {name: size for name, size in there if name in self._images}
        if sizes:
            self._sizes[slot] = sizes
        else:
            self._sizes.pop(slot, None)

    def _all(self) -> npt.NDArray[np.int64]:
        points = np.zeros(len(self._table.order), dtype=np.int64)
        nodes = max(1, len(points))
        spread = {
            image: sum(image in sizes for sizes in self._sizes.values()) for image in self._images
        }
        most = MOST * len(self._images)
        for slot, sizes in self._sizes.items():
            found = sum(sizes.get(image, 0) * spread[image] // nodes for image in self._images)
            counted = min(max(found, LEAST), most) - LEAST
            points[slot] = counted * FULL // (most - LEAST) * self._weight
        return points


def image_points(weight: int, pod_class: PodClass, table: NodeTable) -> ImagePoints | None:
    """Return the image points for pods of a class; None if images do not count."""
    if not weight or not pod_class.images:
        return None
    return ImagePoints(table, pod_class.images, weight)
