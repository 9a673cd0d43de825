"""The priority of a job in a pool of the deciders of Determined's kind (determined 3.1, 5.6)."""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from features.pools.job_options import JobOptions
from projections.job_option_keys import PRIORITY
from projections.pod_groups import PodGroup
from projections.policy.job_bounds import SYSTEM_NAMESPACE, SYSTEM_PRIORITY_MIN
from projections.policy.pools import LOWER_FIRST, PRIORITY_MAX, PRIORITY_MIN, Pool
from projections.session_priority import highest_of_pods

if TYPE_CHECKING:
    from projections.cluster import Cluster

MOST_IMPORTANT: Final = -(1 << 40)
"""Rank of the classes of system pods, whichever number is more important in the pool."""
BY_OPERATOR: Final = "an operator"


class JobPriority(Struct, frozen=True):
    """The priority of a job."""

    value: int
    source: str
    """What states it."""
    cut: str = ""
    """That it was cut to a bound; "" if it was not."""


def job_priority(
    cluster: "Cluster", pool: Pool, group: PodGroup, options: JobOptions
) -> JobPriority:
    """Return the priority of a job: the one that an operator has set, else the one that it states, at most that of the bounds
    of its queue and pool."""
    if PRIORITY in options.by_operator:
        assert options.priority is not None
        return JobPriority(options.priority, BY_OPERATOR)
    of_queue = cluster.policy.of_queue(group.queue).bounds
    value, source = _stated(
        cluster,
        pool,
        group,
        options,
        from_pods=of_queue.priority_from_pods or pool.use.bounds.priority_from_pods,
    )
    bounds = {
        f"queue {group.queue}": of_queue.priority_max,
        f"pool {pool.name}": pool.use.bounds.priority_max,
    }
    cut = ""
    named = "" if group.observed.facts is None else group.observed.facts.priority_class
    is_system = value > SYSTEM_PRIORITY_MIN and source == _of_group(named)
    if is_system and group.key.partition("/")[0] != SYSTEM_NAMESPACE:
        most = PRIORITY_MIN if pool.priority_direction == LOWER_FIRST else PRIORITY_MAX
        cut = f"priority {value} ({source}) is for PodGroups of namespace {SYSTEM_NAMESPACE} only: {most} counts"
        value = most
    for where, bound in bounds.items():
        if bound is not None and priority_rank(pool, value) < priority_rank(pool, bound):
            cut = f"priority {value} ({source}) is more important than priorityMax of {where}: {bound} counts"
            value = bound
    return JobPriority(value, f"{source}, cut to a bound" if cut else source, cut)


def priority_rank(pool: Pool, priority: int) -> int:
    """Return a priority as a number of which the smaller is more important. One above the scale is more important in both
    directions."""
    if priority > PRIORITY_MAX:
        return MOST_IMPORTANT - priority
    return priority if pool.priority_direction == LOWER_FIRST else -priority


def _stated(
    cluster: "Cluster", pool: Pool, group: PodGroup, options: JobOptions, *, from_pods: bool
) -> tuple[int, str]:
    """Return the priority that a job states, and where: the PriorityClass that its PodGroup or one of its pods names,
    before the option of the job (determined 5.6), and the default of the pool.

    The API server writes the class that is the global default into pods that name none: it counts after the option.
    """
    classes = cluster.priority_classes
    name = "" if group.observed.facts is None else group.observed.facts.priority_class
    if name in classes and not (from_pods and _is_above_pods(group, classes[name].value)):
        return classes[name].value, _of_group(name)
    default: tuple[int, str] | None = None
    for pod in group.pods.values():
        name, value = pod.facts.priority_class, pod.facts.priority
        if not name or value is None:
            continue
        if name not in classes or not classes[name].is_default:
            return value, f"PriorityClass {name} of pod {pod.key}"
        default = default or (value, f"PriorityClass {name}, the global default")
    if options.priority is not None:
        return options.priority, PRIORITY
    return default or (pool.priority, f"default of pool {pool.name}")


def _of_group(name: str) -> str:
    return f"PriorityClass {name} of the PodGroup"


def _is_above_pods(group: PodGroup, value: int) -> bool:
    highest = highest_of_pods(group)
    return highest is not None and value > highest
