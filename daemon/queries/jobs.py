"""Jobs of pools at a position of a log: order, state, slots, reason."""

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import state_at
from events.errors import UsageError
from replay.job_list import JobRow, PoolAnswer, pool_answers


async def all_jobs(
    log: ReadableLog, pool: str = "", at: int | None = None
) -> tuple[list[PoolAnswer], int]:
    """Return the pools with their jobs, or one pool, and the position. Raises UsageError where there is no such pool."""
    state = await state_at(log, at)
    pools = state.cluster.policy.pools.all
    names = [one.name for one in pools if not one.is_session]
    if pool and pool not in names:
        listed = ", ".join(names) or "none: all nodes are decided by `session`, see `muster queue`"
        raise UsageError(f"there is no pool {pool!r} with jobs: {listed}")
    return pool_answers(state, pool), state.position


async def one_job(log: ReadableLog, name: str, at: int | None = None) -> tuple[JobRow, int]:
    """Return the job of a name, or of one of its pod groups. Raises UsageError where there is none."""
    answers, position = await all_jobs(log, at=at)
    for answer in answers:
        for job in answer.jobs:
            if name == job.job or name in job.pod_groups:
                return job, position
    raise UsageError(
        f"no job {name!r} has queued or running tasks in a pool at position {position}"
    )
