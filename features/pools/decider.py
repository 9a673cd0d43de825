"""The deciders `fair_share`, `priority` and `round_robin`: one pass over the jobs of a pool when something changed in it."""

from collections.abc import Iterator
from typing import Final

from events.decision import INTERNAL_ERROR, Decision, Eviction
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.enqueue import EnqueueDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import RELEASE, ReleaseDecided
from features.pools.facts import PoolFacts
from features.pools.fair_share import fair_share_pass
from features.pools.index import PoolIndex
from features.pools.outcome import POOL_CHANGED, PassResult, Released
from features.pools.priority import priority_pass
from features.pools.round_robin import round_robin_pass
from features.pools.tasks import PoolTasks
from features.pools.working_nodes import WorkingNodes
from projections.budget_refusals import is_overdue
from projections.cluster import Cluster
from projections.internal_error import OnError, ignore
from projections.pod_groups import WAITING, PodGroup
from projections.pods import BINDING, RUNNING, Pod
from projections.policy.pools import FAIR_SHARE, POOL_ACTION, PRIORITY, Pool
from projections.state import State
from scheduling.decide import OtherDeciders
from scheduling.explain.bounds import option_hurdles
from scheduling.explanation import Explanation, Hurdle, Subject, Waiting
from scheduling.rejected_pods import recreate_rejected
from scheduling.session import Session
from scheduling.session_decider import FeatureAction
from scheduling.trial import placements
from scheduling.unschedulable import Unschedulable, refusal

DEADLINE: Final = "DEADLINE"
"""Code of the eviction of a pod that was asked to exit and has not."""
POOL_NOT_FOUND: Final = "POOL_NOT_FOUND"
"""Code of the refusal of a pod group that names a pool that does not exist."""


