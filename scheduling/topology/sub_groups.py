"""Placement of a group with sub-groups: each as a whole, in a domain of its own if its policy has a topology
constraint.

Sub-groups and single pods are placed in the order of their first pods. A sub-group gets as many pods as its
minimum, or none; its further pods, and pods of no sub-group, are placed one by one. As soon as the gang is
complete the remaining pods wait for the next turn.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.sub_groups import SubGroupKey, SubGroups
from scheduling.group_trial import GroupTrial
from scheduling.topology.candidates import CandidateDomains, PlacementRequest
from scheduling.topology.domain_scope import domain_scope
from scheduling.topology.domains import Domain
from scheduling.topology.network import Network
from scheduling.topology.node_scope import DomainScope, NodeScope
from scheduling.unschedulable import Unschedulable

Unit: TypeAlias = tuple[SubGroupKey | None, list[Pod]]
"""Pods that are placed together, and their sub-group."""


class PlacementAttempt(Protocol):
    """A placement attempt for a group."""

    group: PodGroup
    trial: GroupTrial
    where: NodeScope
    reason: Unschedulable | None

    @property
    def is_ready(self) -> bool:
        """Return True if the gang is complete with the pods that have room now."""

    def try_pod(self, pod: Pod) -> bool:
        """Place one pod. Return True if a node was found."""


def place_sub_groups(attempt: PlacementAttempt, network: Network, parts: SubGroups) -> None:
    """Try all pending pods of a group, sub-group by sub-group."""
    placing = _Placing(attempt, network, parts)
    failed: dict[object, None] = {}
    for key, pods in _units(attempt.group, parts):
        shape = _shape(attempt, parts, key, pods)
        if shape in failed:
            continue
        missing = (
            0 if key is None else _missing(parts, key) - len(attempt.trial.nodes_of.get(key, ()))
        )
        if key is not None and missing > len(pods):
            # Too few pods, or pods beyond the minimum of a sub-group that found no room.
            attempt.reason = attempt.reason or _too_few(parts, key, missing, pods)
        elif not placing.place(key, pods):
            failed[shape] = None
        elif attempt.is_ready:
            return
    attempt.reason = attempt.reason or _too_few_parts(parts)


class _Placing:
    """Placement of pods that must be placed together."""

    def __init__(self, attempt: PlacementAttempt, network: Network, parts: SubGroups) -> None:
        self._attempt = attempt
        self._trial = attempt.trial
        self._network = network
        self._parts = parts
        self._standing = network.slots_by_part(attempt.group)
        self._limits = [
            None if rule.topology_constraint is None else network.limit_of(rule.topology_constraint)
            for rule in parts.rules
        ]

    def place(self, key: SubGroupKey | None, pods: list[Pod]) -> bool:
        """Place all these pods, or none. Return True if they were placed, now or later."""
        if key is None or self._parts.rules[key[0]].topology_constraint is None:
            return self._all_of(pods) is not None
        candidates = self._candidates(key, pods)
        attempt, reason = self._attempt, self._attempt.reason
        is_placed = self._place_close(candidates, pods)
        attempt.reason = None
        if is_placed:
            for node in self._trial.nodes_of[key][-len(pods) :]:
                attempt.where.record(node, self._trial)
        else:
            self._find_reason(key, candidates, pods)
        attempt.reason = reason or attempt.reason
        return is_placed

    def _place_close(self, candidates: CandidateDomains, pods: list[Pod]) -> bool:
        """Place pods in a domain, the closest first; a domain of a higher tier with room now is preferred to a
        closer one with room later. Return True if they were placed."""
        later: Domain | None = None
        for domain, is_now in candidates.tried:
            if later is not None and not is_now:
                continue
            before = self._trial.mark()
            found = self._within(domain, candidates, pods)
            if found:
                return True
            if found is not None:
                self._trial.restore(before)
                later = later or domain
        return later is not None and self._within(later, candidates, pods) is not None

    def _within(self, domain: Domain, candidates: CandidateDomains, pods: list[Pod]) -> bool | None:
        """Place pods in a domain; return what `_all_of` returns."""
        outer = self._attempt.where
        self._attempt.where = self._inside(domain, candidates)
        found = self._all_of(pods)
        self._attempt.where = outer
        return found

    def _inside(self, domain: Domain, candidates: CandidateDomains) -> DomainScope:
        # Only the pods of the sub-group must be in the domain: the capacity for the gang is unchanged.
        attempt = self._attempt
        most = attempt.where.candidate_nodes.most
        return domain_scope(self._network, attempt.group, domain, candidates, most)

    def _all_of(self, pods: list[Pod]) -> bool | None:
        """Place all these pods, or none. Return True if all have room now, False if some have room later, None if
        not placed."""
        trial = self._trial
        before, waits = trial.mark(), len(trial.later)
        for pod in pods:
            if not self._attempt.try_pod(pod):
                trial.restore(before)
                return None
        return len(trial.later) == waits

    def _find_reason(self, key: SubGroupKey, candidates: CandidateDomains, pods: list[Pod]) -> None:
        """Find out why there is no room for a sub-group, in the domain with most room."""
        attempt, outer = self._attempt, self._attempt.where
        domain = candidates.nearest or self._network.domains.nowhere
        attempt.where = self._inside(domain, candidates)
        before = self._trial.mark()
        for pod in pods:
            if not attempt.try_pod(pod):
                break
        found = self._trial.count - before.placed
        self._trial.restore(before)
        attempt.where = outer
        if attempt.reason is not None:
            name = f"sub-group {sub_group_name(self._parts, key)}"
            attempt.reason = candidates.explain(attempt.reason, name, found)

    def _candidates(self, key: SubGroupKey, pods: list[Pod]) -> CandidateDomains:
        where = self._attempt.where
        slots = Counter(self._standing.get(key, {}))
        slots.update(node.slot for node in self._trial.nodes_of.get(key, ()))
        wanted = PlacementRequest(
            pods=tuple(pods),
            needed=len(pods),
            slots=slots,
            limit=self._limits[key[0]],
            within=where.domain if isinstance(where, DomainScope) else None,
        )
        return CandidateDomains(self._network, self._attempt.group, wanted)


def _units(group: PodGroup, parts: SubGroups) -> Iterator[Unit]:
    """Yield the pods that are placed together: first the minimum of each sub-group, then single pods."""
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
    """Return how many pods a sub-group lacks to reach its minimum."""
    return parts.rules[key[0]].size - parts.ready.get(key, 0)


def _shape(
    attempt: PlacementAttempt, parts: SubGroups, key: SubGroupKey | None, pods: list[Pod]
) -> object:
    """Return a key that is equal for pods that cannot be placed if others with it could not: room only decreases."""
    classes = tuple(sorted(pod.pod_class.index for pod in pods))
    has_others = key is not None and bool(parts.ready.get(key) or attempt.trial.nodes_of.get(key))
    return (key if has_others or key is None else key[0], classes)


def _too_few(parts: SubGroups, key: SubGroupKey, missing: int, pods: list[Pod]) -> Unschedulable:
    rule = parts.rules[key[0]]
    have = rule.size - missing + len(pods)
    text = f"sub-group {sub_group_name(parts, key)} has {have} of the {rule.size} pods it needs"
    return Unschedulable("NotEnoughPodsOfSubGroup", rule.name, text, pods[0].key)


def _too_few_parts(parts: SubGroups) -> Unschedulable:
    """Return a refusal for a group whose pods all have nodes but whose gang is not complete."""
    wanted = ", ".join(
        f"{rule.least} sub-groups of {rule.size} pods by policy {rule.name}"
        for rule in parts.rules
        if rule.least
    )
    return Unschedulable("NotEnoughPodsOfSubGroup", "", f"not enough pods for {wanted}")


def sub_group_name(parts: SubGroups, key: SubGroupKey) -> str:
    """Return the name of a sub-group in messages: its policy and the values of its labels."""
    values = ", ".join(key[1])
    return f"{parts.rules[key[0]].name} ({values})" if values else parts.rules[key[0]].name
