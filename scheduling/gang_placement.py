"""Trying to place a group: in the domains that its network topology allows, the closest first.

The rules are Volcano's for hard topology: from the smallest tier up, every domain is tried whole, and the
first tier with a success wins; of its successes the best. A soft topology is a hard one that allows the
whole cluster. What differs: room that is there now in a domain of a higher tier is taken before room that
is still being freed in a closer one; and where pods of the group stand already, the domains come first that
keep the whole group closest.
"""

from collections.abc import Iterator

from projections.blocked import topology_reason
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.refusals import QUEUE_CODES
from projections.sub_groups import Closeness, PartKey
from scheduling.gang_attempt import Attempt
from scheduling.session import Session
from scheduling.topology.candidates import Candidates, Wanted
from scheduling.topology.domain_scope import inside
from scheduling.topology.network import limit_of, slots_by_part, slots_of
from scheduling.topology.placement_domain import Where
from scheduling.unschedulable import Unschedulable


def unplaceable(session: Session, group: PodGroup) -> Unschedulable | None:
    """Why the group's wish for closeness cannot be looked at as things are, or None."""
    reason = topology_reason(session.cluster.nodes.hyper, group)
    return None if reason is None else Unschedulable(reason[0], "HyperNode", reason[1])


def place(session: Session, group: PodGroup) -> Attempt:
    """The attempt at a group that came furthest: a success, or the one in the domain that came nearest."""
    closeness = group.closeness
    if closeness is None:
        return Attempt(session, group, session.network.anywhere)
    candidates = Candidates(session.network, group, _wanted(session, group, closeness))
    promised: Attempt | None = None
    for domain, is_now in candidates.tried:
        if promised is not None and not is_now:
            continue
        attempt = Attempt(session, group, inside(session.network, group, domain, candidates))
        if attempt.is_ready:
            return attempt
        if promised is None and attempt.is_pipelined:
            promised = attempt
        if promised is None and candidates.has_one_class and _is_denied(attempt):
            return attempt  # The queue says so, wherever they go.
    return promised or _nearest(session, group, candidates)


def free_pods(group: PodGroup) -> list[tuple[PartKey | None, list[Pod]]]:
    """Waiting pods that ask for nothing but a place, those together that must be close to one another."""
    found: dict[PartKey | None, list[Pod]] = {}
    for pod in group.pending:
        if not pod.pod_class.is_best_effort:
            continue
        key = None if group.parts is None else group.parts.key_of(pod.facts.labels)
        is_close = key is not None and _closeness(group, key) is not group.closeness
        found.setdefault(key if is_close else None, []).append(pod)
    return list(found.items())


def places(
    session: Session, group: PodGroup, pods: list[Pod], part: PartKey | None
) -> Iterator[Where]:
    """Where such pods may go together, the place tried first first; the last one is where most of them may."""
    closeness = _closeness(group, part)
    if closeness is None:
        yield session.network.anywhere
        return
    cluster = session.cluster
    by_part = slots_by_part(cluster, group)
    wanted = Wanted(
        pods=tuple(pods),
        needed=len(pods),
        slots=slots_of(cluster, group) if part is None else by_part.get(part, {}),
        limit=limit_of(cluster, closeness),
    )
    candidates = Candidates(session.network, group, wanted)
    for domain, _ in candidates.tried:
        yield inside(session.network, group, domain, candidates)
    nearest = candidates.nearest or session.network.domains.nowhere
    yield inside(session.network, group, nearest, candidates)


def _closeness(group: PodGroup, part: PartKey | None) -> Closeness | None:
    """How close pods of a sub-group, or (None) of the whole group, must be."""
    own = None if part is None or group.parts is None else group.parts.rules[part[0]].closeness
    return own or group.closeness


def _wanted(session: Session, group: PodGroup, closeness: Closeness) -> Wanted:
    return Wanted(
        pods=tuple(pod for pod in group.pending if not pod.pod_class.is_best_effort),
        needed=max(1, group.min_available - group.ready_count),
        slots=slots_of(session.cluster, group),
        limit=limit_of(session.cluster, closeness),
    )


def _is_denied(attempt: Attempt) -> bool:
    return attempt.reason is not None and attempt.reason.code in QUEUE_CODES


def _nearest(session: Session, group: PodGroup, candidates: Candidates) -> Attempt:
    """Why there is no room, asked where there is most of it."""
    domain = candidates.nearest or session.network.domains.nowhere
    attempt = Attempt(session, group, inside(session.network, group, domain, candidates))
    if attempt.reason is not None:
        found = attempt.overlay.count
        attempt.reason = candidates.told(attempt.reason, "the gang", found)
    return attempt