class PoolPassDecider:
    """Decides for one pool by passes."""

    def __init__(self, state: State, pool: Pool, on_error: OnError = ignore) -> None:
        self.session = Session(state, on_error, pool.name)
        self.pool = pool

    def wakes(self, at_ns: int) -> bool:
        """Return True if a cycle at this moment could decide anything."""
        state, cluster = self.session.state, self.session.cluster
        if not state.is_synced:
            return False
        deadline = state.next_deadline_ns
        return (
            (deadline is not None and deadline <= at_ns)
            or bool(cluster.wakeup_events.faulty_groups)
            or bool(cluster.queues_with_unreported_errors)
            or bool(cluster.config_errors.unreported)
        )

    def decide(self) -> Iterator[Decision]:
        """Yield the decisions of a cycle: those of one pass, if the pool is due."""
        session, cluster = self.session, self.session.cluster
        session.open_cycle()
        yield from recreate_rejected(cluster)
        for action in cluster.features.of(FeatureAction):
            yield from action.decide(session)
        if self.pool.name not in cluster.tables.of(PoolFacts).due:
            return
        yield from self._admitted()
        try:
            result, tasks = self._pass()
        except Exception as error:  # any bug
            yield from session.action_failed(f"pool {self.pool.name}", error, is_abandoned=True)
            return
        yield from self._starts(result)
        for one in result.releases:
            yield from self._release(one)
        yield from self._refusals(result, tasks)

    def deferred(self) -> Iterator[Decision]:
        """Yield nothing: a pass is never cut short."""
        yield from ()

    def drop_stale(self) -> None:
        """Drop the parts of caches that are out of date."""
        self.session.rankings.drop_stale()

    def explain(self, subject: Subject) -> Explanation | None:
        """Return why a pod group waits; nothing about nodes. None for a subject of another pool."""
        cluster = self.session.cluster
        if not isinstance(subject, PodGroup):
            return None
        if cluster.indexes.of(PoolIndex).groups.get(subject.key) != self.pool.name:
            return None
        standing = subject.decided.refusals.get(POOL_ACTION)
        if not subject.pending:
            return Explanation()
        cluster.nodes.lay_out()
        result, tasks = self._pass()
        reason = self._reasons(result, tasks).get(subject.key)
        if reason is None:
            text = f"pool {self.pool.name} would start it now"
            return Explanation(waiting=_waiting(cluster, subject, "", "", 0, text))
        since = 0 if standing is None else standing.position
        return Explanation(
            waiting=_waiting(cluster, subject, reason.code, reason.message, since, reason.message)
        )

    def _pass(self) -> tuple[PassResult, PoolTasks]:
        """Return the decisions of a pass. State is as before."""
        state = self.session.state
        tasks = PoolTasks(state, self.pool)
        with WorkingNodes(self.session, self.pool, tasks) as nodes:
            if self.pool.decider == FAIR_SHARE:
                result = fair_share_pass(nodes, tasks)
            elif self.pool.decider == PRIORITY:
                result = priority_pass(
                    nodes, tasks, state.cluster.tables.of(PoolFacts), state.now_ns
                )
            else:
                result = round_robin_pass(nodes, tasks)
            self.session.groups_examined += len(tasks.jobs)
        named = {one.task.name for one in result.releases}
        result.releases += [one for one in self._moved(tasks) if one.task.name not in named]
        return result, tasks

    def _admitted(self) -> Iterator[Decision]:
        """Yield the admission of all pod groups: the pool has the queue, and controllers may create pods."""
        cluster = self.session.cluster
        for key in sorted(cluster.indexes.of(PoolIndex).by_pool.get(self.pool.name, ())):
            group = cluster.groups[key]
            has_work = bool(group.pending) or group.observed.facts is not None
            if (
                group.decided.phase == WAITING
                and has_work
                and group.problem is None
                and not group.is_foreign
            ):
                yield EnqueueDecided(pod_group=key, queue=group.queue)

    def _starts(self, result: PassResult) -> Iterator[Decision]:
        cluster = self.session.cluster
        for one in result.starts:
            reserved, group = one.reserved, one.reserved.task.group
            kind = BackfillBindDecided if one.is_backfill else GangBindDecided
            yield kind(
                pod_group=group.key,
                queue=group.queue,
                placements=placements(cluster, reserved.placed, reserved.network),
            )

    def _moved(self, tasks: PoolTasks) -> Iterator[Released]:
        """Yield the tasks that run on nodes of another pool: their job or their nodes have changed their pool."""
        pools = self.session.cluster.indexes.of(PoolIndex).nodes
        for job in tasks.jobs.values():
            for task in job.running:
                if not (task.is_elsewhere and task.is_preemptible):
                    continue
                node, other = next(
                    (pod.node, pools[pod.node])
                    for pod in task.pods
                    if pools.get(pod.node, "") not in ("", self.pool.name)
                )
                text = f"job {job.key} is in pool {self.pool.name}, and node {node} in pool {other}"
                yield Released(task, POOL_CHANGED, text)

    def _release(self, one: Released) -> Iterator[Decision]:
        """Yield the request to a task to exit. One whose pods do not all run yet is evicted at once."""
        task, state = one.task, self.session.state
        if task.is_releasing or any(pod.status == BINDING for pod in task.pods):
            return  # It is asked already, or cannot be until its binding has an outcome.
        group = state.cluster.groups[task.group.key]
        cause = "" if one.cause is None else one.cause.group.key
        evictions = _evictions(state.cluster, task.pods)
        timeout = task.job.timeout_ns
        if timeout and all(pod.status == RUNNING for pod in task.pods):
            yield ReleaseDecided(
                pod_group=group.key,
                queue=group.queue,
                evictions=evictions,
                action=RELEASE,
                in_favour_of=cause,
                code=one.code,
                message=one.message,
                deadline_ns=state.now_ns + timeout,
            )
            return
        yield EvictionDecided(
            pod_group=group.key,
            queue=group.queue,
            evictions=evictions,
            action=RELEASE,
            in_favour_of=cause,
            code=one.code,
            message=one.message,
        )

    def _reasons(self, result: PassResult, tasks: PoolTasks) -> dict[str, Unschedulable]:
        """Return why pod groups wait, by key: the reason of the first task of each."""
        reasons = dict(tasks.refused)
        started = {one.reserved.task.name for one in result.starts}
        for job in tasks.jobs.values():
            for task in job.queued:
                if task.name in started or task.group.key in reasons:
                    continue
                found = result.waiting.get(task.name)
                if found is not None:
                    reasons[task.group.key] = found
        return reasons

    def _refusals(self, result: PassResult, tasks: PoolTasks) -> Iterator[Decision]:
        """Yield why pod groups wait, where that has changed."""
        cluster = self.session.cluster
        for key, reason in self._reasons(result, tasks).items():
            group = cluster.groups.get(key)
            if group is None or not group.pending:
                continue
            standing = group.decided.refusals.get(POOL_ACTION)
            if standing is not None and (standing.code, standing.limit) == (
                reason.code,
                reason.limit,
            ):
                continue
            yield refusal(group, POOL_ACTION, reason)


