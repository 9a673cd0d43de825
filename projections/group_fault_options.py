"""What a pod group wants done after a fault, by the labels and annotations of its object and of its pods."""

from projections.fault_options import LABELS, FaultOptions, read_options
from projections.pod_groups import PodGroup
from projections.policy.action_arguments import RescheduleArguments


def fault_options(group: PodGroup, defaults: RescheduleArguments) -> FaultOptions:
    """Return what a group wants done after a fault."""
    given: dict[str, str] = {}
    for pod in group.pods.values():
        labels = dict(pod.facts.labels)
        for key in LABELS:
            if key in labels:
                given.setdefault(key, labels[key])
        for key, value in pod.facts.fault_options:
            given.setdefault(key, value)
    if group.observed.facts is not None:
        given.update(dict(group.observed.facts.fault_options))
    return read_options(given, defaults)
