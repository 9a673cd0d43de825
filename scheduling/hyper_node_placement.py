"""Place a pod group in the domains that its network topology allows, the closest first.

The rules are Volcano's for hard topology: from the lowest tier up, each domain is tried as a whole, and the first
tier with a success wins; among its successes the best one. A soft topology is a hard one that allows the whole
cluster. Differences: room that is free now in a domain of a higher tier is used before room that is still being
freed in a closer one; and if pods of the group are placed already, the domains that keep the whole group closest
come first.
"""

from collections.abc import Iterator

from projections.blocked import topology_reason
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy.placement_rules import HYPER_NODES
from projections.refusals import QUEUE_CODES
from projections.sub_groups import SubGroupKey, TopologyConstraint
from scheduling.gang_attempt import GangAttempt
from scheduling.placement_strategy import PlacementStrategy
from scheduling.session import Session
from scheduling.topology.candidates import CandidateDomains, PlacementRequest
from scheduling.topology.domain_scope import domain_scope
from scheduling.topology.node_scope import NodeScope
from scheduling.unschedulable import Unschedulable


class HyperNodePlacement(PlacementStrategy):
    """Places groups with a network topology constraint."""

    name = HYPER_NODES

    def is_for(self, session: Session, group: PodGroup) -> bool:
        """Return True if the group or one of its sub-groups has a network topology constraint."""
        return group.has_topology_constraint

    def problem(self, session: Session, group: PodGroup) -> Unschedulable | None:
        """Return why the topology constraint of the group cannot be evaluated, or None."""
        reason = topology_reason(session.cluster.nodes.hyper_tree, group)
        return None if reason is None else Unschedulable(reason[0], "HyperNode", reason[1])

    def place(self, session: Session, group: PodGroup) -> GangAttempt:
        """Return the best attempt to place a group: a success, or the attempt in the nearest domain."""
        closeness = group.topology_constraint
        if closeness is None:  # Only sub-groups have one: each is placed in a domain of its own.
            return GangAttempt(session, group, session.network.scope_of(group))
        candidates = CandidateDomains(session.network, group, _wanted(session, group, closeness))
        nominated: GangAttempt | None = None
        for domain, is_now in candidates.tried:
            if nominated is not None and not is_now:
                continue
            attempt = GangAttempt(
                session, group, domain_scope(session.network, group, domain, candidates)
            )
            if attempt.is_ready:
                return attempt
            if nominated is None and attempt.is_pipelined:
                nominated = attempt
            if nominated is None and candidates.has_one_class and _is_refused_by_queue(attempt):
                return attempt  # Refused by quota, in whichever domain.
        return nominated or _explain_nearest(session, group, candidates)


def best_effort_pods(group: PodGroup) -> list[tuple[SubGroupKey | None, list[Pod]]]:
    """Return the pending best-effort pods, grouped by the sub-group whose pods must be close to one another."""
    found: dict[SubGroupKey | None, list[Pod]] = {}
    for pod in group.pending:
        if not pod.pod_class.is_best_effort:
            continue
        key = None if group.sub_groups is None else group.sub_groups.key_of(pod.facts.labels)
        has_topology_constraint = (
            key is not None and _closeness(group, key) is not group.topology_constraint
        )
        found.setdefault(key if has_topology_constraint else None, []).append(pod)
    return list(found.items())


def best_effort_scopes(
    session: Session, group: PodGroup, pods: list[Pod], part: SubGroupKey | None
) -> Iterator[NodeScope]:
    """Yield the scopes in which such pods may be placed together, the preferred first; the last has room for most of
    them."""
    closeness = _closeness(group, part)
    if closeness is None:
        yield session.network.scope_of(group)
        return
    network = session.network
    by_part = network.slots_by_part(group)
    wanted = PlacementRequest(
        pods=tuple(pods),
        needed=len(pods),
        slots=network.slots_of(group) if part is None else by_part.get(part, {}),
        limit=network.limit_of(closeness),
    )
    candidates = CandidateDomains(session.network, group, wanted)
    for domain, _ in candidates.tried:
        yield domain_scope(session.network, group, domain, candidates)
    nearest = candidates.nearest or session.network.domains.nowhere
    yield domain_scope(session.network, group, nearest, candidates)


def _closeness(group: PodGroup, part: SubGroupKey | None) -> TopologyConstraint | None:
    """Return the topology constraint of a sub-group, or (None) of the whole group."""
    own = (
        None
        if part is None or group.sub_groups is None
        else group.sub_groups.rules[part[0]].topology_constraint
    )
    return own or group.topology_constraint


def _wanted(session: Session, group: PodGroup, closeness: TopologyConstraint) -> PlacementRequest:
    return PlacementRequest(
        pods=tuple(pod for pod in group.pending if not pod.pod_class.is_best_effort),
        needed=max(1, group.observed.min_available - group.counts.ready),
        slots=session.network.slots_of(group),
        limit=session.network.limit_of(closeness),
    )


def _is_refused_by_queue(attempt: GangAttempt) -> bool:
    return attempt.reason is not None and attempt.reason.code in QUEUE_CODES


def _explain_nearest(
    session: Session, group: PodGroup, candidates: CandidateDomains
) -> GangAttempt:
    """Attempt the domain with most room, to explain why the group cannot be placed."""
    domain = candidates.nearest or session.network.domains.nowhere
    attempt = GangAttempt(session, group, domain_scope(session.network, group, domain, candidates))
    if attempt.reason is not None:
        found = attempt.trial.count
        attempt.reason = candidates.explain(attempt.reason, "the gang", found)
    return attempt
