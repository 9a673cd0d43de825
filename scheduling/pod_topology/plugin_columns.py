"""Filters and scores of plugins beside muster, as columns over all nodes.

A plugin answers for one node at a time. Its answers are kept, and asked again for nodes that changed: their
object, what is free on them, or the pods there.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from events.limits import clipped
from projections.cluster import Cluster
from projections.index import IndexT
from projections.nodes import Node, NodeFacts
from projections.plugin import Plugin
from projections.pod_class import PodClass
from projections.pods import Pod


class NodeView(Protocol):
    """A node as plugins beside muster see it."""

    name: str
    labels: Mapping[str, str]
    facts: NodeFacts
    """What muster reads of its object."""
    free: Mapping[str, int]
    """Resource to what is free of it: cpu in milli, memory in bytes, others in whole units."""

    @property
    def pods(self) -> Iterable[Pod]:
        """Yield the pods that are on the node or will be: those tried there by this decision, too, and without
        those that are about to leave if the question is about the time after."""

    @property
    def arriving(self) -> Iterable[Pod]:
        """Yield those of `pods` that State does not have on the node yet."""

    @property
    def leaving(self) -> Iterable[Pod]:
        """Yield the pods that State has on the node and that are left out of `pods`."""

    def index(self, kind: type[IndexT]) -> IndexT:
        """Return the index of this class that a plugin brings (`Plugin.indexes`): what State has, without `arriving`
        and with `leaving`."""


class NodeFilter(Plugin):
    """Hook for plugins beside muster: whether a node admits a pod, from its object and the pods on it.

    The answer is kept for each class of pods, and asked again when the node or the pods on it change. Pods are of one
    class if they request the same under the same constraints; labels of theirs that the plugin reads must be named in
    `pod_labels`, and are then in `pod.plugin_labels`.
    """

    FLAG = "enablePredicate"

    @abstractmethod
    def filter(self, pod: PodClass, node: NodeView) -> str:
        """Return why the node does not admit pods of the class; "" if it does. The text follows "2 node(s)": "had 3
        pods of team a"."""


class NodeScore(Plugin):
    """Hook for plugins beside muster: points of a node for a pod, from its object and the pods on it (as for
    `NodeFilter`)."""

    FLAG = "enableNodeOrder"

    @property
    def weight(self) -> int:
        """Return the factor of the points: the argument `weight`, if the plugin has one."""
        weight = getattr(self.config.arguments, "weight", 1)
        return weight if isinstance(weight, int) else 1

    @abstractmethod
    def score(self, pod: PodClass, node: NodeView) -> float:
        """Return the points of a node, from 0 to 100. Thousandths count."""


Mask = npt.NDArray[np.bool_]

ValueT = TypeVar("ValueT")

POINTS_MAX: Final = 100
"""Points of a node before the weight of the plugin."""

POINT: Final = 1_000
"""Thousandths of a point."""


class ViewedNode(NodeView):
    """A node as plugins see it."""

    def __init__(self, cluster: Cluster, node: Node, *, later: bool) -> None:
        assert node.facts is not None, f"{node.name} is absent"
        self.name, self.facts, self.labels = node.name, node.facts, node.facts.labels
        self.free = node.free
        self._cluster, self._node, self._later = cluster, node, later

    @property
    def pods(self) -> Iterator[Pod]:
        """Yield the pods that are on the node or will be."""
        for uid in self._node.pods:
            if not (self._later and self._is_leaving(uid)):
                yield self._cluster.pods[uid]
        yield from self.arriving

    @property
    def arriving(self) -> Iterator[Pod]:
        """Yield the pods that are tried on the node or nominated to it."""
        for uid in (*self._node.trial_pods, *self._node.nominated_pods):
            if (waiting := self._cluster.pods.get(uid)) is not None:
                yield waiting

    @property
    def leaving(self) -> Iterator[Pod]:
        """Yield the pods that are about to leave, if the question is about the time after."""
        for uid in self._node.pods if self._later else ():
            if self._is_leaving(uid):
                yield self._cluster.pods[uid]

    def index(self, kind: type[IndexT]) -> IndexT:
        """Return the index of this class that a plugin brings."""
        return self._cluster.indexes.of(kind)

    def _is_leaving(self, uid: str) -> bool:
        is_removed = uid in self._node.trial_victims
        return is_removed or self._cluster.pods[uid].is_leaving


