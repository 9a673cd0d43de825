"""Annotations and labels of an Ascend job: those of its PodGroup, which Volcano copies from the Job, and of its pods."""

from events.limits import quoted, whole_number
from features.ascend.chips import INVALID_ARGUMENT, NO_PROBLEM, Problem
from projections.device_family import DeviceFamily, DeviceRequest
from projections.pod_annotations import MIN_AVAILABLE
from projections.refusals import NOT_ENOUGH_PODS


def option_problem(family: DeviceFamily, request: DeviceRequest) -> Problem:
    """Return whether pods of an earlier start are still terminating, whether the PodGroup and a pod say different things,
    or state a minimum that is no number."""
    if request.job.terminating:
        text = f"job is not ready: {request.job.terminating} of its pods are still terminating"
        return Problem(NOT_ENOUGH_PODS, text)
    for key, value in request.job.options:
        for one in request.job.classes:
            own = dict(one.device_options).get(key, value)
            if key in family.group_options and own != value:
                text = f"{key}: the PodGroup has {quoted(value)}, and a pod of it {quoted(own)}"
                return Problem(INVALID_ARGUMENT, text)
    least = request.options.get(MIN_AVAILABLE, "1")
    if whole_number(least) is None:
        return Problem(INVALID_ARGUMENT, f"job task minAvailable {quoted(least)} is invalid")
    return NO_PROBLEM
