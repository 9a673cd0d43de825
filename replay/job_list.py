"""The jobs of a pool in the order in which they are served, with state, position, slots and reason (determined 6.2)."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from features.pools.facts import PoolFacts
from features.pools.index import PoolIndex, options_of, pools_of_nodes, slots_of_node
from features.pools.job_options import INVALID_OPTION
from features.pools.tasks import Job, PoolTasks, Task
from projections.config_errors import OPTION_CUT, UNUSED_OPTION
from projections.job_option_keys import (
    MAX_SLOTS,
    POOL,
    POSITION,
    PREEMPTIBLE,
    SUBMITTED,
    TIMEOUT,
    WEIGHT,
)
from projections.job_option_keys import PRIORITY as PRIORITY_OPTION
from projections.pod_group_resolution import NAMED_BY_UID
from projections.pod_groups import PodGroup
from projections.pods import RUNNING
from projections.policy.pools import FAIR_SHARE, POOL_ACTION, PRIORITY, Pool
from projections.state import State

QUEUED: Final = "queued"
BACKFILLED: Final = "backfilled"
SCHEDULED: Final = "scheduled"
RUNS: Final = "running"
RELEASING: Final = "releasing"


class JobRow(Struct, frozen=True):
    """A job with queued or running tasks."""

    pool: str
    position: int | None
    """Number of jobs before it, running ones too; None in a pool without an order of jobs."""
    job: str
    display_name: str
    """The job; where its name was made out of a UID, its oldest pod and the number of others."""
    pod_groups: tuple[str, ...]
    priority: int | None
    """None in a pool that knows no priorities."""
    priority_source: str
    """What states the priority: a PriorityClass, `muster.sh/priority`, or the default of the pool."""
    weight: str | None
    """As a number; None in a pool that knows no weights."""
    max_slots: int | None
    submitted_ns: int
    slots_acquired: int
    slots_needed: int
    state: str
    """`queued`, `backfilled`, `scheduled`, `running` or `releasing`: the first of these that is true of a task, from the
    end."""
    tasks_queued: int
    tasks_running: int
    is_preemptible: bool
    code: str = ""
    message: str = ""
    """Why its first queued task waits, as recorded."""
    problems: tuple[str, ...] = ()
    """Which of its options cannot be used, have no effect in the pool or are cut to a bound, and a cap that is above the slots of
    the pool."""
    sources: dict[str, str] = {}
    """Option (`pool`, `priority`, `weight`, `maxSlots`, `position`, `submissionTime`, `preemptible`, `preemptionTimeout`) to what its
    value comes from: `operator`, `job`, `cut to a bound` or `default`."""


class PoolAnswer(Struct, frozen=True):
    """A pool and its jobs."""

    pool: str
    decider: str
    priority_direction: str
    nodes: int
    slots: int
    """Of all its nodes, those that accept no pods among them."""
    jobs: tuple[JobRow, ...]


def pool_answers(state: State, only: str = "") -> list[PoolAnswer]:
    """Return the pools that are not decided by `session`, or the one of a name."""
    return [
        _answer(state, pool)
        for pool in state.cluster.policy.pools.all
        if not pool.is_session and only in ("", pool.name)
    ]


def _answer(state: State, pool: Pool) -> PoolAnswer:
    tasks = PoolTasks(state, pool)
    order = sorted(tasks.jobs.values(), key=lambda job: (*_order(pool, job), job.name, job.key))
    slots = pool_slots(state, pool)
    return PoolAnswer(
        pool=pool.name,
        decider=pool.decider,
        priority_direction=pool.priority_direction,
        nodes=len(slots),
        slots=sum(slots),
        jobs=tuple(
            _row(state, pool, job, place, sum(slots))
            for place, job in enumerate(order)
            if _is_listed(job)
        ),
    )


def pool_slots(state: State, pool: Pool) -> list[int]:
    """Return the slots of each node of a pool."""
    nodes = state.cluster.nodes.nodes
    return [
        slots_of_node(pool, node.facts)
        for name, of in pools_of_nodes(state.cluster).items()
        if of == pool.name and (node := nodes.get(name)) is not None and node.facts is not None
    ]


def cap_problem(max_slots: int | None, pool: str, slots: int) -> str:
    """Return that a cap is above the slots of a pool; "" if it is not, or the pool has no slots yet."""
    if max_slots is None or not 0 < slots < max_slots:
        return ""
    return f"max-slots {max_slots} is above the {slots} slots of pool {pool}"


def _order(pool: Pool, job: Job) -> tuple[object, ...]:
    return job.order if pool.decider == PRIORITY else (job.submitted_ns,)


def _is_listed(job: Job) -> bool:
    return bool(job.queued or job.running)


def _row(state: State, pool: Pool, job: Job, place: int, slots: int) -> JobRow:
    cluster = state.cluster
    groups = dict.fromkeys(one.group.key for one in (*job.running, *job.queued))
    refusal = next(_refusals([cluster.groups[key] for key in groups]), ("", ""))
    numerator, denominator = job.weight
    acquired = sum(one.slots for one in job.running)
    return JobRow(
        pool=pool.name,
        position=place if pool.decider == PRIORITY else None,
        job=job.key,
        display_name=_display_name([cluster.groups[key] for key in groups], job.key),
        pod_groups=tuple(groups),
        priority=job.priority if pool.decider == PRIORITY else None,
        priority_source=job.priority_source if pool.decider == PRIORITY else "",
        weight=f"{numerator / denominator:g}" if pool.decider == FAIR_SHARE else None,
        max_slots=job.max_slots,
        submitted_ns=job.submitted_ns,
        slots_acquired=acquired,
        slots_needed=acquired + sum(one.slots for one in job.queued),
        state=_state(state, job),
        tasks_queued=len(job.queued),
        tasks_running=len(job.running),
        is_preemptible=job.is_preemptible,
        code=refusal[0] if job.queued else "",
        message=refusal[1] if job.queued else "",
        problems=tuple(_problems(state, pool, job, slots)),
        sources=_sources(state, job),
    )


_SOURCES: Final = {
    "pool": POOL,
    "priority": PRIORITY_OPTION,
    "weight": WEIGHT,
    "maxSlots": MAX_SLOTS,
    "position": POSITION,
    "submissionTime": SUBMITTED,
    "preemptible": PREEMPTIBLE,
    "preemptionTimeout": TIMEOUT,
}
"""Option to the key by which a job states it."""


def _sources(state: State, job: Job) -> dict[str, str]:
    """Return what the value of each option of a job comes from."""
    first = next(one.group for one in (*job.running, *job.queued))
    index = state.cluster.indexes.of(PoolIndex)
    options, stated = index.options[first.key], options_of(first)
    cut = [one.partition(":")[0] for one in options.cuts]
    is_priority_cut = "cut to a bound" in job.priority_source
    states = {
        "pool": bool(stated.pool),
        "priority": stated.priority is not None or job.priority_source.startswith("PriorityClass"),
        "weight": stated.weight is not None,
        "maxSlots": stated.max_slots is not None,
        "position": stated.position is not None,
        "submissionTime": stated.submitted_ns is not None,
        "preemptible": not stated.is_preemptible,
        "preemptionTimeout": stated.timeout_ns is not None,
    }
    found: dict[str, str] = {}
    for name, key in _SOURCES.items():
        if key in options.by_operator:
            found[name] = "operator"
        elif key in cut or (name == "priority" and is_priority_cut):
            found[name] = "cut to a bound"
        else:
            found[name] = "job" if states[name] else "default"
    return found


def _display_name(groups: list[PodGroup], key: str) -> str:
    """Return a name that a user knows."""
    [first, *others] = groups
    if others or first.key != key or not first.key.partition("/")[2].startswith(NAMED_BY_UID):
        return key
    names = [pod.key for pod in sorted(first.pods.values(), key=first.task_key)]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _problems(state: State, pool: Pool, job: Job, slots: int) -> Iterator[str]:
    """Yield each text about the options of a job once."""
    subjects: dict[str, None] = {}
    for task in (*job.running, *job.queued):
        subjects[f"PodGroup/{task.group.key}"] = None
        subjects |= {f"Pod/{pod.key}": None for pod in task.pods}
    errors = state.cluster.config_errors.current
    yield from dict.fromkeys(
        text
        for subject in subjects
        for code, text in errors.get(subject, ())
        if code in (INVALID_OPTION, UNUSED_OPTION, OPTION_CUT)
    )
    is_cut = "cut to a bound" in job.priority_source
    if pool.decider == PRIORITY and job.stated_priority not in (None, job.priority) and not is_cut:
        yield f"{PRIORITY_OPTION} {job.stated_priority} does not count: {job.priority_source} stands before it"
    if problem := cap_problem(job.max_slots, pool.name, slots):
        yield problem


def _refusals(groups: list[PodGroup]) -> Iterator[tuple[str, str]]:
    for group in groups:
        if (refusal := group.decided.refusals.get(POOL_ACTION)) is not None:
            yield refusal.code, refusal.message


def _state(state: State, job: Job) -> str:
    if any(one.is_releasing for one in job.running):
        return RELEASING
    backfilled = state.cluster.tables.of(PoolFacts).backfilled
    if job.running and all(_is_backfilled(one, backfilled) for one in job.running):
        return BACKFILLED
    if any(pod.status == RUNNING for one in job.running for pod in one.pods):
        return RUNS
    return SCHEDULED if job.running else QUEUED


def _is_backfilled(task: Task, backfilled: dict[str, None]) -> bool:
    return any(pod.facts.uid in backfilled for pod in task.pods)
