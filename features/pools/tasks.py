"""Jobs and tasks of a pool, as the pool deciders see them (docs/pools.md).

A job is what a user submits: one or more pod groups. A task is what is placed whole: each pod of a pod group whose minimum
is one, or the pods of a gang together; pods of a gang beyond its minimum are tasks of their own.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final, TypeAlias

from msgspec import Struct

from features.pools.facts import PoolFacts
from features.pools.index import PoolIndex, slots_of
from features.pools.job_options import job_options
from features.pools.job_priority import job_priority, priority_rank
from projections.cluster import Cluster
from projections.job_option_keys import PRIORITY
from projections.pod_group_resolution import NAMED_BY_UID
from projections.pod_groups import GANG_PRIORITY_MISMATCH, GANG_SIZE_MISMATCH, PodGroup
from projections.pods import ALLOCATED, Pod
from projections.policy.job_bounds import is_permitted
from projections.policy.pools import Pool
from projections.state import State
from scheduling.gang_attempt import missing_pods
from scheduling.unschedulable import Unschedulable

MICROSECOND: Final = 1000

Age: TypeAlias = tuple[int, int, int, str, str, int, str]
"""When the job was submitted, 0 if the task was preempted and comes back (else 1), when it first asked for slots, name and
key of the job, its index in the job, and its name; the smaller is older."""


Position: TypeAlias = int | Fraction
"""Microseconds since the epoch: a whole number where it is one, since most are and those are compared faster."""


class Task(Struct):
    """What is placed, and released, whole."""

    job: "Job"
    group: PodGroup
    pods: list[Pod]
    slots: int
    age: Age
    is_releasing: bool = False
    """Whether its pods are asked to exit."""
    is_elsewhere: bool = False
    """Whether it runs on a node of another pool."""
    reason: Unschedulable | None = None
    """Why it does not start, as far as that was found."""
    _likeness: object = None

    @property
    def name(self) -> str:
        """Return its name: that of the pod, or of the pod group of a gang."""
        return self.pods[0].key if len(self.pods) == 1 else self.group.key

    @property
    def likeness(self) -> object:
        """Return a key that is equal for tasks that are placed alike."""
        if self._likeness is None:
            classes = tuple([pod.pod_class.index for pod in self.pods])
            is_gang = len(self.pods) > 1 and self.group.key
            self._likeness = classes, self.job.is_single_node, self.group.queue, is_gang
        return self._likeness

    @property
    def asked_ns(self) -> int:
        """Return when it first asked for slots."""
        return self.age[2]

    @property
    def is_preemptible(self) -> bool:
        """Return whether it may be asked to exit in favour of others."""
        if not self.job.is_preemptible:
            return False
        if self.job.may_refuse_preemption:
            return all(pod.facts.is_evictable for pod in self.pods)
        return not self.belongs_to_nodes

    @property
    def belongs_to_nodes(self) -> bool:
        """Return whether one of its pods belongs to its node, as those of a DaemonSet do, and is not evicted at all."""
        return any(pod.facts.belongs_to_node for pod in self.pods)


class Job(Struct):
    """The tasks of one job in one pool."""

    key: str
    name: str
    """Its key, but for a group whose name is made out of a UID: the name of the pod or of its owner. Jobs of one time go by
    their names, and not by UIDs, which are random."""
    weight: tuple[int, int]
    priority: int
    priority_source: str
    """What states the priority."""
    stated_priority: int | None
    """The option of the job, which a PriorityClass stands before."""
    rank: int
    """The priority as a number of which the smaller is more important."""
    max_slots: int | None
    position: "Position"
    """Place among the jobs of its priority; the smaller comes first."""
    submitted_ns: int
    is_preemptible: bool
    may_refuse_preemption: bool
    """Whether annotations of its pods may state that they are not preemptible, too."""
    is_single_node: bool
    timeout_ns: int
    queued: list[Task]
    running: list[Task]
    """Tasks with nodes, those that are asked to exit among them; without pods that are terminating."""

    @property
    def order(self) -> tuple[object, ...]:
        """Return the sort key of jobs: rank, position, and age."""
        return self.rank, self.position, self.submitted_ns, self.name, self.key


class PodSlots:
    """The slots of pods in one pool, computed once for each class."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._of_class: dict[int, int] = {}

    def of(self, pod: Pod) -> int:
        """Return the slots of a pod."""
        pod_class = pod.pod_class
        found = self._of_class.get(pod_class.index)
        if found is None:
            found = self._of_class[pod_class.index] = slots_of(self._pool, pod_class)
        return found


