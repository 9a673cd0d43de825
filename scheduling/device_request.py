"""Checks of what the pods of a whole group request of devices, before any node is looked at."""

import re
from collections.abc import Callable
from typing import Final

from events.limits import clipped
from events.requeue import ANY_NODE
from projections.device_family import JOB_NAME, POD_NAME, JobShape
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED
from projections.refusals import NOT_ENOUGH_PODS
from scheduling.node_ranking import NodeRankings
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable

_POD_NAME: Final = re.compile(re.escape(POD_NAME.format("0")).replace("0", "([0-9]+)"))


def invalid_device_request(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why a device family refuses the requests of a group, whatever nodes there are; None if none does.

    Only a change of the group, or of the policy, can change the answer.
    """
    rankings = session.rankings
    job = rankings.job_of(group)
    if not job.classes:
        return None
    if job not in rankings.job_problems:
        rankings.job_problems[job] = _problem(rankings, job)
    code, text = rankings.job_problems[job]
    if not code:
        return None
    return Unschedulable(code, "", _with_names(text, group), never_fits=code != NOT_ENOUGH_PODS)


def naming_each(
    session: Session, head: PodGroup, reason: Unschedulable
) -> Callable[[PodGroup, Unschedulable], Unschedulable] | None:
    """Return a function that rewrites a refusal of a group by a device family so that it names an equal group and its pods;
    None for other refusals, which name neither."""
    if invalid_device_request(session, head) != reason:
        return None
    return lambda group, of_head: invalid_device_request(session, group) or of_head


def too_few_devices(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why a group is not admitted to its queue: its PodGroup needs more devices than it has and are free. None
    if enough are free, or if evictions could free some."""
    stated = None if group.observed.facts is None else group.observed.facts.min_resources
    if not stated or session.cluster.policy.evicting:
        return None
    # Where a raised minimum makes the gang, the resources are those of one pod.
    times = (
        group.observed.min_available
        if group.observed.facts and group.observed.facts.min_available == 1
        else 1
    )
    for states in session.rankings.device_answers.states.values():
        for resource, each in stated.items():
            amount = each * times - _held(group, resource)
            offered = states.family.admission_limit(session.cluster.plugins, resource)
            total = amount if offered is None else states.total(offered)
            if total < amount:
                text = f"require npu num is {amount}, but cluster npu num is {total}"
                return Unschedulable("JobEnqueueFailed", resource, text, requeue_on=(ANY_NODE,))
    return None


def _held(group: PodGroup, resource: str) -> int:
    """Return how much of a resource the pods of a group have on nodes: it does not need that again."""
    if not group.counts.allocated:
        return 0
    pods = (pod for pod in group.pods.values() if pod.status in ALLOCATED)
    return sum(dict(pod.pod_class.request).get(resource, 0) for pod in pods)


def never_evicts(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why no pods are evicted in favour of a group because of the devices that it requests; None if they may be."""
    job = session.rankings.job_of(group)
    for pod_class in job.classes:
        request = session.rankings.device_request(pod_class, None, job)
        for name, _ in pod_class.asked_devices:
            if not session.cluster.device_families[name].may_evict(request):
                text = f"no pods are evicted in favour of a job with such devices ({name})"
                return Unschedulable("NoVictims", "", text)
    return None


def _with_names(text: str, group: PodGroup) -> str:
    """Return a message with the name of the group, and of the first pod that asks for a number of devices."""

    def name_of(found: re.Match[str]) -> str:
        count = int(found[1])
        asking = [
            pod
            for pod in group.pods.values()
            if any(each == count for _, each in pod.pod_class.asked_devices)
        ]
        first = min(asking, key=lambda pod: (pod.sort_key, pod.facts.uid), default=None)
        return "" if first is None else first.facts.name

    return clipped(_POD_NAME.sub(name_of, text.replace(JOB_NAME, group.key)))


def _problem(rankings: NodeRankings, job: JobShape) -> tuple[str, str]:
    families = rankings.cluster.device_families
    for pod_class in job.classes:
        asked = [name for name, _ in pod_class.asked_devices]
        if len(asked) > 1:
            text = f"a pod requests devices of several families: {', '.join(asked)}"
            return "InvalidResourceRequest", text
        for name in asked:
            problem = families[name].job_problem(rankings.device_request(pod_class, None, job))
            if problem[0]:
                return problem
    return "", ""
