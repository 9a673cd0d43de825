"""The best node for a pod among all nodes, with scores that are updated incrementally.

For all classes of pods with the same node requirements (and each set of cards that their queues may use) the
score of every node is kept, -1 for an infeasible node. When a node changes, only that node is scored again. What
only some classes need is added each time: image locality and pod topology. The best node is the one with the
highest score, and among equals the first by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from projections.affinity_terms import SelectedAs, Selecting
from projections.cluster import Cluster
from projections.device_family import NO_JOB, Cards, DeviceRequest, JobShape
from projections.nodes import Node
from projections.plugin import PluginSet
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.policy.pools import DEFAULT_POOL
from scheduling.device_points import DeviceAnswers, DeviceOrder, DevicePoints
from scheduling.kept_columns import KeptColumns
from scheduling.node_columns import NodeColumns
from scheduling.node_predicates import ADMITTED, NodePredicates
from scheduling.pod_topology.filters import PodTopologyFilters
from scheduling.pod_topology.images import ImagePoints, image_points
from scheduling.pod_topology.index import PodTopologyIndex
from scheduling.pod_topology.plugin_columns import NodeFilter, NodeScore
from scheduling.preferred_nodes import Preferences
from scheduling.score_formulas import NodeOrder, NodeScorers, ScoreWeights, score_weights
from scheduling.volumes.volume_filter import VolumeMasks

Slots = npt.NDArray[np.bool_]
"""Whether something holds for each node, slot by slot."""

RANKINGS_MAX = 4096
"""Maximum number of rankings; beyond it all are dropped."""

SCORES_BYTES_MAX = 256 << 20
"""Maximum size of the rankings: per node eight bytes for the score and one for the verdict."""

COLUMNS_MAX = 64
"""Maximum number of sets of columns; beyond it all are dropped."""

FREED_SHARE = 8
"""Rankings of removed classes are dropped when up to one in this many may be such."""


class SharedScores:
    """The scores of all nodes, shared by all classes of pods with the same node requirements."""

    def __init__(self, rankings: NodeRankings, pod_class: PodClass, devices: DevicePoints) -> None:
        self._rankings = rankings
        self._table = rankings.cluster.nodes
        self._request = pod_class.request
        self._predicates = rankings.predicates(pod_class)
        self.scorer = NodeScorers(rankings.cluster.plugins, pod_class)
        self.preferences = Preferences(rankings.weights, pod_class)
        self.devices = devices
        found = [
            (one.name, rankings.device_answers.states[one.family], one.device_scorer(pod_class))
            for one in rankings.cluster.plugins.of(DeviceOrder)
        ]
        self._device_scorers = [
            (name, states, one) for name, states, one in found if one is not None
        ]
        self._scores = self._all()
        self._moved, self._remade = len(self._table.changed_slots), len(self._table.updated_slots)

    def scores(self) -> npt.NDArray[np.int64]:
        """Return the score of each node, slot by slot; -1 for an infeasible node. Do not modify the result."""
        table = self._table
        if self._moved == len(table.changed_slots) and self._remade == len(table.updated_slots):
            return self._scores
        self._predicates.refresh()
        slots = dict.fromkeys(table.changed_slots[self._moved :])
        slots.update(dict.fromkeys(table.updated_slots[self._remade :]))
        if len(slots) * 8 > len(table.order) + 64:
            self._scores = self._all()
        else:
            self._rankings.examined += len(slots)
            self._score(list(slots))
        self._moved, self._remade = len(table.changed_slots), len(table.updated_slots)
        return self._scores

    def admits(self, node: Node) -> bool:
        """Return True if the node admits such a pod, regardless of free resources."""
        return (
            bool(self._predicates.verdicts[node.slot] == ADMITTED)
            and self.devices.when_empty(node) >= 0
        )

    def _score(self, slots: list[int]) -> None:
        """Score the nodes in these slots again."""
        order, verdicts, scores = self._table.order, self._predicates.verdicts, self._scores
        fitting: list[int] = []
        for slot in slots:
            scores[slot] = -1
            if verdicts[slot] != ADMITTED:
                continue
            free = order[slot].free
            for name, amount in self._request:
                if amount > free.get(name, 0):
                    break
            else:
                fitting.append(slot)
        if not fitting:
            return
        of_node = self.scorer.of_node
        for slot, points in zip(fitting, self.devices.of_few(fitting), strict=True):
            facts = order[slot].facts
            assert facts is not None
            if points >= 0:
                scores[slot] = of_node(facts.allocatable, order[slot].free) + points
        if self._device_scorers:
            self._score_devices(scores, fitting)

    def _all(self) -> npt.NDArray[np.int64]:
        table = self._table
        self._rankings.examined += len(table.order)
        scores = np.full(len(table.order), -1, dtype=np.int64)
        columns = self._rankings.columns(self._predicates, self.devices)
        columns.refresh()
        fits = columns.with_room(self._request)
        if fits is None:
            return scores
        total = self.scorer.of_columns(columns)
        total += columns.points
        scores[columns.slots] = np.where(fits, total, -1)
        if self._device_scorers:
            self._score_devices(scores, columns.slots[fits].tolist())
        return scores

    def _score_devices(self, scores: npt.NDArray[np.int64], slots: Iterable[int]) -> None:
        """Add what plugins score by devices to the feasible nodes among these slots."""
        feasible = [slot for slot in slots if scores[slot] >= 0]
        for _, states, one in self._device_scorers:
            scores[feasible] += one.of_slots(self._table, states, feasible)

    def device_parts(self, node: Node) -> dict[str, int]:
        """Return what devices add to the score of a feasible node, by device family and by plugin."""
        parts = self.devices.parts_of(node)
        for name, states, one in self._device_scorers:
            (points,) = one.of_slots(self._table, states, [node.slot])
            parts[name] = parts.get(name, 0) + int(points)
        return parts


class NodeRanking:
    """The scores of all nodes for one class, one set of cards, and jobs of one shape."""

    def __init__(
        self, rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape
    ) -> None:
        self._rankings = rankings
        self._table = rankings.cluster.nodes
        self._request = pod_class.request
        self.devices = rankings.devices(pod_class, cards, job)
        self.shared_scores = rankings.shared_scores(pod_class, self.devices)
        self._pod_topology_filters = rankings.pod_topology(pod_class)
        self._images = rankings.images(pod_class)
        self._preferences = self.shared_scores.preferences
        self._known_later: Slots = np.zeros(0, dtype=np.bool_)
        self._later: Slots = np.zeros(0, dtype=np.bool_)
        """Nodes that will have room, right where that is known; without the filters by the topology of pods."""
        self._moved, self._remade = -1, -1
        self._read = (-1, -1)
        self._adds_nothing = False

    def best(self) -> Node | None:
        """Return the best node that has room now."""
        scores = self.scores()
        if not len(scores):
            return None
        slot = int(scores.argmax())
        return self._table.order[slot] if scores[slot] >= 0 else None

    def scores(self) -> npt.NDArray[np.int64]:
        """Return the score of each node, slot by slot; -1 for an infeasible node. Do not modify the result."""
        scores = self.shared_scores.scores()
        if self._is_shared() or not len(scores):
            return scores
        if self._images is not None and (points := self._images.points()) is not None:
            scores = np.where(scores >= 0, scores + points, -1)
        if self._pod_topology_filters is not None:
            scores = np.where(self._pod_topology_filters.admitted(), scores, -1)
        return self._with_preferences(scores)

    def _is_shared(self) -> bool:
        """Return whether nothing is added to the shared scores: that changes with the objects of nodes only."""
        table = self._table
        read = (table.layout, len(table.updated_slots))
        if self._read != read:
            self._read = read
            soft = self._preferences.is_relative and self._rankings.has_soft_taints()
            self._adds_nothing = (
                self._pod_topology_filters is None
                and (self._images is None or self._images.points() is None)
                and not self._preferences.adds_anything(soft_taints=soft)
            )
        return self._adds_nothing

    def _with_preferences(self, scores: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Add to the scores what is normalized over the feasible nodes."""
        if self._preferences.is_relative:
            soft = self._rankings.has_soft_taints()
            scores = self._preferences.add(scores, self._table, soft_taints=soft)
        return (
            scores if self._pod_topology_filters is None else self._pod_topology_filters.add(scores)
        )

    def best_later(self, admits: Callable[[Node], bool] | None = None) -> Node | None:
        """Return the best node, among those that `admits` accepts, that has room once terminating pods are gone."""
        found: tuple[int, str] | None = None
        chosen: Node | None = None
        leaving = np.zeros(len(self._table.order), dtype=np.bool_)
        for name in self._table.leaving:
            if self._table.nodes[name].facts is not None:
                leaving[self._table.nodes[name].slot] = True
        for slot in np.flatnonzero(self.with_room_later(leaving)).tolist():
            node = self._table.order[slot]
            assert node.facts is not None
            if admits is not None and not admits(node):
                continue
            free = {name: node.future(name) for name in node.free}
            score = self.shared_scores.scorer.of_node(node.facts.allocatable, free)
            self._rankings.examined += 1
            if found is None or (-score, node.name) < found:
                found, chosen = (-score, node.name), node
        return chosen

    def has_room(self, node: Node) -> bool:
        """Return True if the pod fits the node now."""
        return bool(self.scores()[node.slot] >= 0)

    def will_have_room(self, node: Node) -> bool:
        """Return True if the pod fits the node once terminating pods are gone."""
        return self._has_room_later(node) and (
            self._pod_topology_filters is None
            or bool(self._pod_topology_filters.admitted(later=True)[node.slot])
        )

    def _has_room_later(self, node: Node) -> bool:
        """Return `will_have_room` without the filters by the topology of pods."""
        return (
            node.facts is not None
            and self.shared_scores.admits(node)
            and node.fits_later(self._request)
            and self.devices.later(node) >= 0
        )

    def with_room_later(self, chosen: Slots) -> Slots:
        """Return which of the chosen nodes the pod fits once terminating pods are gone."""
        table = self._table
        moved, remade = len(table.changed_slots), len(table.updated_slots)
        if len(self._later) != len(table.order) or moved < self._moved or remade < self._remade:
            self._later = np.zeros(len(table.order), dtype=np.bool_)
            self._known_later = np.zeros(len(table.order), dtype=np.bool_)
        else:
            self._known_later[table.changed_slots[self._moved :]] = False
            self._known_later[table.updated_slots[self._remade :]] = False
        self._moved, self._remade = moved, remade
        for slot in np.flatnonzero(chosen & ~self._known_later).tolist():
            self._later[slot] = self._has_room_later(table.order[slot])
            self._known_later[slot] = True
        found = chosen & self._later
        if self._pod_topology_filters is not None and found.any():
            found &= self._pod_topology_filters.admitted(later=True)
        return found

    def scores_of(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the current scores of the chosen nodes, with or without room; -1 for all others."""
        points = self.devices.of_all(when_empty=True)
        if points is not None:
            chosen = chosen & (points >= 0)
        slots = np.flatnonzero(chosen)
        found = self.shared_scores.scorer.of_columns(NodeColumns(self._table, slots))
        if points is not None:
            found += points[slots]
        scores = np.full(len(chosen), -1, dtype=np.int64)
        scores[slots] = np.maximum(found, 0)
        return self._with_preferences(scores) if len(scores) else scores


class NodeRankings:
    """All rankings of one State. They only save time and can be recomputed from State."""

    def __init__(self, cluster: Cluster, pool: str = DEFAULT_POOL) -> None:
        self.cluster = cluster
        self.pool = pool
        """The pool whose nodes are used."""
        self.examined = 0
        """Number of times a node was scored for a class of pods."""
        self._layout = -1
        self._freed = 0
        """Number of removed classes when the rankings were last cleaned up."""
        self._policy: object = None
        self._is_closed_to_all = False
        """Whether any node is closed to the pods of all tenants, because its kubelet rejected pods."""
        self._rankings: dict[tuple[int, Cards, JobShape], NodeRanking] = {}
        self._shared_scores: dict[object, SharedScores] = {}
        self._columns: dict[object, KeptColumns] = {}
        """Predicates and answers about devices to the columns of these nodes."""
        self._images: dict[tuple[str, ...], ImagePoints | None] = {}
        self._predicates_by_key: dict[object, NodePredicates] = {}
        self._admission_of: dict[int, NodePredicates] = {}
        self.topology_index = PodTopologyIndex(cluster)
        self._volume_masks = VolumeMasks(cluster, self.topology_index.domain)
        self._pod_topology: dict[int, PodTopologyFilters] = {}
        self.device_answers = DeviceAnswers(cluster)
        self._devices: dict[tuple[int, Cards, JobShape], DevicePoints] = {}
        self._jobs: dict[tuple[object, ...], JobShape] = {}
        self.job_problems: dict[JobShape, tuple[str, str]] = {}
        """Code and message of why a device family refuses a job, or "" (`scheduling/device_request.py`)."""
        self._weighed: PluginSet | None = None
        self._weights = ScoreWeights()
        """The weights of these plugins."""
        self._soft_taints_read = (-1, -1)
        self._soft_taints = False

    def of(self, pod_class: PodClass, cards: Cards, job: JobShape) -> NodeRanking:
        """Return the ranking for pods of a class and a job that may be charged these cards."""
        self._keep_up()
        key = (pod_class.index, cards, job)
        found = self._rankings.get(key)
        if found is None:
            most = SCORES_BYTES_MAX // (9 * max(1, len(self.cluster.nodes.order)))
            if len(self._rankings) >= min(RANKINGS_MAX, max(1, most)):
                self._forget()
            found = self._rankings[key] = NodeRanking(self, pod_class, cards, job)
        return found

    def shared_scores(self, pod_class: PodClass, devices: DevicePoints) -> SharedScores:
        """Return the scores shared by all classes with the same node requirements."""
        asked = (pod_class.request, pod_class.selector, pod_class.tolerations)
        key = (*asked, pod_class.preferences, devices.key, pod_class.closed_tenant)
        found = self._shared_scores.get(key)
        if found is None:
            found = self._shared_scores[key] = SharedScores(self, pod_class, devices)
        return found

    def columns(self, predicates: NodePredicates, devices: DevicePoints) -> KeptColumns:
        """Return the columns shared by all classes with the same predicates and devices."""
        key = (predicates, devices.key)
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns = {}
            found = self._columns[key] = KeptColumns(self.cluster.nodes, predicates, devices)
        return found

    def images(self, pod_class: PodClass) -> ImagePoints | None:
        """Return the image-locality points of a class on each node; None if images do not count."""
        if pod_class.images not in self._images:
            points = image_points(self.weights.image_locality, pod_class, self.cluster.nodes)
            self._images[pod_class.images] = points
        return self._images[pod_class.images]

    def predicates(self, pod_class: PodClass) -> NodePredicates:
        """Return the verdicts on nodes, shared by all classes with equal selectors and tolerations; and, as far as nodes may be
        closed to them because of rejected pods, with equal requests and tenants."""
        self._keep_up()
        found = self._admission_of.get(pod_class.index)
        if found is None:
            key: object = (pod_class.selector, pod_class.tolerations)
            if pod_class.closed_tenant or self._is_closed_to_all:
                key = (key, pod_class.closed_tenant, pod_class.request)
            found = self._predicates_by_key.get(key)
            if found is None:
                found = NodePredicates(self.cluster, pod_class, self.pool)
                self._predicates_by_key[key] = found
            self._admission_of[pod_class.index] = found
        return found

    def pod_topology(self, pod_class: PodClass) -> PodTopologyFilters | None:
        """Return the pod-topology filters of a class; None if the class needs none."""
        plugins = self.cluster.plugins
        if (
            not pod_class.depends_on_other_pods
            and not pod_class.claims
            and not pod_class.terms.ports
            and not plugins.of(NodeFilter)
            and not plugins.of(NodeScore)
        ):
            return None
        self._keep_up()
        found = self._pod_topology.get(pod_class.index)
        if found is None:
            found = PodTopologyFilters(
                self.topology_index, self.cluster.plugins, pod_class, self._volume_masks
            )
            self._pod_topology[pod_class.index] = found
        return found if found.is_enabled else None

    def selecting(self, seen: SelectedAs) -> Selecting:
        """By which topology keys terms of other pods select such pods."""
        return self.topology_index.selecting(seen)

    @property
    def weights(self) -> ScoreWeights:
        """Return the weights of the scores that are normalized over the feasible nodes."""
        if self._weighed is not self.cluster.plugins:
            self._weighed = self.cluster.plugins
            self._weights = score_weights(self._weighed.of(NodeOrder))
        return self._weights

    def _keep_up(self) -> None:
        """Drop all caches when nodes were added or removed, when the policy changed, or when the first node was closed to all
        tenants or the last one opened."""
        table, is_closed = self.cluster.nodes, bool(self.cluster.quarantines.of_all_tenants)
        if (
            self._layout != table.layout
            or self._policy is not self.cluster.policy
            or self._is_closed_to_all != is_closed
        ):
            self._layout, self._policy = table.layout, self.cluster.policy
            self._is_closed_to_all = is_closed
            self._forget()

    def drop_stale(self) -> None:
        """Drop the rankings of removed classes once they may be a large part of all."""
        classes = self.cluster.inter_pod_affinity.classes
        freed = classes.freed_count - self._freed
        if not freed or freed * FREED_SHARE < max(len(self._rankings), len(self._admission_of)):
            return
        self._freed = classes.freed_count
        there = classes.by_index
        had_neighbours = bool(self._pod_topology)
        self._rankings = {key: one for key, one in self._rankings.items() if key[0] in there}
        self._admission_of = {key: one for key, one in self._admission_of.items() if key in there}
        self._pod_topology = {key: one for key, one in self._pod_topology.items() if key in there}
        self._columns = {}
        kept = {id(one): None for one in self._admission_of.values()}
        self._predicates_by_key = {
            key: one for key, one in self._predicates_by_key.items() if id(one) in kept
        }
        kept = {id(one.shared_scores): None for one in self._rankings.values()}
        self._shared_scores = {
            key: one for key, one in self._shared_scores.items() if id(one) in kept
        }
        images = {there[index].images: None for index, _, _ in self._rankings}
        self._images = {key: one for key, one in self._images.items() if key in images}
        self._devices = {key: one for key, one in self._devices.items() if key[0] in there}
        self._jobs, self.job_problems = {}, {}
        if had_neighbours:
            self.topology_index.clear()

    def devices(self, pod_class: PodClass, cards: Cards, job: JobShape) -> DevicePoints:
        """Return what the devices of nodes add to the scores for pods of a class and a job that may be charged these
        cards."""
        self._keep_up()
        key = (pod_class.index, cards, job)
        found = self._devices.get(key)
        if found is None:
            if len(self._devices) >= RANKINGS_MAX:
                self._devices, self._jobs, self.job_problems = {}, {}, {}
            request = self.device_request(pod_class, cards, job)
            found = self._devices[key] = self.device_answers.of(request)
        return found

    def device_request(self, pod_class: PodClass, cards: Cards, job: JobShape) -> DeviceRequest:
        """Return the question that device families are asked about such pods."""
        weight = self.weights.card_order
        return DeviceRequest(pod_class, job, cards, weight, self.cluster.plugins)

    def job_of(self, group: PodGroup) -> JobShape:
        """Return what the fit of the pods of a group depends on in the group."""
        devices = group.device_job
        if devices is None:
            return NO_JOB
        self._keep_up()
        key = (group.observed.min_available, devices)
        found = self._jobs.get(key)
        if found is None:
            options, terminating, tasks = devices
            classes = [(group.classes[index], count) for index, count in tasks]
            found = self._jobs[key] = JobShape(
                tasks=sum(count for _, count in tasks),
                devices=sum(
                    each * count for one, count in classes for _, each in one.asked_devices
                ),
                min_available=group.observed.min_available,
                classes=tuple([one for one, _ in classes]),
                options=options,
                terminating=terminating,
            )
        return found

    def having_devices(
        self, pod_class: PodClass, cards: Cards, job: JobShape
    ) -> npt.NDArray[np.bool_] | None:
        """Return the nodes that have the devices that such pods need, free or not; None if all do."""
        points = self.devices(pod_class, cards, job).of_all(when_empty=True)
        return None if points is None else points >= 0

    def has_soft_taints(self) -> bool:
        """Return True if any node has a PreferNoSchedule taint."""
        table = self.cluster.nodes
        if self._soft_taints_read != (table.layout, len(table.updated_slots)):
            self._soft_taints_read = (table.layout, len(table.updated_slots))
            self._soft_taints = any(
                taint.effect == "PreferNoSchedule"
                for node in table.order
                if node.facts is not None
                for taint in node.facts.taints
            )
        return self._soft_taints

    def _forget(self) -> None:
        self._rankings, self._predicates_by_key, self._admission_of = {}, {}, {}
        self._pod_topology, self._shared_scores, self._images = {}, {}, {}
        self._columns = {}
        self._devices, self._jobs, self.job_problems = {}, {}, {}
        self.device_answers.forget_fits()