class PoolTasks:
    """The jobs of one pool at one moment, and the pod groups that are not considered, with the reason."""

    def __init__(self, state: State, pool: Pool) -> None:
        self.pool = pool
        self.jobs: dict[str, Job] = {}
        self.refused: dict[str, Unschedulable] = {}
        self._slots = PodSlots(pool)
        cluster = state.cluster
        index = cluster.indexes.of(PoolIndex)
        self._options = index.options
        self._pool_of = index.nodes
        groups = [cluster.groups[key] for key in index.by_pool.get(pool.name, ())]
        for group in sorted(
            groups, key=lambda one: (one.observed.created_ns, name_of(one), one.key)
        ):
            self._add(cluster, group)
        for job in self.jobs.values():
            job.queued.sort(key=_age)
            job.running.sort(key=_age)

    def _add(self, cluster: Cluster, group: PodGroup) -> None:
        if group.is_foreign:
            return
        placed = [pod for pod in group.pods.values() if pod.status in ALLOCATED]
        if not placed and not group.pending:
            return
        job = self._job(cluster, group)
        for pods in _running(group, placed):
            task = self._task(cluster, job, group, pods)
            task.is_releasing = any(
                pod.facts.uid in cluster.tables.of(PoolFacts).releases for pod in pods
            )
            task.is_elsewhere = any(self._is_elsewhere(pod) for pod in pods)
            job.running.append(task)
        problem = _problem(group)
        if problem is not None:
            self.refused[group.key] = problem
        elif (
            group.key not in cluster.bind_backoffs.until
            and group.pending
            and not _waits_for_exit(cluster, group, placed)
        ):
            for pods in _queued(group):
                job.queued.append(self._task(cluster, job, group, pods))

    def _is_elsewhere(self, pod: Pod) -> bool:
        """Return whether a pod runs on a node of another pool. A node of no pool is like a cordoned one."""
        return self._pool_of.get(pod.node, "") not in ("", self.pool.name)

    def _task(self, cluster: Cluster, job: Job, group: PodGroup, pods: list[Pod]) -> Task:
        requested = cluster.tables.of(PoolFacts).requested
        came_back = [requested[pod.facts.uid] for pod in pods if pod.facts.uid in requested]
        submitted, asked = min(came_back, default=(0, 0))
        is_back = bool(came_back) and self.pool.resumes_first
        if not is_back:
            asked = min(pod.facts.created_ns for pod in pods)
        name = pods[0].key if len(pods) == 1 else group.key
        return Task(
            job=job,
            group=group,
            pods=pods,
            slots=sum([self._slots.of(pod) for pod in pods]),
            age=(
                min(job.submitted_ns, submitted or job.submitted_ns),
                1 - is_back,
                asked,
                job.name,
                job.key,
                pods[0].facts.index,
                name,
            ),
        )

    def _job(self, cluster: Cluster, group: PodGroup) -> Job:
        options = self._options[group.key]
        key = f"{group.key.partition('/')[0]}/{options.job}" if options.job else group.key
        submitted = options.submitted_ns
        if submitted is None:
            submitted = group.observed.created_ns
            came_back = cluster.tables.of(PoolFacts).requested
            for uid in group.pods:
                if uid in came_back:
                    submitted = min(submitted, came_back[uid][0])
        known = self.jobs.get(key)
        if known is not None:
            if submitted < known.submitted_ns:
                known.submitted_ns = submitted
                if options.position is None:
                    known.position = min(known.position, _position(submitted))
            return known
        pool = self.pool
        priority = job_priority(cluster, pool, group, options)
        job = self.jobs[key] = Job(
            key=key,
            name=key if options.job else name_of(group),
            weight=options.weight or pool.weight,
            priority=priority.value,
            priority_source=priority.source,
            stated_priority=options.priority,
            rank=priority_rank(pool, priority.value),
            max_slots=options.max_slots,
            position=_position(submitted, options.position),
            submitted_ns=submitted,
            is_preemptible=options.is_preemptible,
            may_refuse_preemption=is_permitted(
                (
                    cluster.policy.of_queue(group.queue).bounds.may_refuse_preemption,
                    pool.use.bounds.may_refuse_preemption,
                ),
                default=True,
            ),
            is_single_node=options.is_single_node,
            timeout_ns=pool.preemption_timeout_ns
            if options.timeout_ns is None
            else options.timeout_ns,
            queued=[],
            running=[],
        )
        return job

    def queued(self, *, has_slots: bool) -> list[Task]:
        """Return the queued tasks of one class: with or without slots."""
        return [
            task
            for job in self.jobs.values()
            for task in job.queued
            if (task.slots > 0) == has_slots
        ]

    def running(self, *, has_slots: bool) -> list[Task]:
        """Return the running tasks of one class: with or without slots."""
        return [
            task
            for job in self.jobs.values()
            for task in job.running
            if (task.slots > 0) == has_slots
        ]


