"""Hooks of features for the views: rows of a view of its own, and columns of `topology_node`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from projections.cluster import Cluster
from projections.views.rows import Row


class ViewRows(ABC):
    """Hook: the rows of a view. Keys whose rows may have changed are in `ChangedRows.of_features`."""

    view: ClassVar[str]
    """Name of the view."""

    @abstractmethod
    def keys(self, cluster: Cluster) -> Iterable[str]:
        """Return all keys that have rows."""

    @abstractmethod
    def rows(self, cluster: Cluster, key: str) -> list[Row]:
        """Return the current rows of a key."""


class NodePlace(ABC):
    """Hook: where a node is in the network, in the columns of the view `topology_node`."""

    @abstractmethod
    def columns(self, cluster: Cluster, node: str) -> dict[str, str]:
        """Return column to value for those that it knows of a node; labels of the node give the others."""
