"""Placing a group of sub-groups: each of them whole, in a domain of its own where its policy asks for one.

Sub-groups and single pods have their turns in the order of their first pods. A sub-group gets as many pods
as make it whole, or none; what it has beyond that, and pods of no sub-group, are placed one by one. As soon
as the gang is whole the rest waits for its next turn.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.sub_groups import SubGroupKey, SubGroups
from scheduling.node_overlay import NodeOverlay
from scheduling.topology.candidates import CandidateDomains, PlacementRequest
from scheduling.topology.domain_scope import domain_scope
from scheduling.topology.domains import Domain
from scheduling.topology.network import Network, limit_of, slots_by_part
from scheduling.topology.placement_domain import DomainScope, NodeScope
from scheduling.unschedulable import Unschedulable

Unit: TypeAlias = tuple[SubGroupKey | None, list[Pod]]
"""Pods that are placed together, and the sub-group that they are of."""


class PlacementAttempt(Protocol):
    """An attempt at a group."""

    group: PodGroup
    overlay: NodeOverlay
    where: NodeScope
    reason: Unschedulable | None

    @property
    def is_ready(self) -> bool:
        """Whether the gang is whole with the pods that have room now."""

    def try_pod(self, pod: Pod) -> bool:
        """Give one pod a node. Whether there was one."""


def place_sub_groups(attempt: PlacementAttempt, network: Network, parts: SubGroups) -> None:
    """Try all waiting pods of a group, sub-group by sub-group."""
    placing = _Placing(attempt, network, parts)
    failed: dict[object, None] = {}
    for key, pods in _units(attempt.group, parts):
        shape = _shape(attempt, parts, key, pods)
        if shape in failed:
            continue
        missing = (
            0 if key is None else _missing(parts, key) - len(attempt.overlay.nodes_of.get(key, ()))
        )
        if key is not None and missing > len(pods):
            # Too few, or what is beyond a sub-group that found no room.
            attempt.reason = attempt.reason or _too_few(parts, key, missing, pods)
        elif not placing.place(key, pods):
            failed[shape] = None
        elif attempt.is_ready:
            return
    attempt.reason = attempt.reason or _too_few_parts(parts)


class _Placing:
    """Giving nodes to pods that are placed together."""

    def __init__(self, attempt: PlacementAttempt, network: Network, parts: SubGroups) -> None:
        self._attempt = attempt
        self._overlay = attempt.overlay
        self._network = network
        self._parts = parts
        cluster = network.rankings.cluster
        self._standing = slots_by_part(cluster, attempt.group)
        self._limits = [
            None
            if rule.topology_constraint is None
            else limit_of(cluster, rule.topology_constraint)
            for rule in parts.rules
        ]

    def place(self, key: SubGroupKey | None, pods: list[Pod]) -> bool:
        """Give all these pods nodes, or none of them. Whether it came about, now or later."""
        if key is None or self._parts.rules[key[0]].topology_constraint is None:
            return self._all_of(pods) is not None
        candidates = self._candidates(key, pods)
        attempt, reason = self._attempt, self._attempt.reason
        is_placed = self._place_close(candidates, pods)
        attempt.reason = None
        if is_placed:
            for node in self._overlay.nodes_of[key][-len(pods) :]:
                attempt.where.record(node)
        else:
            self._find_reason(key, candidates, pods)
        attempt.reason = reason or attempt.reason
        return is_placed

    def _place_close(self, candidates: CandidateDomains, pods: list[Pod]) -> bool:
        """Place pods in a domain, the closest first, but rather now in one of a higher tier than later in a
        closer one. Whether there was one with room for all."""
        later: Domain | None = None
        for domain, is_now in candidates.tried:
            if later is not None and not is_now:
                continue
            found = self._within(domain, candidates, pods)
            if found:
                return True
            if found is not None:
                self._overlay.undo_to(self._overlay.count - len(pods))
                later = later or domain
        return later is not None and self._within(later, candidates, pods) is not None

    def _within(self, domain: Domain, candidates: CandidateDomains, pods: list[Pod]) -> bool | None:
        """Place pods in a domain, as `_all_of` does."""
        outer = self._attempt.where
        self._attempt.where = self._inside(domain, candidates)
        found = self._all_of(pods)
        self._attempt.where = outer
        return found

    def _inside(self, domain: Domain, candidates: CandidateDomains) -> DomainScope:
        # Only those of the sub-group must be in the domain: for the gang holds what held before.
        attempt = self._attempt
        most = attempt.where.candidate_nodes.most
        return domain_scope(self._network, attempt.group, domain, candidates, most)

    def _all_of(self, pods: list[Pod]) -> bool | None:
        """Give all these pods nodes, or none. Whether all have room now; None where not all have room."""
        overlay = self._overlay
        before, waits = overlay.count, len(overlay.later)
        kept = self._attempt.where.checkpoint()
        for pod in pods:
            if not self._attempt.try_pod(pod):
                overlay.undo_to(before)
                self._attempt.where.rollback(kept)
                return None
        return len(overlay.later) == waits

    def _find_reason(self, key: SubGroupKey, candidates: CandidateDomains, pods: list[Pod]) -> None:
        """Find out why there is no room for a sub-group, in the domain where there is most."""
        attempt, outer = self._attempt, self._attempt.where
        domain = candidates.nearest or self._network.domains.nowhere
        attempt.where = self._inside(domain, candidates)
        before = self._overlay.count
        for pod in pods:
            if not attempt.try_pod(pod):
                break
        found = self._overlay.count - before
        self._overlay.undo_to(before)
        attempt.where = outer
        if attempt.reason is not None:
            name = f"sub-group {sub_group_name(self._parts, key)}"
            attempt.reason = candidates.explain(attempt.reason, name, found)

    def _candidates(self, key: SubGroupKey, pods: list[Pod]) -> CandidateDomains:
        where = self._attempt.where
        slots = Counter(self._standing.get(key, {}))
        slots.update(node.slot for node in self._overlay.nodes_of.get(key, ()))
        wanted = PlacementRequest(
            pods=tuple(pods),
            needed=len(pods),
            slots=slots,
            limit=self._limits[key[0]],
            within=where.domain if isinstance(where, DomainScope) else None,
        )
        return CandidateDomains(self._network, self._attempt.group, wanted)


def _units(group: PodGroup, parts: SubGroups) -> Iterator[Unit]:
    """What is placed together: first what makes a sub-group whole, then one pod at a time."""
    waiting: dict[SubGroupKey, list[Pod]] = {}
    singles: list[Unit] = []
    ordered: list[Unit] = []
    for pod in group.pending:
        if pod.pod_class.is_best_effort:
            continue
        key = parts.key_of(pod.facts.labels)
        if key is None:
            ordered.append((None, [pod]))
            continue
        unit = waiting.get(key)
        if unit is None or len(unit) >= _missing(parts, key):
            if unit is None and _missing(parts, key) > 0:
                unit = waiting[key] = []
                ordered.append((key, unit))
            else:
                singles.append((key, [pod]))
                continue
        unit.append(pod)
    yield from ordered
    yield from singles


def _missing(parts: SubGroups, key: SubGroupKey) -> int:
    """How many pods a sub-group lacks to be whole."""
    return parts.rules[key[0]].size - parts.ready.get(key, 0)


def _shape(
    attempt: PlacementAttempt, parts: SubGroups, key: SubGroupKey | None, pods: list[Pod]
) -> object:
    """Equal for pods for which there is no room if there was none for others before: room only gets less."""
    classes = tuple(sorted(pod.pod_class.index for pod in pods))
    has_others = key is not None and bool(parts.ready.get(key) or attempt.overlay.nodes_of.get(key))
    return (key if has_others or key is None else key[0], classes)


def _too_few(parts: SubGroups, key: SubGroupKey, missing: int, pods: list[Pod]) -> Unschedulable:
    rule = parts.rules[key[0]]
    have = rule.size - missing + len(pods)
    text = f"sub-group {sub_group_name(parts, key)} has {have} of the {rule.size} pods it needs"
    return Unschedulable("NotEnoughPodsOfSubGroup", rule.name, text, pods[0].key)


def _too_few_parts(parts: SubGroups) -> Unschedulable:
    """All pods have a node, and yet the gang is not whole."""
    wanted = ", ".join(
        f"{rule.least} sub-groups of {rule.size} pods by policy {rule.name}"
        for rule in parts.rules
        if rule.least
    )
    return Unschedulable("NotEnoughPodsOfSubGroup", "", f"there are not pods enough for {wanted}")


def sub_group_name(parts: SubGroups, key: SubGroupKey) -> str:
    """A sub-group as people call it: its policy, and the values of the labels it looks at."""
    values = ", ".join(key[1])
    return f"{parts.rules[key[0]].name} ({values})" if values else parts.rules[key[0]].name