def name_of(group: PodGroup) -> str:
    """Return the name by which a pod group is sorted: its key, or that of the pod or owner out of whose UID it is made."""
    namespace, _, name = group.key.partition("/")
    if group.observed.facts is not None or not name.startswith(NAMED_BY_UID) or not group.pods:
        return group.key
    first = next(iter(group.pods.values())).facts
    if first.group_name:
        return group.key
    return f"{namespace}/{first.owner.name if first.owner else first.name}"


def task_order(task: Task) -> tuple[object, ...]:
    """Return the sort key of tasks in a priority pool (determined 3.3): rank, position, age."""
    return task.job.rank, task.job.position, task.age


def _position(submitted_ns: int, stated: Fraction | None = None) -> Position:
    """Return the place in line that a job states, or the time of its submission."""
    if stated is None:
        whole, rest = divmod(submitted_ns, MICROSECOND)
        return Fraction(submitted_ns, MICROSECOND) if rest else whole
    return stated.numerator if stated.denominator == 1 else stated


def _age(task: Task) -> Age:
    return task.age


def _running(group: PodGroup, placed: list[Pod]) -> Iterator[list[Pod]]:
    """Yield the pods of each running task: the gang, and each pod beyond its minimum."""
    placed = sorted(placed, key=lambda pod: (pod.decided.bound_at, pod.sort_key))
    least = group.observed.min_available if group.observed.min_available > 1 else 0
    if least and placed:
        yield placed[:least]
    for pod in placed[least:]:
        yield [pod]


def _queued(group: PodGroup) -> Iterator[list[Pod]]:
    """Yield the pods of each queued task: what the gang lacks, or, if it lacks none, each pod beyond its minimum."""
    lacking = group.observed.min_available - group.counts.ready
    pods = sorted(group.pending, key=lambda pod: pod.pod_class.is_best_effort)
    if group.enforced_roles or group.sub_groups is not None:
        lacking = len(pods)
    if pods and group.observed.min_available > 1 and not group.is_ready and lacking > 0:
        yield pods[:lacking]
        return
    for pod in group.pending:
        yield [pod]


def _waits_for_exit(cluster: Cluster, group: PodGroup, placed: list[Pod]) -> bool:
    """Return whether a gang is about to lack pods that still run: it starts whole when they have exited."""
    asked = sum(pod.facts.uid in cluster.tables.of(PoolFacts).releases for pod in placed)
    return (
        group.observed.min_available > 1
        and 0 < asked > group.counts.ready - group.observed.min_available
    )


def _problem(group: PodGroup) -> Unschedulable | None:
    """Return why a pod group is not considered."""
    if group.problem is not None:
        return Unschedulable(group.problem[0], "", group.problem[1])
    if group.observed.facts is None and group.observed.min_available > 1:
        stated = _stated_priorities(group)
        if len(stated) > 1:
            said = ", ".join(f"pod {pod} states {number}" for number, pod in stated.items())
            text = f"its pods state different {PRIORITY}: {said}"
            return Unschedulable(GANG_PRIORITY_MISMATCH, "", text)
    short = missing_pods(group) if group.pending else None
    if short is None:
        return None
    if group.observed.facts is None and group.observed.min_available > 1:
        text = (
            f"min-available is {group.observed.min_available}, and the group has {group.counts.valid} pods: the label counts pods,"
            f" not GPUs"
        )
        return Unschedulable(GANG_SIZE_MISMATCH, "", text)
    return short


def _stated_priorities(group: PodGroup) -> dict[int, str]:
    """Return the first two different priorities that waiting pods state, each with such a pod. The options of pods that run
    may be of another time."""
    found: dict[int, str] = {}
    for pod in group.pending:
        stated = pod.facts.pool_options
        number = job_options((), (stated,)).priority if stated else None
        if number is not None and number not in found:
            found[number] = pod.key
            if len(found) > 1:
                break
    return found
