"""Validation of what the pods of a whole group request of devices, before any node is looked at."""

from projections.device_family import FAMILIES
from projections.pod_groups import PodGroup
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable


def invalid_device_request(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why a device family refuses the requests of a group, whatever nodes there are; None if none does.

    Only a change of the group, or of the policy, can change the answer.
    """
    rankings = session.rankings
    job = rankings.job_of(group)
    for pod_class in job.classes:
        asked = [name for name, _ in pod_class.asked_devices]
        if len(asked) > 1:
            text = f"a pod requests devices of several families: {', '.join(asked)}"
            return Unschedulable("InvalidResourceRequest", "", text, never_fits=True)
        for name in asked:
            code, text = FAMILIES[name].job_problem(rankings.device_request(pod_class, None, job))
            if code:
                return Unschedulable(code, "", text, never_fits=True)
    return None
