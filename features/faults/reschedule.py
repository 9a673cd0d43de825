"""Reschedule: delete pods of jobs that a fault hit, so that their controllers create them again elsewhere.

Only pod groups of which a fault, a pod or a time changed are looked at. Each is decided by at most one deletion a cycle.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from events.decision import Decision, Eviction
from events.decisions.faults_marked import FaultsMarked
from events.decisions.reschedule import (
    JOB,
    POD,
    REPLACED,
    RESCHEDULE,
    RESTARTED,
    SUPER_POD,
    TIMED_OUT,
    RescheduleDecided,
    RestartEnded,
)
from events.duration import SECOND
from features.faults.fault_grace import FaultGrace
from features.faults.job_faults import (
    JobFaults,
    is_master,
    is_movable,
    job_faults,
    job_ranks,
    living_pods,
    members,
    scope_of,
)
from features.faults.restart_block import RestartBlock
from projections.fault_options import FORCE, GRACE, FaultOptions
from projections.faulty_pods import FaultyPods
from projections.group_fault_options import fault_options
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.rescheduling import Restart, is_stranded
from projections.restart_times import GRACE_NS, escalation_times
from projections.restarts import owner_of
from scheduling.session import Session
from scheduling.session_decider import FeatureAction

STRANDED: Final = "Stranded"
"""Code of the restart of a gang that was below its minimum for too long."""


class RescheduleAction(FeatureAction):
    """The action `reschedule`."""

    name = RESCHEDULE

    def decide(self, session: Session) -> Iterator[Decision]:
        """Decide for every pod group whose faults or restart may have changed."""
        for key in sorted(session.state.cycle_events.faulty_groups):
            if not session.is_in_pool(key):
                continue
            yield from _end_restart(session, key)
            group = session.cluster.groups.get(key)
            if group is not None:
                yield from _restart(session, group)


def _end_restart(session: Session, key: str) -> Iterator[Decision]:
    """Yield the end of a restart that is over."""
    cluster, now = session.cluster, session.state.now_ns
    restart, group = cluster.reschedulings.restarts.get(key), cluster.groups.get(key)
    if restart is None:
        return
    code, text = "", ""
    if group is not None and group.pods and owner_of(group) != restart.owner:
        code, text = REPLACED, "another workload has its name"
    elif restart.is_owner_gone:
        code, text = REPLACED, "its workload was deleted"
    elif group is not None and restart.is_complete(group):
        seconds = (now - restart.begun_ns) // SECOND
        code, text = RESTARTED, f"{group.counts.allocated} pods have nodes again after {seconds} s"
    elif now >= restart.timeout_ns:
        seconds = (now - restart.begun_ns) // SECOND
        code, text = (
            TIMED_OUT,
            f"it is not complete after {seconds} s, and is a job like any other",
        )
    if code:
        queue = "" if group is None else group.queue
        taken = now - restart.begun_ns
        yield RestartEnded(pod_group=key, queue=queue, code=code, message=text, restart_ns=taken)


def _restart(session: Session, group: PodGroup) -> Iterator[Decision]:
    state, cluster = session.state, session.cluster
    options = fault_options(group, cluster.policy.action_arguments.rescheduling)
    if not options.is_on or _lacks_object(group):
        return
    found = job_faults(cluster, group, options, state.now_ns)
    if options.is_external:
        yield from _mark(session, group, options, found)
        return
    if found.faults and not _has_too_many_restarts(session, group):
        faulty = [cluster.pods[uid] for uid in sorted(found.faults)]
        living = living_pods(group)
        ranks = job_ranks(state, living)
        scope = found.scope or scope_of(group, options, faulty, ranks)
        chosen = faulty if scope == POD else [pod for pod in living if is_movable(pod, options)]
        texts = list(dict.fromkeys(one.text for one in found.faults.values()))
        shown = "; ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
        kinds = list(dict.fromkeys(one.kind for one in found.faults.values()))
        yield RescheduleDecided(
            pod_group=group.key,
            queue=group.queue,
            evictions=_evictions(chosen),
            action=RESCHEDULE,
            code=kinds[0],
            message=shown,
            mode=found.mode,
            scope=scope,
            members=tuple(
                one
                for one in members(state, group, dict(found.faults))
                if one.uid not in found.backups
            ),
            grace_ns=_grace_ns(session) if found.mode == GRACE else 0,
        )
        return
    yield from _go_on(session, group, options)


def _lacks_object(group: PodGroup) -> bool:
    """Return whether the pods name a PodGroup that is gone: their job is over, and no controller would create them again."""
    return group.observed.facts is None and any(
        pod.facts.needs_group_object for pod in group.pods.values()
    )


def _mark(
    session: Session, group: PodGroup, options: FaultOptions, found: JobFaults
) -> Iterator[Decision]:
    """Yield the faults that are not written on their pods: a controller outside restarts these."""
    marks = session.cluster.reschedulings.marks
    new = {
        uid: fault
        for uid, fault in found.faults.items()
        if uid not in marks or marks[uid].fault != fault.kind
    }
    if new:
        pods = [one for one in members(session.state, group, new) if one.uid in new]
        yield FaultsMarked(
            pod_group=group.key, queue=group.queue, mode=options.mode, members=tuple(pods)
        )


def _has_too_many_restarts(session: Session, group: PodGroup) -> bool:
    """Return whether the job was restarted as often within an hour as the policy allows."""
    cluster = session.cluster
    times = cluster.reschedulings.restarted_ns.get(group.key, ())
    return len(times) >= cluster.policy.action_arguments.rescheduling.limit


def _go_on(session: Session, group: PodGroup, options: FaultOptions) -> Iterator[Decision]:
    """Yield what is due of a restart: deletion by force, more pods because it is not complete, the rest of a gang."""
    state, cluster = session.state, session.cluster
    book, arguments = cluster.reschedulings, cluster.policy.action_arguments.rescheduling
    now = state.now_ns
    restart = book.restarts.get(group.key)
    if restart is not None:
        overdue = _overdue(session, restart)
        if overdue:
            yield _more(
                session, group, overdue, restart.scope, FORCE, "GraceOver", _grace_text(restart)
            )
            return
        pods, scope = _escalation(session, group, options, restart)
        if pods:
            seconds = (now - restart.first_gone_ns) // SECOND
            text = f"the job is not complete {seconds} s after the first deleted pods were gone"
            yield _more(session, group, pods, scope, options.mode, "Escalated", text)
            return
    since = book.stranded_since_ns.get(group.key)
    if (
        since is not None
        and arguments.stranded_ns
        and now >= since + arguments.stranded_ns
        and is_stranded(group)
        and not options.never_escalates
        and not options.recovers_processes
        and not (restart is not None and restart.leaving)
        and not _has_too_many_restarts(session, group)
    ):
        have, least = group.counts.ready, group.observed.min_available
        text = f"{have} of the {least} pods that it needs for {(now - since) // SECOND} s"
        pods = [pod for pod in living_pods(group) if is_movable(pod, options)]
        if pods:
            yield _more(session, group, pods, JOB, options.mode, STRANDED, text)


def _overdue(session: Session, restart: Restart) -> list[Pod]:
    """Return the deleted pods that should have ended, and are still there."""
    if restart.mode not in (GRACE, FORCE) or not restart.leaving:
        return []
    if session.state.now_ns < restart.overdue_ns:
        return []
    pods = (session.cluster.pods.get(uid) for uid in sorted(restart.leaving))
    # A pod that a disruption budget protects is not terminating: it is evicted again instead.
    return [pod for pod in pods if pod is not None and pod.facts.is_releasing]


def _grace_text(restart: Restart) -> str:
    return f"pods have not ended {restart.grace_ns // SECOND} s after they were evicted"


def _escalation(
    session: Session, group: PodGroup, options: FaultOptions, restart: Restart
) -> tuple[list[Pod], str]:
    """Return the pods that are deleted next because the job is not complete again in time, and their scope."""
    if restart.scope == JOB or not restart.first_gone_ns or options.never_escalates:
        return [], ""
    if options.recovers_processes or (group.is_ready and not restart.leaving):
        return [], ""
    now, arguments = session.state.now_ns, session.cluster.policy.action_arguments.rescheduling
    of_block, of_job = escalation_times(restart.first_gone_ns, arguments)
    living = [pod for pod in living_pods(group) if is_movable(pod, options)]
    if now >= of_job:
        return living, JOB
    if now >= of_block and restart.scope == POD:
        blocks = session.cluster.features.of(RestartBlock)
        pods = [pod for one in blocks for pod in one.of_same_blocks(living, restart)]
        ranks = job_ranks(session.state, pods)
        if any(is_master(pod, ranks.get(pod.facts.uid, -1)) for pod in pods):
            return living, JOB
        return pods, SUPER_POD
    return [], ""


def _more(
    session: Session,
    group: PodGroup,
    pods: Iterable[Pod],
    scope: str,
    mode: str,
    code: str,
    text: str,
) -> RescheduleDecided:
    index = session.cluster.indexes.of(FaultyPods)
    own = index.by_group.get(group.key, {})
    faults = {uid: index.pods[uid] for uid in own}
    return RescheduleDecided(
        pod_group=group.key,
        queue=group.queue,
        evictions=_evictions(pods),
        action=RESCHEDULE,
        code=code,
        message=text,
        mode=mode,
        scope=scope,
        members=members(session.state, group, faults),
        grace_ns=_grace_ns(session),
        is_escalation=code != STRANDED,
    )


def _evictions(pods: Iterable[Pod]) -> tuple[Eviction, ...]:
    return tuple([Eviction(pod=pod.key, uid=pod.facts.uid, node=pod.node) for pod in pods])


def _grace_ns(session: Session) -> int:
    """Return the time until pods that do not end are deleted by force: of the policy, or of a plugin of it."""
    stated = session.cluster.policy.action_arguments.rescheduling.grace_ns
    if stated is not None:
        return stated
    plugins = session.cluster.plugins.of(FaultGrace)
    return next((one.grace_ns for one in plugins), GRACE_NS)
