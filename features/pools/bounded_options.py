"""The options of a job as they count: what the job states, cut to the bounds of its queue and pool, and before it what an operator
has set."""

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import structs

from events.duration import format_duration
from features.pools.group_overrides import NO_CAP, GroupOverride, override_of
from features.pools.job_options import USED_OPTIONS, JobOptions
from projections.job_option_keys import (
    MAX_SLOTS,
    POOL,
    POSITION,
    PREEMPTIBLE,
    PRIORITY,
    SUBMITTED,
    TIMEOUT,
    WEIGHT,
)
from projections.pod_groups import PodGroup
from projections.policy.job_bounds import TIMEOUT_MAX_NS, JobBounds, is_permitted, smaller_weight
from projections.policy.pools import Pool

if TYPE_CHECKING:
    from projections.cluster import Cluster


def effective_options(
    cluster: "Cluster", group: PodGroup, pool: Pool | None, stated: JobOptions
) -> JobOptions:
    """Return the options of a pod group that count in a pool, from what it and its pods state."""
    if pool is not None:
        stated = cut_options(stated, pool, group.queue, cluster.policy.of_queue(group.queue).bounds)
    override = override_of(cluster, group)
    return stated if override is None else with_override(stated, override)


def cut_options(options: JobOptions, pool: Pool, queue: str, of_queue: JobBounds) -> JobOptions:
    """Return the options of a job of a pool and a queue without what is beyond their bounds. `cuts` says what was cut."""
    of_pool, cuts = pool.use.bounds, list[str]()
    where = f"queue {queue} and pool {pool.name}"
    position, submitted = options.position, options.submitted_ns
    may_state = of_queue.may_state_position, of_pool.may_state_position
    if position is not None and not is_permitted(may_state, default=False):
        position = None
    if position != options.position and POSITION in USED_OPTIONS[pool.decider]:
        cuts.append(
            f"{POSITION}: the policy does not permit a queue position in {where}: the submission time counts"
        )
    may_state = of_queue.may_state_submission, of_pool.may_state_submission
    if submitted is not None and not is_permitted(may_state, default=False):
        submitted = None
        cuts.append(
            f"{SUBMITTED}: the policy does not permit a submission time in {where}: the creation counts"
        )
    is_preemptible = options.is_preemptible
    may_refuse = of_queue.may_refuse_preemption, of_pool.may_refuse_preemption
    if not is_preemptible and not is_permitted(may_refuse, default=True):
        is_preemptible = True
        cuts.append(
            f"{PREEMPTIBLE}: the policy does not permit jobs that are not preemptible in {where}: it is preempted"
        )
    weight, most = options.weight, smaller_weight(of_queue.weight_max, of_pool.weight_max)
    counts = WEIGHT in USED_OPTIONS[pool.decider]
    if counts and weight is not None and most is not None and Fraction(*weight) > most:
        cuts.append(
            f"{WEIGHT}: {_decimal(*weight)} is above weightMax of {where}: {_decimal(*most.as_integer_ratio())} counts"
        )
        weight = most.as_integer_ratio()
    timeout, longest = options.timeout_ns, _longest_timeout(pool, of_queue)
    if timeout is not None and timeout > longest:
        cuts.append(
            f"{TIMEOUT}: {format_duration(timeout)} is longer than preemptionTimeoutMax of {where}:"
            f" {format_duration(longest)} count"
        )
        timeout = longest
    if not cuts:
        return options if position == options.position else structs.replace(options, position=None)
    return structs.replace(
        options,
        position=position,
        submitted_ns=submitted,
        is_preemptible=is_preemptible,
        weight=weight,
        timeout_ns=timeout,
        cuts=tuple(cuts),
    )


def _longest_timeout(pool: Pool, of_queue: JobBounds) -> int:
    """Return the longest preemption timeout that a job may state."""
    found = [
        one for one in (of_queue.timeout_max_ns, pool.use.bounds.timeout_max_ns) if one is not None
    ]
    return min(found, default=max(pool.preemption_timeout_ns, TIMEOUT_MAX_NS))


def with_override(options: JobOptions, override: GroupOverride) -> JobOptions:
    """Return the options with what an operator has set."""
    values: dict[str, object] = {}
    if override.pool:
        values[POOL] = override.pool
    if override.priority is not None:
        values[PRIORITY] = override.priority
    if override.weight is not None:
        values[WEIGHT] = override.weight
    if override.max_slots is not None:
        values[MAX_SLOTS] = override.max_slots
    if override.position:
        values[POSITION] = override.position
    if not values:
        return options
    max_slots = options.max_slots
    if override.max_slots is not None:
        max_slots = None if override.max_slots == NO_CAP else override.max_slots
    return structs.replace(
        options,
        pool=override.pool or options.pool,
        priority=options.priority if override.priority is None else override.priority,
        weight=override.weight or options.weight,
        max_slots=max_slots,
        position=Fraction(override.position) if override.position else options.position,
        stated=tuple([one for one in options.stated if one not in values]),
        by_operator=tuple(values),
    )


def _decimal(numerator: int, denominator: int) -> str:
    return f"{numerator / denominator:g}"
