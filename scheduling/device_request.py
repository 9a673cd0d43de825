"""Validation of what the pods of a whole group request of devices, before any node is looked at."""

from projections.device_family import FAMILIES, JobShape
from projections.pod_groups import PodGroup
from scheduling.node_ranking import NodeRankings
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable


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
    return Unschedulable(code, "", text, never_fits=True) if code else None


def _problem(rankings: NodeRankings, job: JobShape) -> tuple[str, str]:
    for pod_class in job.classes:
        asked = [name for name, _ in pod_class.asked_devices]
        if len(asked) > 1:
            text = f"a pod requests devices of several families: {', '.join(asked)}"
            return "InvalidResourceRequest", text
        for name in asked:
            problem = FAMILIES[name].job_problem(rankings.device_request(pod_class, None, job))
            if problem[0]:
                return problem
    return "", ""
