"""What was woken and not looked at, work that cycles left, and times before which something is not done again."""

from collections.abc import Iterator
from typing import Final

from events.decisions.search_deferred import SearchDeferred
from events.standing.pods import (
    ActionFailedStands,
    BackoffStands,
    BindFailuresStand,
    BudgetRefusalStands,
    DeviceAssignmentsStand,
    QuarantineStands,
)
from events.standing.work import (
    AntiAffinityStands,
    ChangedPodsStand,
    LabelRequirement,
    LookedAtStands,
    SearchStands,
    SelectionOutdatedStands,
    WakeupsStand,
)
from projections.base.contributor import BaseFold, Contributor, Stand, plain
from projections.budget_refusals import BudgetRefusal
from projections.deferred_work import DeferredSearch, EventBatch
from projections.pod_terms import PodAffinityTerm, Selector
from projections.policy.requirement import Requirement
from projections.quarantine import Quarantine
from projections.state import State
from projections.suspensions import FailedAction, Suspension
from projections.wakeup_events import ALL_PODS, PodKind, WakeupEvents

BIND: Final = "bind"
EVICT: Final = "evict"
PAUSE: Final = "pause"
RESERVATION: Final = "reservation"
ERROR: Final = "error"
"""What there is a time for."""


def _wakeups(events: WakeupEvents, cycle: int = 0, actions: tuple[str, ...] = ()) -> WakeupsStand:
    return WakeupsStand(
        cycle=cycle,
        actions=actions,
        groups=tuple(events.groups),
        nodes_freed=tuple(events.nodes_freed.items()),
        nodes_freed_at=events.nodes_freed_at,
        nodes_updated=tuple(events.nodes_updated),
        quota_released=tuple(
            [(queue, tuple(resources)) for queue, resources in events.quota_released.items()]
        ),
        quota_released_at=tuple(events.quota_released_at.items()),
        victims_added=tuple(events.victims_added.items()),
        changed_pods=tuple(
            [_changed_pods(one) for one in events.changed_pod_kinds if one != ALL_PODS]
        ),
        all_pods_changed=ALL_PODS in events.changed_pod_kinds,
        hyper_nodes_changed_at=events.hyper_nodes_changed_at,
        everything=events.everything,
        faulty_groups=tuple(events.faulty_groups),
        volumes_changed=tuple(events.volumes_changed),
    )


def _events(one: WakeupsStand) -> WakeupEvents:
    return WakeupEvents(
        groups=dict.fromkeys(one.groups),
        nodes_freed=dict(one.nodes_freed),
        nodes_freed_at=one.nodes_freed_at,
        nodes_updated=dict.fromkeys(one.nodes_updated),
        quota_released={queue: dict.fromkeys(resources) for queue, resources in one.quota_released},
        quota_released_at=dict(one.quota_released_at),
        victims_added=dict(one.victims_added),
        changed_pod_kinds=dict.fromkeys(_pod_kinds(one)),
        hyper_nodes_changed_at=one.hyper_nodes_changed_at,
        everything=one.everything,
        faulty_groups=dict.fromkeys(one.faulty_groups),
        volumes_changed=dict.fromkeys(one.volumes_changed),
    )


def _changed_pods(kind: PodKind) -> ChangedPodsStand:
    anti_affinity = [
        AntiAffinityStands(
            topology_key=term.topology_key,
            selector=_written(term.selector),
            namespaces=term.namespaces,
            namespace_selector=_written(term.namespace_selector),
        )
        for term in kind.anti_affinity
    ]
    return ChangedPodsStand(
        namespace=kind.namespace, labels=kind.labels, anti_affinity=tuple(anti_affinity)
    )


def _pod_kinds(one: WakeupsStand) -> Iterator[PodKind]:
    for changed in one.changed_pods:
        anti_affinity = [
            PodAffinityTerm(
                topology_key=term.topology_key,
                selector=_read(term.selector),
                namespaces=term.namespaces,
                namespace_selector=_read(term.namespace_selector),
            )
            for term in changed.anti_affinity
        ]
        yield PodKind(changed.namespace, changed.labels, tuple(anti_affinity))
    if one.all_pods_changed:
        yield ALL_PODS


