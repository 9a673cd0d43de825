"""What was done after faults and is not over."""

from collections.abc import Iterator
from typing import Final

from events.standing.faults import (
    FaultMarkStands,
    FaultReportStands,
    JobFaultsStand,
    JobRestartsStand,
    NetworkStands,
    NodeSettlingStands,
    ReservationStands,
    RestartReason,
    RestartRecord,
    RestartStands,
)
from projections.base.contributor import BaseFold, Contributor, Stand, plain
from projections.fault_marks import FaultMark
from projections.reschedule_records import JobRecords, RescheduleRecord, TaskReason
from projections.rescheduling import Reschedulings, Reservation, Restart, Retries
from projections.state import State


def _stands(state: State) -> Iterator[Stand]:
    book = state.cluster.tables.find(Reschedulings)
    if book is None:
        return
    for key, restart in book.restarts.items():
        yield Stand(f"PodGroup/{key}", _restart(key, restart))
    yield from _of_jobs(book)
    for node, until_ns in book.settling.items():
        yield Stand(f"Node//{node}", NodeSettlingStands(node=node, until_ns=until_ns))
    for uid, mark in book.marks.items():
        marked = FaultMarkStands(
            uid=uid,
            decision=mark.decision,
            pod=mark.pod,
            fault=mark.fault,
            tries=mark.tries,
            is_done=mark.is_done,
        )
        yield Stand(f"Pod/{mark.pod}", marked)
    reports = book.reports
    for what in dict.fromkeys((*reports.changed_at, *reports.written_at)):
        report = FaultReportStands(
            what=what,
            changed_at=reports.changed_at.get(what),
            written_at=reports.written_at.get(what),
        )
        yield Stand("ConfigMap//", report)
    for key, kept in reports.records.items():
        records = [
            RestartRecord(
                at_ns=one.at_ns,
                reasons=tuple(
                    [
                        RestartReason(fault=why.fault, pod=why.pod, node=why.node, rank=why.rank)
                        for why in one.reasons
                    ]
                ),
            )
            for one in kept.records
        ]
        job = JobRestartsStand(
            pod_group=key, job=kept.job, total=kept.total, records=tuple(records)
        )
        yield Stand(f"PodGroup/{key}", job)


def _restart(key: str, one: Restart) -> RestartStands:
    return RestartStands(
        pod_group=key,
        owner=one.owner,
        position=one.position,
        begun_ns=one.begun_ns,
        decided_ns=one.decided_ns,
        mode=one.mode,
        scope=one.scope,
        members=one.members,
        leaving=tuple(one.leaving),
        gone_ns=one.gone_ns,
        first_gone_ns=one.first_gone_ns,
        is_owner_gone=one.is_owner_gone,
        replaced=tuple(one.replaced.items()),
        networks=tuple(
            [NetworkStands(uid=uid, network=network) for uid, network in one.networks.items()]
        ),
        reservations=tuple(
            [
                ReservationStands(uid=uid, node=kept.node, resources=kept.request)
                for uid, kept in one.reservations.items()
            ]
        ),
        reserved_until_ns=one.reserved_until_ns,
        grace_ns=one.grace_ns,
        forced_ns=one.forced_ns,
        has_given_up=one.has_given_up,
        queue=one.queue,
        kept=one.kept,
    )


def _of_jobs(book: Reschedulings) -> Iterator[Stand]:
    """Yield what is kept of each pod group, table by table: each of them has an order of its own."""
    for key, retries in book.retries.items():
        left = JobFaultsStand(pod_group=key, owner=retries.owner, retries_left=retries.left)
        yield Stand(f"PodGroup/{key}", left)
    for key, times in book.restarted_ns.items():
        yield Stand(f"PodGroup/{key}", JobFaultsStand(pod_group=key, restarted_ns=times))
    for key, since_ns in book.faulty_since_ns.items():
        faulty = JobFaultsStand(pod_group=key, faulty_since_ns=tuple(since_ns.items()))
        yield Stand(f"PodGroup/{key}", faulty)
    for key, at_ns in book.stranded_since_ns.items():
        yield Stand(f"PodGroup/{key}", JobFaultsStand(pod_group=key, stranded_since_ns=at_ns))
    for key, deadline_ns in book.looked_at_ns.items():
        yield Stand(f"PodGroup/{key}", JobFaultsStand(pod_group=key, deadline_ns=deadline_ns))


def _apply(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    book = fold.state.cluster.tables.of(Reschedulings)
    match stand.event:
        case RestartStands() as one:
            book.restarts[one.pod_group] = _restarted(one)
        case JobFaultsStand() as one:
            _apply_job(book, one)
        case NodeSettlingStands() as one:
            book.settling[one.node] = one.until_ns
        case FaultMarkStands() as one:
            mark = FaultMark(one.decision, one.pod, one.fault, one.tries, one.is_done)
            book.marks[one.uid] = mark
        case FaultReportStands() as one:
            if one.changed_at is not None:
                book.reports.changed_at[one.what] = one.changed_at
            if one.written_at is not None:
                book.reports.written_at[one.what] = one.written_at
        case JobRestartsStand() as one:
            records = [
                RescheduleRecord(
                    kept.at_ns,
                    tuple(
                        [TaskReason(why.fault, why.pod, why.node, why.rank) for why in kept.reasons]
                    ),
                )
                for kept in one.records
            ]
            book.reports.records[one.pod_group] = JobRecords(one.job, one.total, tuple(records))
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


def _apply_job(book: Reschedulings, one: JobFaultsStand) -> None:
    key = one.pod_group
    if one.owner is not None:
        book.retries[key] = Retries(one.owner, one.retries_left)
    if one.restarted_ns is not None:
        book.restarted_ns[key] = one.restarted_ns
    if one.faulty_since_ns is not None:
        book.faulty_since_ns[key] = dict(one.faulty_since_ns)
    if one.stranded_since_ns is not None:
        book.stranded_since_ns[key] = one.stranded_since_ns
    if one.deadline_ns is not None:
        book.looked_at_ns[key] = one.deadline_ns


def _restarted(one: RestartStands) -> Restart:
    return Restart(
        owner=one.owner,
        position=one.position,
        begun_ns=one.begun_ns,
        decided_ns=one.decided_ns,
        mode=one.mode,
        scope=one.scope,
        members=one.members,
        leaving=dict.fromkeys(one.leaving),
        gone_ns=one.gone_ns,
        first_gone_ns=one.first_gone_ns,
        is_owner_gone=one.is_owner_gone,
        replaced=dict(one.replaced),
        networks={kept.uid: kept.network for kept in one.networks},
        reservations={
            kept.uid: Reservation(kept.node, kept.resources) for kept in one.reservations
        },
        reserved_until_ns=one.reserved_until_ns,
        grace_ns=one.grace_ns,
        forced_ns=one.forced_ns,
        has_given_up=one.has_given_up,
        queue=one.queue,
        kept=one.kept,
    )


STANDING: Final = Contributor(
    kinds=(
        RestartStands,
        JobFaultsStand,
        NodeSettlingStands,
        FaultMarkStands,
        FaultReportStands,
        JobRestartsStand,
    ),
    pieces=plain(_stands),
    apply=_apply,
    table=Reschedulings,
)