class PluginColumns:
    """The answers of all such plugins for the pods of one class."""

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self._cluster = cluster
        self._pod_class = pod_class
        self._filters = cluster.plugins.of(NodeFilter)
        self._scores = cluster.plugins.of(NodeScore)
        self._reasons: dict[bool, _Column[str]] = {}
        self._points: dict[str, _Column[int]] = {}

    @property
    def has_filters(self) -> bool:
        """Return True if a plugin filters nodes."""
        return bool(self._filters)

    @property
    def has_scores(self) -> bool:
        """Return True if a plugin scores nodes."""
        return bool(self._scores)

    def excluded(self, *, later: bool) -> dict[str, Mask]:
        """Return reason to the nodes that it excludes; `later` means once terminating pods are gone."""
        if not self._filters:
            return {}
        column = self._reasons.get(later)
        if column is None:
            column = self._reasons[later] = _Column(self._cluster)
        for slot in column.outdated():
            column.values[slot] = self._reason(self._cluster.nodes.order[slot], later=later)
        found: dict[str, Mask] = {}
        for slot, reason in column.values.items():
            if reason:
                if reason not in found:
                    found[reason] = np.zeros(len(self._cluster.nodes.order), dtype=np.bool_)
                found[reason][slot] = True
        return dict(sorted(found.items()))

    def points(self) -> npt.NDArray[np.int64]:
        """Return the sum of the points of all plugins, slot by slot, in thousandths."""
        total = np.zeros(len(self._cluster.nodes.order), dtype=np.int64)
        for plugin in self._scores:
            column = self._points.get(plugin.name)
            if column is None:
                column = self._points[plugin.name] = _Column(self._cluster)
            for slot in column.outdated():
                node = self._cluster.nodes.order[slot]
                column.values[slot] = self.points_of(plugin, node)
            total += np.fromiter(
                (column.values[slot] for slot in range(len(total))),
                dtype=np.int64,
                count=len(total),
            )
        return total

    def points_by_plugin(self, node: Node) -> dict[str, int]:
        """Return name of the plugin to its points for a node."""
        return {one.name: self.points_of(one, node) for one in self._scores}

    def points_of(self, plugin: NodeScore, node: Node) -> int:
        """Return the points of one plugin for a node, in thousandths, within their bounds."""
        view = ViewedNode(self._cluster, node, later=False)
        points = plugin.score(self._pod_class, view)
        return round(max(0.0, min(points, POINTS_MAX)) * POINT) * plugin.weight

    def _reason(self, node: Node, *, later: bool) -> str:
        view = ViewedNode(self._cluster, node, later=later)
        for plugin in self._filters:
            if reason := plugin.filter(self._pod_class, view):
                return clipped(f"node(s) {reason}")
        return ""


class _Column(Generic[ValueT]):
    """A value for each node, and the position in the journal of the node table up to which they are valid."""

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.nodes
        self._layout = -1
        self._read = (0, 0)
        self.values: dict[int, ValueT] = {}
        """Slot to value."""

    def outdated(self) -> dict[int, None]:
        """Return the slots whose value must be asked again, and take note that they are."""
        table = self._table
        changed, updated = self._read
        self._read = (len(table.changed_slots), len(table.updated_slots))
        if self._layout != table.layout:
            self._layout, self.values = table.layout, {}
            return dict.fromkeys(range(len(table.order)))
        slots = dict.fromkeys(table.changed_slots[changed:])
        slots.update(dict.fromkeys(table.updated_slots[updated:]))
        return slots
