"""Hooks of features for documents about State. They are asked whether or not the policy names their feature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from events.json_value import JsonObject

if TYPE_CHECKING:
    from projections.cluster import Cluster

NodeEntry: TypeAlias = Callable[[str], dict[str, object]]
"""Returns what a document says of a node."""


class ResultSection(ABC):
    """Hook: a section of the result document of `simulate`."""

    name: ClassVar[str]

    @abstractmethod
    def section(self, cluster: Cluster) -> JsonObject:
        """Return the section; empty if there is nothing to say."""


class TopologySection(ABC):
    """Hook: parts of the network, each with its nodes, in the document of `muster topology`."""

    name: ClassVar[str]

    @abstractmethod
    def places(self, cluster: Cluster) -> Mapping[str, object]:
        """Return the nodes that are in one of its parts."""

    @abstractmethod
    def parts(self, cluster: Cluster, entry: NodeEntry) -> list[dict[str, object]]:
        """Return its parts in their order; `entry` says what is on a node."""


class Gauge(ABC):
    """Hook: a metric that is counted from State when it is asked for, with one label."""

    metric: ClassVar[str]
    help: ClassVar[str]
    label: ClassVar[str]
    values: ClassVar[str]
    """What the values of the label are, for the page of metrics."""

    @abstractmethod
    def counts(self, cluster: Cluster) -> Mapping[str, int]:
        """Return the value by value of the label."""
