"""Apply PriorityClass objects. A pod group that names an unknown class has the default priority and a configuration
error."""

from typing import Final

from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.preemption_triggers import PriorityClass

UNKNOWN_CLASS: Final = "UnknownPriorityClass"


def put_priority_class(cluster: Cluster, name: str, value: PriorityClass | None) -> None:
    """Add, update or (None) remove a class."""
    if cluster.priority_classes.get(name) == value:
        return
    cluster.follow_change_of_all()
    if value is None:
        del cluster.priority_classes[name]
    else:
        cluster.priority_classes[name] = value
    cluster.pod_groups.mark_all(cluster.groups, cluster.position)
    for group in cluster.groups.values():
        check_priority_class(cluster, group)


def check_priority_class(cluster: Cluster, group: PodGroup) -> None:
    """Record an error if the class that a PodGroup names does not exist."""
    if group.observed.facts is None:
        return
    subject, name = f"PodGroup/{group.key}", group.observed.facts.priority_class
    current_errors = cluster.config_errors.current.get(subject, ())
    faults = tuple(one for one in current_errors if one[0] != UNKNOWN_CLASS)
    if name and name not in cluster.priority_classes and not group.is_foreign:
        text = f"spec.priorityClassName: PriorityClass {name} does not exist; the default counts"
        faults = (*faults, (UNKNOWN_CLASS, text))
    if faults != current_errors:
        cluster.config_errors.put(subject, faults)
