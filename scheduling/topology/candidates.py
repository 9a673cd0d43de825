"""Candidate domains for pods of a group: how many pods each has room for, and the order in which they are tried.

A domain whose upper bound is less than the missing pods is not tried. Among domains of equal preference the best
comes first: the one with the larger share of the group's pods, then the one that the pods would fill best
(`DomainUtilization.binpack`), then the first by name.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from projections.device_family import Cards
from projections.pod_class import Amounts, PodClass
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.refusals import NODE_CODES
from scheduling.node_predicates import ADMITTED
from scheduling.topology.domains import Domain, Indices
from scheduling.topology.network import Network
from scheduling.topology.network_topology import network_topology
from scheduling.unschedulable import Unschedulable

Room = npt.NDArray[np.int64]


class PlacementRequest(Struct, frozen=True):
    """Pods that must be placed close to one another, and where such pods are placed already."""

    pods: tuple[Pod, ...]
    """The pending pods, in order."""
    needed: int
    """How many of them must get a node."""
    slots: dict[int, int]
    limit: int | None
    """The highest allowed tier; None if there is no limit."""
    within: Domain | None = None
    """A domain in which they must be in any case."""


class CandidateDomains:
    """The candidate domains for some pods, in the current State."""

    def __init__(self, network: Network, group: PodGroup, wanted: PlacementRequest) -> None:
        self._network = network
        self._cluster = network.rankings.cluster
        self._group = group
        self._domains = network.domains
        self.wanted = wanted
        slots = wanted.slots
        self.used = self._domains.holding(slots) if slots else None
        self._classes = {pod.pod_class.index: pod.pod_class for pod in wanted.pods}
        self._counts = Counter(pod.pod_class.index for pod in wanted.pods)

    @property
    def has_one_class(self) -> bool:
        """Return True if all pods have the same class."""
        return len(self._classes) <= 1

    @property
    def tried(self) -> Iterator[tuple[Domain, bool]]:
        """Yield the domains with room for all missing pods, preferred first, and whether the room is there now.

        If it is not, terminating pods must leave first.
        """
        now = self._placeable_now
        most = self._placeable_at_most
        for step in self.steps():
            chosen = step[most[step] >= self.wanted.needed]
            for index in self._ranked(chosen) if len(chosen) > 1 else chosen:
                yield self._domains.all[index], bool(now[index] >= self.wanted.needed)

    @property
    def nearest(self) -> Domain | None:
        """Return the domain with room for most of the pods, now or later; None if no domain is allowed."""
        allowed = list(self.steps())
        if not allowed:
            return None
        indices = np.concatenate(allowed)
        best = int(indices[self._placeable_at_most[indices].argmax()])
        return self._domains.all[best]

    @cached_property
    def _placeable_now(self) -> Room:
        return self.placeable(self._cluster.nodes.column)

    @cached_property
    def _placeable_at_most(self) -> Room:
        now = self._placeable_now
        if not self._cluster.nodes.leaving:
            return now
        return np.maximum(now, self.placeable(self._later))

    def steps(self) -> Iterator[Indices]:
        """Yield the allowed domains, by index, those of equal preference together."""
        wanted = self.wanted
        return self._domains.steps(wanted.limit, self.used, wanted.within)

    def explain(self, reason: Unschedulable, what: str, found: int) -> Unschedulable:
        """Add to a reason found in the nearest domain what that domain lacks; `what` names what the missing pods
        belong to."""
        if reason.code not in NODE_CODES:
            return reason
        limit, needed, domain = self.wanted.limit, self.wanted.needed, self.nearest
        kind = "HyperNode" if limit is None else f"HyperNode of tier {limit} or below"
        if domain is None:
            text = f"no {kind} has nodes"
            if self.used is not None:
                text = f"pods of {what} are on nodes that no {kind} contains together"
            return structs.replace(reason, message=f"{text}.")
        if domain.is_top or limit is None:
            return reason
        pods = "the pod" if needed == 1 else f"the {needed} pods"
        text = f"No {kind} has room for {pods} that {what} lacks: {domain.name} comes nearest,"
        return structs.replace(reason, message=f"{reason.message} {text} with room for {found}.")

    def most(self, room: Room) -> int:
        """Return how many pods a single domain could take, from how many each node could."""
        sums = self._domains.sums(room)
        return max((int(sums[step].max()) for step in self.steps()), default=0)

    def placeable(self, free: Callable[[str], Room | None]) -> Room:
        """Return an upper bound of how many of the pods each domain has room for."""
        total = np.zeros(len(self._domains.all), dtype=np.int64)
        for index, pod_class in self._classes.items():
            room = self._room(pod_class, free)
            total += np.minimum(self._domains.sums(room), self._counts[index])
        return total

    def _room(self, pod_class: PodClass, free: Callable[[str], Room | None]) -> Room:
        """Return how many pods of a class each node has room for, regardless of quota."""
        rankings, cards = self._network.rankings, self._cards(pod_class)
        job = rankings.job_of(self._group)
        rankings.of(pod_class, cards, job).scores()  # Refresh the verdicts on nodes.
        can = rankings.predicates(pod_class).verdicts == ADMITTED
        if (having_devices := rankings.having_devices(pod_class, cards, job)) is not None:
            can = can & having_devices
        room = np.full(len(can), len(self.wanted.pods), dtype=np.int64)
        for name, amount in pod_class.request:
            column = free(name)
            if column is None:
                return np.zeros(len(can), dtype=np.int64)
            np.minimum(room, np.maximum(column, 0) // amount, out=room)
        room *= can
        # Nominations of the group itself are room as well.
        for held in self._group.decided.nominations.values():
            node = self._cluster.nodes.nodes.get(held.node)
            if node is not None and node.facts is not None:
                room[node.slot] = len(self.wanted.pods)
        return room

    def _cards(self, pod_class: PodClass) -> Cards:
        return self._cluster.plugins.quota.named_cards(self._cluster, pod_class)

    def _later(self, name: str) -> Room | None:
        """Return what is free of a resource once terminating pods are gone, slot by slot."""
        table = self._cluster.nodes
        found = table.column(name)
        if found is None:
            return None
        found = found.copy()
        for one in table.leaving:
            node = table.nodes[one]
            if node.facts is not None:
                found[node.slot] = node.future(name)
        return found

    def _ranked(self, step: Indices) -> Indices:
        """Order domains of equal preference, the best first; they are given in the order of their names."""
        plugin = network_topology(self._cluster)
        if plugin is None or not plugin.orders_hyper_nodes:
            return step
        packed = self._network.utilization.binpack(self._asked, plugin.resources)
        if not self.wanted.slots:
            return step[np.argsort(-packed[step], kind="stable")]
        stand = np.zeros(len(self._domains.top.slots), dtype=np.int64)
        stand[list(self.wanted.slots)] = list(self.wanted.slots.values())
        there = self._domains.sums(stand)
        return step[np.lexsort((-packed[step], -there[step]))]

    @property
    def _asked(self) -> Amounts:
        """Return the sum of the requests of the missing pods."""
        total: Amounts = {}
        for pod in self.wanted.pods[: self.wanted.needed]:
            for name, amount in pod.pod_class.request:
                total[name] = total.get(name, 0) + amount
        return total
