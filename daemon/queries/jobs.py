"""Jobs of pools at a position of a log: order, state, slots, reason; and which changes of a job have an effect."""

from collections.abc import Iterable

from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import state_at
from daemon.queries.moments import At
from events.errors import UsageError
from features.pools.index import pools_of_groups
from features.pools.job_options import unused_option
from projections.job_option_keys import MAX_SLOTS
from projections.policy.job_bounds import is_permitted
from projections.policy.pools import Pools
from projections.state import State
from replay.job_list import JobRow, PoolAnswer, cap_problem, pool_answers, pool_slots


async def all_jobs(log: ReadableLog, pool: str = "", at: At = None) -> tuple[list[PoolAnswer], int]:
    """Return the pools with their jobs, or one pool, and the position. Raises UsageError where there is no such pool."""
    state = await state_at(log, at)
    return _answers(state, pool), state.position


def _answers(state: State, pool: str = "") -> list[PoolAnswer]:
    pools = state.cluster.policy.pools.all
    names = [one.name for one in pools if not one.is_session]
    if pool and pool not in names:
        listed = ", ".join(names) or "none: all nodes are decided by `session`, see `muster queue`"
        raise UsageError(f"there is no pool {pool!r} with jobs: {listed}")
    return pool_answers(state, pool)


async def one_job(log: ReadableLog, name: str, at: At = None) -> tuple[JobRow, int]:
    """Return the job of a name, or of one of its pod groups or pods. Raises UsageError where there is none."""
    state = await state_at(log, at)
    jobs = [job for answer in _answers(state) for job in answer.jobs]
    for job in jobs:
        if name == job.job or name in job.pod_groups:
            return job, state.position
    for job in jobs:
        groups = [state.cluster.groups[key] for key in job.pod_groups]
        if any(pod.key == name for group in groups for pod in group.pods.values()):
            return job, state.position
    raise UsageError(
        f"no job {name!r} has queued or running tasks in a pool at position {state.position}"
    )


class KnownPools(Struct, frozen=True):
    """The pools of a log, so that changes of jobs that have no effect are refused."""

    pools: Pools
    slots: dict[str, int]
    """Pool to the slots of its nodes."""
    of_group: dict[str, str]
    """Pod group to its pool; "" if it names one that does not exist."""
    priorities: dict[str, int]
    """Pod group with tasks in a pool of `priority` to its priority."""
    statable: dict[str, tuple[bool, bool]]
    """Pod group to whether the policy lets it state a queue position, and a submission time."""

    def pool_of(self, groups: Iterable[str]) -> str:
        """Return the pool of the job of these pod groups; "" if it is not known."""
        return next((self.of_group[one] for one in sorted(groups) if one in self.of_group), "")

    def priority_of(self, groups: Iterable[str]) -> int | None:
        """Return the priority of the job of these pod groups; None if it is not known."""
        return next(
            (self.priorities[one] for one in sorted(groups) if one in self.priorities), None
        )

    def counts(self, group: str) -> tuple[bool, bool]:
        """Return whether a queue position and a submission time that a pod group states count; for one that is not in the log
        that they do not."""
        return self.statable.get(group, (False, False))

    def check_pool(self, name: str) -> None:
        """Raise UsageError if there is no pool of a name."""
        names = [one.name for one in self.pools.all]
        if name not in names:
            raise UsageError(f"there is no pool {name}: the policy has {', '.join(names)}")

    def option_problem(self, pool: str, key: str, value: str) -> str:
        """Return why an option of a job (the key of an annotation) has no effect in a pool, or that it is a cap above the
        slots of the pool; "" if there is no such pool, too."""
        found = self.pools.named(pool)
        if found is None:
            return ""
        problem = unused_option(key, found)
        if not problem and key == MAX_SLOTS:
            problem = cap_problem(int(value), found.name, self.slots[found.name])
        return problem


async def known_pools(log: ReadableLog) -> KnownPools:
    """Return the pools at the end of a log."""
    state = await state_at(log)
    pools = state.cluster.policy.pools
    return KnownPools(
        pools=pools,
        slots={one.name: sum(pool_slots(state, one)) for one in pools.all},
        of_group=pools_of_groups(state.cluster),
        priorities={
            group: job.priority
            for answer in pool_answers(state)
            for job in answer.jobs
            if job.priority is not None
            for group in job.pod_groups
        },
        statable=_statable(state),
    )


def _statable(state: State) -> dict[str, tuple[bool, bool]]:
    cluster = state.cluster
    found: dict[str, tuple[bool, bool]] = {}
    for key, name in pools_of_groups(cluster).items():
        pool = cluster.policy.pools.named(name)
        if pool is None or pool.is_session:
            continue
        bounds = cluster.policy.of_queue(cluster.groups[key].queue).bounds, pool.use.bounds
        position = tuple([one.may_state_position for one in bounds])
        submission = tuple([one.may_state_submission for one in bounds])
        found[key] = (
            is_permitted(position, default=False),
            is_permitted(submission, default=False),
        )
    return found