def _written(selector: Selector | None) -> tuple[LabelRequirement, ...] | None:
    if selector is None:
        return None
    return tuple([LabelRequirement(one.key, one.operator, one.values) for one in selector])


def _read(selector: tuple[LabelRequirement, ...] | None) -> Selector | None:
    if selector is None:
        return None
    return tuple([Requirement(one.key, one.operator, one.values) for one in selector])


def _stands(state: State) -> Iterator[Stand]:
    if (events := state.cluster.wakeup_events) != WakeupEvents():
        yield Stand("Cycle//", _wakeups(events))
    for batch in state.deferred_work.batches:
        yield Stand("Cycle//", _wakeups(batch.events, batch.cycle, tuple(batch.actions)))
    for action, looked in state.deferred_work.evaluated.items():
        event = LookedAtStands(action=action, looked=tuple(looked.items()))
        yield Stand(f"Action//{action}", event)
    for searches in state.deferred_work.searches.values():
        for one in searches.values():
            yield Stand(f"PodGroup/{one.so_far.pod_group}", _search(one))
    if outdated := state.cluster.inter_pod_affinity.outdated:
        yield Stand("Cycle//", SelectionOutdatedStands(namespaces=tuple(outdated)))


def _search(one: DeferredSearch) -> SearchStands:
    so_far = one.so_far
    return SearchStands(
        cycle=one.cycle,
        pod_group=so_far.pod_group,
        queue=so_far.queue,
        action=so_far.action,
        wanted=so_far.wanted,
        nodes=so_far.nodes,
        is_within=so_far.is_within,
        takes_protected=so_far.takes_protected,
        is_outdated=so_far.is_outdated,
        freed=so_far.freed,
        cursors=so_far.cursors,
        counts=tuple(so_far.counts.items()),
        requeue_on=so_far.requeue_on,
    )


