"""What pool deciders keep."""

from collections.abc import Iterator
from typing import Final

from events.standing.pools import (
    PoolPodStands,
    PoolStands,
    ReleaseStands,
    ReturningStand,
    ReturningTask,
)
from features.pools.facts import PoolFacts, Release, Returning
from projections.base.contributor import BaseFold, Contributor, Stand, plain
from projections.state import State


def _stands(state: State) -> Iterator[Stand]:
    facts = state.cluster.tables.find(PoolFacts)
    if facts is None:
        return
    for uid, one in facts.releases.items():
        release = ReleaseStands(
            uid=uid,
            decision=one.decision,
            pod=one.pod,
            in_favour_of=one.in_favour_of,
            deadline_ns=one.deadline_ns,
            tries=one.tries,
            is_marked=one.is_marked,
        )
        yield Stand(f"Pod/{one.pod}", release)
    for key, waiting in facts.returning.items():
        tasks = [
            ReturningTask(
                task=task.task, submitted_ns=task.submitted_ns, requested_ns=task.requested_ns
            )
            for task in waiting
        ]
        yield Stand(f"PodGroup/{key}", ReturningStand(pod_group=key, tasks=tuple(tasks)))
    for uid in facts.backfilled:
        yield Stand("Pod//", PoolPodStands(uid=uid, is_backfilled=True))
    for uid, (submitted_ns, requested_ns) in facts.requested.items():
        came_back = PoolPodStands(uid=uid, submitted_ns=submitted_ns, requested_ns=requested_ns)
        yield Stand("Pod//", came_back)
    for uid, started_ns in facts.started.items():
        yield Stand("Pod//", PoolPodStands(uid=uid, started_ns=started_ns))
    for pool, passed_ns in facts.passes.items():
        yield Stand(f"Pool//{pool}", PoolStands(pool=pool, passed_ns=passed_ns))
    for pool in facts.dirty:
        yield Stand(f"Pool//{pool}", PoolStands(pool=pool, is_dirty=True))
    for pool in facts.due:
        yield Stand(f"Pool//{pool}", PoolStands(pool=pool, is_due=True))


def _apply(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    facts = fold.state.cluster.tables.of(PoolFacts)
    match stand.event:
        case ReleaseStands() as one:
            facts.releases[one.uid] = Release(
                one.decision, one.pod, one.in_favour_of, one.deadline_ns, one.tries, one.is_marked
            )
        case ReturningStand() as one:
            facts.returning[one.pod_group] = tuple(
                [Returning(task.task, task.submitted_ns, task.requested_ns) for task in one.tasks]
            )
        case PoolPodStands() as one:
            if one.is_backfilled:
                facts.backfilled[one.uid] = None
            if one.submitted_ns is not None:
                facts.requested[one.uid] = (one.submitted_ns, one.requested_ns)
            if one.started_ns is not None:
                facts.started[one.uid] = one.started_ns
        case PoolStands() as one:
            if one.is_dirty:
                facts.dirty[one.pool] = None
            if one.is_due:
                facts.due[one.pool] = None
            if one.passed_ns is not None:
                facts.passes[one.pool] = one.passed_ns
        case _:
            raise AssertionError(f"{stand.event.kind} is read elsewhere")


STANDING: Final = Contributor(
    kinds=(ReleaseStands, ReturningStand, PoolPodStands, PoolStands),
    pieces=plain(_stands),
    apply=_apply,
    table=PoolFacts,
)
