"""Pod groups: with their objects, and what was decided about them."""

from collections.abc import Iterator
from typing import Final

from events.standing.pods import (
    GroupStatus,
    NominationStands,
    PodGroupStands,
    PodsWaitStands,
    RefusalStands,
    VictimWaitStands,
)
from projections.base.contributor import BaseFold, Contributor, Piece, Stand, plain
from projections.base.objects import AT_ONCE, piece_of, reading_of
from projections.group_facts import spec_of
from projections.group_rows import (
    NO_NOMINATIONS,
    NO_REFUSALS,
    NO_TASKS,
    DecidedGroup,
    Nomination,
    ObservedGroup,
    Refusal,
)
from projections.kinds.pod_group import read_pod_group
from projections.pod_groups import PodGroup
from projections.pod_waits import PodWait
from projections.reported_status import NOT_REPORTED, ReportedStatus
from projections.state import State
from projections.victim_waits import VictimWait


def _stand(group: PodGroup) -> Stand:
    event = PodGroupStands(
        queue=group.queue,
        uid=group.observed.uid if group.observed.uid != group.key else "",
        needs_object=group.observed.needs_object,
        priority=group.priority,
        stated_priority=group.observed.stated_priority,
        created_ns=group.observed.created_ns,
        min_available=group.observed.min_available,
        min_tasks=tuple(group.observed.min_tasks.items()),
        phase=group.decided.phase,
        listed_phase=group.decided.listed_phase,
        cause=group.decided.cause,
        refusals=tuple([_refusal(action, one) for action, one in group.decided.refusals.items()]),
        nominations=tuple(
            [_nomination(uid, one) for uid, one in group.decided.nominations.items()]
        ),
        status=_status(group.decided.reported_status),
    )
    return Stand(f"PodGroup/{group.key}", event, group.observed.digest or None)


def _refusal(action: str, one: Refusal) -> RefusalStands:
    return RefusalStands(
        action=action,
        code=one.code,
        limit=one.limit,
        message=one.message,
        pod=one.pod,
        position=one.position,
        requeue_on=one.requeue_on,
        never_fits=one.never_fits,
        fits_only_closed_nodes=one.fits_only_closed_nodes,
        is_timed_out=one.is_timed_out,
        node_helps=one.node_helps,
    )


def _nomination(uid: str, one: Nomination) -> NominationStands:
    return NominationStands(
        uid=uid,
        node=one.node,
        resources=one.request,
        charge=one.charge,
        position=one.position,
        devices=one.devices,
    )


def _status(one: ReportedStatus) -> GroupStatus:
    phase, running, succeeded, failed = one.status
    return GroupStatus(
        phase=phase,
        running=running,
        succeeded=succeeded,
        failed=failed,
        since=one.since,
        phase_since=one.phase_since,
        phase_before=one.before[0],
        phase_before_since=one.before[1],
        reported_at=one.reported_at,
        ready_since=one.ready_since,
        conditions_reported_at=one.conditions_reported_at,
        overwritten=one.overwritten,
    )


def _pieces(state: State) -> Iterator[Piece]:
    some: list[Stand] = []
    for group in state.cluster.groups.values():
        some.append(_stand(group))
        if len(some) == AT_ONCE:
            yield piece_of(some)
            some = []
    yield piece_of(some)


def _apply(fold: BaseFold, stand: Stand, content: bytes | None) -> None:
    event, cluster = stand.event, fold.state.cluster
    assert isinstance(event, PodGroupStands)
    group = cluster.pod_groups.ensure(cluster, stand.subject.partition("/")[2])
    facts, reported = None, NOT_REPORTED
    if stand.object is not None:
        reading = reading_of(fold, stand, event.uid, content)
        facts, reported = read_pod_group(cluster, reading), _reported(event.status)
    group.priority = event.priority
    observed = ObservedGroup(
        event.uid or group.key,
        event.created_ns,
        event.min_available,
        event.needs_object,
        event.stated_priority,
        facts,
        spec_of(facts),
        stand.object or "",
        dict(event.min_tasks) or NO_TASKS,
    )
    group.observe(observed)
    nominations = {
        one.uid: Nomination(one.node, one.resources, one.charge, one.position, one.devices)
        for one in event.nominations
    }
    group.decided = DecidedGroup(
        event.phase,
        event.listed_phase,
        event.cause,
        {one.action: _refused(one) for one in event.refusals} or NO_REFUSALS,
        nominations or NO_NOMINATIONS,
        reported,
    )
    queue = cluster.queues[event.queue]
    group.queue = queue.name
    queue.groups[group.key] = None


def _refused(one: RefusalStands) -> Refusal:
    return Refusal(
        code=one.code,
        limit=one.limit,
        message=one.message,
        pod=one.pod,
        position=one.position,
        requeue_on=one.requeue_on,
        never_fits=one.never_fits,
        fits_only_closed_nodes=one.fits_only_closed_nodes,
        is_timed_out=one.is_timed_out,
        node_helps=one.node_helps,
    )


def _reported(one: GroupStatus) -> ReportedStatus:
    return ReportedStatus(
        status=(one.phase, one.running, one.succeeded, one.failed),
        since=one.since,
        phase_since=one.phase_since,
        before=(one.phase_before, one.phase_before_since),
        reported_at=one.reported_at,
        ready_since=one.ready_since,
        conditions_reported_at=one.conditions_reported_at,
        overwritten=one.overwritten,
    )


POD_GROUPS: Final = Contributor(kinds=(PodGroupStands,), pieces=_pieces, apply=_apply)


def _waits_stand(state: State) -> Iterator[Stand]:
    for key, wait in state.cluster.pod_waits.of.items():
        event = PodsWaitStands(
            pod_group=key,
            until_ns=wait.until_ns,
            pods=wait.pods,
            lost=wait.lost,
            since_ns=wait.since_ns,
            is_backing_off=wait.is_backing_off,
        )
        yield Stand(f"PodGroup/{key}", event)
    for key, victims in state.cluster.victim_waits.items():
        waits = VictimWaitStands(
            pod_group=key, until_ns=victims.until_ns, timeouts=victims.timeouts
        )
        yield Stand(f"PodGroup/{key}", waits)


def _apply_wait(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    cluster = fold.state.cluster
    match stand.event:
        case PodsWaitStands() as one:
            cluster.pod_waits.of[one.pod_group] = PodWait(
                one.until_ns, one.pods, one.lost, one.since_ns, one.is_backing_off
            )
        case VictimWaitStands() as one:
            cluster.victim_waits[one.pod_group] = VictimWait(one.until_ns, one.timeouts)
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


WAITS: Final = Contributor(
    kinds=(PodsWaitStands, VictimWaitStands), pieces=plain(_waits_stand), apply=_apply_wait
)
