"""Placing a group of sub-groups: each of them whole, in a domain of its own where its policy asks for one.

Sub-groups and single pods have their turns in the order of their first pods. A sub-group gets as many pods
as make it whole, or none; what it has beyond that, and pods of no sub-group, are placed one by one. As soon
as the gang is whole the rest waits for its next turn.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.sub_groups import Closeness, PartKey, Parts
from scheduling.refuse import Reason
from scheduling.topology.candidates import Candidates, Wanted
from scheduling.topology.domains import Domain
from scheduling.topology.inside import inside
from scheduling.topology.network import Network, limit_of, slots_of
from scheduling.topology.where import Where, Within
from scheduling.trial import Trial

Unit: TypeAlias = tuple[PartKey | None, list[Pod]]
"""Pods that are placed together, and the sub-group that they are of."""


class Trying(Protocol):
    """An attempt at a group."""

    group: PodGroup
    trial: Trial
    where: Where
    reason: Reason | None

    @property
    def is_ready(self) -> bool:
        """Whether the gang is whole with the pods that have room now."""

    def try_pod(self, pod: Pod) -> bool:
        """Give one pod a node. Whether there was one."""


def place_parts(attempt: Trying, network: Network, parts: Parts) -> None:
    """Try all waiting pods of a group, sub-group by sub-group."""
    failed: dict[object, None] = {}
    for key, pods in _units(attempt.group, parts):
        shape = _shape(attempt, parts, key, pods)
        if shape in failed:
            continue
        if key is not None and (missing := _missing(parts, key)) > len(pods):
            attempt.reason = attempt.reason or _too_few(parts, key, missing, pods)
        elif not _is_placed(attempt, network, key, pods):
            failed[shape] = None
        elif attempt.is_ready:
            return
    attempt.reason = attempt.reason or _too_few_parts(parts)


def _units(group: PodGroup, parts: Parts) -> Iterator[Unit]:
    """What is placed together: first what makes a sub-group whole, then one pod at a time."""
    waiting: dict[PartKey, list[Pod]] = {}
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


def _missing(parts: Parts, key: PartKey) -> int:
    """How many pods a sub-group lacks to be whole."""
    return parts.rules[key[0]].size - parts.ready.get(key, 0)


def _shape(attempt: Trying, parts: Parts, key: PartKey | None, pods: list[Pod]) -> object:
    """Equal for pods for which there is no room if there was none for others before: room only gets less."""
    classes = tuple(sorted(pod.pod_class.index for pod in pods))
    has_others = key is not None and bool(parts.ready.get(key) or attempt.trial.parts.get(key))
    return (key if has_others or key is None else key[0], classes)


def _too_few(parts: Parts, key: PartKey, missing: int, pods: list[Pod]) -> Reason:
    rule = parts.rules[key[0]]
    have = rule.size - missing + len(pods)
    text = f"sub-group {name_of(parts, key)} has {have} of the {rule.size} pods it needs"
    return Reason("NotEnoughPodsOfSubGroup", rule.name, text, pods[0].key)


def _too_few_parts(parts: Parts) -> Reason:
    """All pods have a node, and yet the gang is not whole."""
    wanted = ", ".join(
        f"{rule.least} sub-groups of {rule.size} pods by policy {rule.name}"
        for rule in parts.rules
        if rule.least
    )
    return Reason("NotEnoughPodsOfSubGroup", "", f"there are not pods enough for {wanted}")


def name_of(parts: Parts | None, key: PartKey) -> str:
    """A sub-group as people call it: its policy, and the values of the labels it looks at."""
    assert parts is not None
    values = ", ".join(key[1])
    return f"{parts.rules[key[0]].name} ({values})" if values else parts.rules[key[0]].name


def _is_placed(attempt: Trying, network: Network, key: PartKey | None, pods: list[Pod]) -> bool:
    rule = None if key is None or attempt.group.parts is None else attempt.group.parts.rules[key[0]]
    if key is None or rule is None or rule.closeness is None:
        return _try_all(attempt, pods) is not None
    return _is_close(attempt, network, key, pods)


def _try_all(attempt: Trying, pods: list[Pod]) -> bool | None:
    """Give all these pods nodes, or none of them. Whether all have room now; None where not all have room."""
    trial = attempt.trial
    before, waits = trial.count, len(trial.later)
    for pod in pods:
        if not attempt.try_pod(pod):
            trial.take_back(before)
            return None
    return len(trial.later) == waits


def _is_close(attempt: Trying, network: Network, key: PartKey, pods: list[Pod]) -> bool:
    """Place pods of a sub-group in a domain as close as its policy asks, the closest first; rather now in one
    of a higher tier than later in a closer one."""
    outer, reason = attempt.where, attempt.reason
    candidates = _candidates(attempt, network, key, pods)
    later: Domain | None = None
    for domain, is_now in candidates.tried:
        if later is not None and not is_now:
            continue
        before = attempt.trial.count
        found = _try_in(attempt, inside(network, attempt.group, domain, candidates), pods)
        if found:
            return True
        if found is not None:
            attempt.trial.take_back(before)
            later = later or domain
        attempt.reason = reason
    if later is not None:
        place = inside(network, attempt.group, later, candidates)
        return _try_in(attempt, place, pods) is not None
    domain = candidates.nearest or network.domains.nowhere
    attempt.where = inside(network, attempt.group, domain, candidates)
    found_room = _count(attempt, pods)
    attempt.where = outer
    if attempt.reason is not None and reason is None:
        name = f"sub-group {name_of(attempt.group.parts, key)}"
        attempt.reason = candidates.told(attempt.reason, name, found_room)
    return False


def _try_in(attempt: Trying, place: Where, pods: list[Pod]) -> bool | None:
    outer, attempt.where = attempt.where, place
    found = _try_all(attempt, pods)
    attempt.where = outer
    return found


def _count(attempt: Trying, pods: list[Pod]) -> int:
    """How many of the pods have a node, one after the other; they are taken back."""
    before = attempt.trial.count
    for pod in pods:
        if not attempt.try_pod(pod):
            break
    found = attempt.trial.count - before
    attempt.trial.take_back(before)
    return found


def _candidates(attempt: Trying, network: Network, key: PartKey, pods: list[Pod]) -> Candidates:
    group, cluster = attempt.group, network.rankings.cluster
    assert group.parts is not None
    closeness: Closeness | None = group.parts.rules[key[0]].closeness
    assert closeness is not None
    own = [
        node.slot
        for pod, node in attempt.trial.placed
        if group.parts.key_of(pod.facts.labels) == key
    ]
    wanted = Wanted(
        pods=tuple(pods),
        needed=len(pods),
        slots=(*slots_of(cluster, group, key), *own),
        limit=limit_of(cluster, closeness),
        within=attempt.where.domain if isinstance(attempt.where, Within) else None,
    )
    return Candidates(network, group, wanted)