class PoolDeciders(OtherDeciders):
    """Decides for pools by passes, evicts what was asked to exit in vain, and refuses jobs without a pool."""

    def of_pool(self, state: State, pool: Pool, on_error: OnError) -> PoolPassDecider:
        """Return the decider of a pool."""
        return PoolPassDecider(state, pool, on_error)

    def before_pools(self, state: State) -> Iterator[Decision]:
        """Yield the decisions of a cycle that come before those of all pools."""
        yield from _evict_overdue(state)
        yield from _refuse_without_pool(state)


def _evict_overdue(state: State) -> Iterator[Decision]:
    """Yield the eviction of pods that were asked to exit and have not when their time was over."""
    cluster = state.cluster
    overdue: dict[tuple[str, str], list[Pod]] = {}
    for pod, one in cluster.tables.of(PoolFacts).standing(cluster):
        if one.deadline_ns <= state.now_ns:
            overdue.setdefault((pod.group_key, one.in_favour_of), []).append(pod)
    for (key, cause), pods in sorted(overdue.items()):
        group = cluster.groups.get(key)
        yield EvictionDecided(
            pod_group=key,
            queue="" if group is None else group.queue,
            evictions=_evictions(cluster, pods),
            action=RELEASE,
            in_favour_of=cause,
            code=DEADLINE,
            message="it was asked to exit and has not exited in time",
        )


def _refuse_without_pool(state: State) -> Iterator[Decision]:
    """Yield the refusal of pod groups that name a pool that does not exist."""
    cluster = state.cluster
    for key in sorted(cluster.indexes.of(PoolIndex).by_pool.get("", ())):
        group = cluster.groups[key]
        standing = group.decided.refusals.get(POOL_ACTION)
        is_known = standing is not None and standing.code == POOL_NOT_FOUND
        if not group.pending or is_known or group.is_foreign:
            continue
        names = ", ".join(one.name for one in cluster.policy.pools.all)
        text = f"the pool that it names does not exist: the policy has {names}"
        yield refusal(group, POOL_ACTION, Unschedulable(POOL_NOT_FOUND, "", text))


def _evictions(cluster: Cluster, pods: list[Pod]) -> tuple[Eviction, ...]:
    """Return the evictions of pods. Budgets delay what a pool releases for `budgetTimeout` of the policy at most."""
    is_always = cluster.policy.action_arguments.protects_always
    return tuple(
        [
            Eviction(
                pod=pod.key,
                uid=pod.facts.uid,
                node=pod.node,
                is_without_budgets=not is_always and is_overdue(cluster, pod.facts.uid),
            )
            for pod in pods
        ]
    )


def _waiting(
    cluster: Cluster, group: PodGroup, code: str, message: str, since: int, text: str
) -> Waiting:
    hurdle = Hurdle("pod group", not code or code == INTERNAL_ERROR, text)
    return Waiting(
        pod_group=group.key,
        code=code,
        message=message,
        since=since,
        hurdles=(*option_hurdles(cluster, group), hurdle),
        admission=(),
        quota=(),
        nodes=None,
        held=(),
        line=None,
    )