def _apply(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    match stand.event:
        case WakeupsStand() as one:
            if one.cycle:
                batch = EventBatch(one.cycle, _events(one), dict.fromkeys(one.actions))
                fold.deferred.batches.append(batch)
            else:
                fold.wakeups = _events(one)
        case LookedAtStands() as one:
            fold.deferred.evaluated[one.action] = dict(one.looked)
        case SearchStands() as one:
            so_far = SearchDeferred(
                pod_group=one.pod_group,
                queue=one.queue,
                action=one.action,
                wanted=one.wanted,
                nodes=one.nodes,
                is_within=one.is_within,
                takes_protected=one.takes_protected,
                is_outdated=one.is_outdated,
                freed=one.freed,
                cursors=one.cursors,
                counts=dict(one.counts),
                requeue_on=one.requeue_on,
            )
            of_action = fold.deferred.searches.setdefault(one.action, {})
            of_action[one.pod_group] = DeferredSearch(one.cycle, so_far)
        case SelectionOutdatedStands() as one:
            fold.outdated = dict.fromkeys(one.namespaces)
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


WORK: Final = Contributor(
    kinds=(WakeupsStand, LookedAtStands, SearchStands, SelectionOutdatedStands),
    pieces=plain(_stands),
    apply=_apply,
)


def _times_stand(state: State) -> Iterator[Stand]:
    cluster = state.cluster
    for what, times in (
        (BIND, cluster.bind_backoffs.until),
        (RESERVATION, cluster.cluster_totals.reservation_timeouts),
    ):
        for key, until_ns in times.items():
            event = BackoffStands(what=what, pod_group=key, until_ns=until_ns)
            yield Stand(f"PodGroup/{key}", event)
    for uid, until_ns in cluster.eviction_backoff.items():
        pod = cluster.pods.get(uid)
        subject = "Pod//" if pod is None else f"Pod/{pod.key}"
        yield Stand(subject, BackoffStands(what=EVICT, uid=uid, until_ns=until_ns))
    for tenant, queues in cluster.eviction_pauses.items():
        for queue, until_ns in queues.items():
            event = BackoffStands(what=PAUSE, tenant=tenant, queue=queue, until_ns=until_ns)
            yield Stand(f"Queue//{queue}", event)
    for key, errors in cluster.internal_errors.groups.items():
        for action, error in errors.items():
            event = BackoffStands(
                what=ERROR,
                pod_group=key,
                action=action,
                until_ns=error.until_ns,
                count=error.count,
            )
            yield Stand(f"PodGroup/{key}", event)
    for key, count in cluster.bind_backoffs.failures.items():
        yield Stand(f"PodGroup/{key}", BindFailuresStand(pod_group=key, count=count))
    for action, failed in cluster.internal_errors.actions.items():
        failure = ActionFailedStands(
            action=action,
            until_ns=failed.until_ns,
            message=failed.message,
            is_abandoned=failed.is_abandoned,
        )
        yield Stand(f"Action//{action}", failure)


def _apply_time(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    cluster = fold.state.cluster
    match stand.event:
        case BackoffStands(what="bind") as one:
            cluster.bind_backoffs.until[one.pod_group] = one.until_ns
        case BackoffStands(what="reservation") as one:
            cluster.cluster_totals.reservation_timeouts[one.pod_group] = one.until_ns
        case BackoffStands(what="evict") as one:
            cluster.eviction_backoff[one.uid] = one.until_ns
        case BackoffStands(what="pause") as one:
            cluster.eviction_pauses.setdefault(one.tenant, {})[one.queue] = one.until_ns
        case BackoffStands() as one:
            of_group = cluster.internal_errors.groups.setdefault(one.pod_group, {})
            of_group[one.action] = Suspension(one.until_ns, one.count)
        case BindFailuresStand() as one:
            cluster.bind_backoffs.failures[one.pod_group] = one.count
        case ActionFailedStands() as one:
            failed = FailedAction(one.until_ns, one.message, one.is_abandoned)
            cluster.internal_errors.actions[one.action] = failed
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


TIMES: Final = Contributor(
    kinds=(BackoffStands, BindFailuresStand, ActionFailedStands),
    pieces=plain(_times_stand),
    apply=_apply_time,
)


def _refused_stand(state: State) -> Iterator[Stand]:
    cluster = state.cluster
    for uid, refused in cluster.budget_refusals.items():
        event = BudgetRefusalStands(
            uid=uid,
            namespace=refused.namespace,
            since_ns=refused.since_ns,
            last_ns=refused.last_ns,
        )
        pod = cluster.pods.get(uid)
        yield Stand("Pod//" if pod is None else f"Pod/{pod.key}", event)
    assigned = state.assignments
    for node, last_ns in assigned.last_ns.items():
        yield Stand(f"Node//{node}", DeviceAssignmentsStand(node=node, last_ns=last_ns))
    for node, waiting in assigned.unconfirmed.items():
        devices = DeviceAssignmentsStand(node=node, unconfirmed=tuple(waiting.items()))
        yield Stand(f"Node//{node}", devices)
    for one in cluster.quarantines.all.values():
        closed = QuarantineStands(
            node=one.node,
            tenant=one.tenant,
            reason=one.reason,
            resource=one.resource,
            count=one.count,
            resources=one.request,
            until_ns=one.until_ns,
            is_over=one.is_over,
            was_admitted_since=one.was_admitted_since,
        )
        yield Stand(f"Node//{one.node}", closed)


def _apply_refused(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    cluster, assigned = fold.state.cluster, fold.state.assignments
    match stand.event:
        case BudgetRefusalStands() as one:
            refused = BudgetRefusal(one.namespace, one.since_ns, one.last_ns)
            cluster.budget_refusals[one.uid] = refused
        case DeviceAssignmentsStand() as one:
            if one.last_ns is not None:
                assigned.last_ns[one.node] = one.last_ns
            if one.unconfirmed:
                assigned.unconfirmed[one.node] = dict(one.unconfirmed)
        case QuarantineStands() as one:
            quarantine = Quarantine(
                node=one.node,
                tenant=one.tenant,
                reason=one.reason,
                resource=one.resource,
                count=one.count,
                request=one.resources,
                until_ns=one.until_ns,
                is_over=one.is_over,
                was_admitted_since=one.was_admitted_since,
            )
            cluster.quarantines.put(quarantine)
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


REFUSED: Final = Contributor(
    kinds=(BudgetRefusalStands, DeviceAssignmentsStand, QuarantineStands),
    pieces=plain(_refused_stand),
    apply=_apply_refused,
)
